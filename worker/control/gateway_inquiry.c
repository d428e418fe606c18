/* A look-up, and one GET. */
#include "worker/control/gateway_inquiry.h"

#include "common/net/route.h"

#include <curl/curl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS    2000L
#define ADDRESSES_MAX 4
#define URL_BYTES     512
/* RFC 9110, 15.5.20: not the server for this request. */
#define MISDIRECTED 421

/* What stands behind the scheme. */
static const char *authority_of(const char *url) {
    const char *scheme_end = strstr(url, "://");
    return scheme_end ? scheme_end + 3 : url;
}

void lh_gateway_inquiry_resolve(const char *gateway_url, char text[LH_GATEWAY_ADDRESSES_BYTES]) {
    lh_address address;
    lh_route_targets targets = {0};
    lh_error error;
    size_t used = 0;
    text[0] = '\0';
    if (lh_address_parse(authority_of(gateway_url), &address, NULL) == LH_OK &&
        lh_route_resolve(&address, &targets, &error) != LH_OK)
        snprintf(text, LH_GATEWAY_ADDRESSES_BYTES, "none: %.180s", error.message);
    for (size_t i = 0; i < targets.count && i < ADDRESSES_MAX; i++) {
        char one[NI_MAXHOST];
        const struct sockaddr *target = (const struct sockaddr *)&targets.addresses[i];
        if (getnameinfo(target, sizeof targets.addresses[i], one, sizeof one, NULL, 0,
                        NI_NUMERICHOST) == 0)
            used += (size_t)snprintf(text + used, LH_GATEWAY_ADDRESSES_BYTES - used, "%s%.46s",
                                     used ? ", " : "", one);
    }
}

static size_t drop(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    (void)context;
    return size * count;
}

static bool set_options(CURL *easy, const char *url) {
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, TIMEOUT_MS) == CURLE_OK;
}

/* Of the answer that has come. */
static int port_of(CURL *easy) {
    struct curl_header *header;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != MISDIRECTED ||
        curl_easy_header(easy, "longhaul-fleet-port", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return 0;
    long port = strtol(header->value, NULL, 10);
    return port > 0 && port <= 65535 ? (int)port : 0;
}

int lh_gateway_inquiry_fleet_port(const char *gateway_url, const char *worker_name) {
    char url[URL_BYTES];
    int port = 0, length = snprintf(url, sizeof url, "http://%s/fleet/workers/%s",
                                    authority_of(gateway_url), worker_name);
    if (length < 0 || (size_t)length >= sizeof url)
        return 0;
    CURL *easy = curl_easy_init();
    if (easy && set_options(easy, url) && curl_easy_perform(easy) == CURLE_OK)
        port = port_of(easy);
    curl_easy_cleanup(easy);
    return port;
}
