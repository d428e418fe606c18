/* libcurl, once. */
#include "gateway/cli/api_transfer.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_TIMEOUT_MS 5000L

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context) {
    const lh_api_request *request = context;
    size_t length = size * count;
    return request->on_bytes(request->context, bytes, length) ? length : 0;
}

static int on_progress(void *context, curl_off_t down, curl_off_t have, curl_off_t up,
                       curl_off_t sent) {
    const lh_api_request *request = context;
    (void)down, (void)have, (void)up, (void)sent;
    return !request->goes_on(request->context);
}

/* URL, path and the last word of it, malloc'd; NULL: no memory. */
static char *make_url(CURL *easy, const char *url, const char *path, const char *word) {
    size_t length = strlen(url);
    char *escaped = curl_easy_escape(easy, word, 0), *whole = NULL;
    while (length > 0 && url[length - 1] == '/')
        length--;
    if (length > 3 && strncmp(url + length - 3, "/v1", 3) == 0)
        length -= 3;
    if (escaped && asprintf(&whole, "%.*s%s%s", (int)length, url, path, escaped) < 0)
        whole = NULL;
    curl_free(escaped);
    return whole;
}

static bool set_up(CURL *easy, const lh_api_request *request, const char *url,
                   struct curl_slist *headers, char *reason) {
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           (!request->json ||
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->json) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, request) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOPROGRESS, request->goes_on ? 0L : 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_XFERINFODATA, request) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, request->timeout_ms) == CURLE_OK;
}

static bool is_url(const char *url) {
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

/* Reports a failed transfer. libcurl's words for a peer that does not speak HTTP/1.1 would not help
 * the reader, so they are replaced. */
static lh_status tell(CURLcode code, const char *url, const char *reason, lh_error *error) {
    const char *why = reason[0] ? reason : curl_easy_strerror(code);
    if (code == CURLE_URL_MALFORMAT || !is_url(url))
        return lh_fail(error, LH_ERR_INVALID,
                       "--url %.120s: http://HOST:PORT or https://HOST:PORT is wanted", url);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return lh_fail(error, LH_ERR_CANCELLED, "the request was cancelled");
    case CURLE_OPERATION_TIMEDOUT:
        return lh_fail(error, LH_ERR_TIMEOUT, "%.120s does not answer in time", url);
    case CURLE_WRITE_ERROR:
        return lh_fail(error, LH_ERR_LIMIT, "%.120s answers with more than was wanted", url);
    case CURLE_COULDNT_CONNECT:
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%.100s cannot be asked: nobody listens there",
                       url);
    case CURLE_UNSUPPORTED_PROTOCOL: /* which means that the answer is none of HTTP/1.1 */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
        return lh_fail(error, LH_ERR_PROTOCOL,
                       "%.100s cannot be asked: what listens there is no API", url);
    case CURLE_PARTIAL_FILE:
        return lh_fail(error, LH_ERR_CLOSED, "%.120s: the answer was cut off", url);
    default:
        return lh_fail(error, LH_ERR_IO, "%.120s cannot be asked: %.150s", url, why);
    }
}

static lh_status perform(CURL *easy, const lh_api_request *request, const char *whole,
                         struct curl_slist *headers, long *http_status, lh_error *error) {
    char reason[CURL_ERROR_SIZE] = "";
    if (!whole || !set_up(easy, request, whole, headers, reason))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    CURLcode code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, http_status);
    return code == CURLE_OK ? LH_OK : tell(code, request->url, reason, error);
}

/* False: no memory; what there is of the list is the caller's all the same. */
static bool add_header(struct curl_slist **headers, const char *line) {
    struct curl_slist *longer = curl_slist_append(*headers, line);
    *headers = longer ? longer : *headers;
    return longer;
}

static bool add_headers(struct curl_slist **headers, const char *key, bool is_json) {
    char authorization[512] = "Authorization: Bearer ";
    strncat(authorization, key, sizeof authorization - strlen(authorization) - 1);
    bool is_done = (!key[0] || add_header(headers, authorization)) &&
                   (!is_json || add_header(headers, "Content-Type: application/json"));
    explicit_bzero(authorization, sizeof authorization);
    return is_done;
}

lh_status lh_api_transfer(const lh_api_request *request, long *http_status, lh_error *error) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    char *whole = easy ? make_url(easy, request->url, request->path, request->word) : NULL;
    lh_status status = easy && add_headers(&headers, request->key, request->json)
                           ? perform(easy, request, whole, headers, http_status, error)
                           : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    free(whole);
    curl_slist_free_all(headers);
    if (easy)
        curl_easy_cleanup(easy);
    curl_global_cleanup();
    return status;
}

/* ---- A handshake alone ---- */

/* Performs a TLS handshake. The peer's certificate is not verified: the question is only whether
 * the peer speaks TLS. */
static CURLcode shake_hands(CURL *easy, const char *url, const char *file) {
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_SSLCERT, file);
    curl_easy_setopt(easy, CURLOPT_SSLKEY, file);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, CONNECT_TIMEOUT_MS);
    return curl_easy_perform(easy);
}

lh_status lh_api_handshake(const char *address, const char *file, lh_error *error) {
    char *url = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a connection");
    CURL *easy = curl_easy_init();
    if (easy && asprintf(&url, "https://%s", address) >= 0)
        code = shake_hands(easy, url, file);
    free(url);
    if (easy)
        curl_easy_cleanup(easy);
    curl_global_cleanup();
    switch (code) {
    case CURLE_OK:
        return LH_OK;
    case CURLE_OUT_OF_MEMORY:
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a connection");
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
        return lh_fail(error, LH_ERR_UNAVAILABLE, "nobody listens at %.100s", address);
    default:
        return lh_fail(error, LH_ERR_PROTOCOL, "%.100s speaks no TLS", address);
    }
}
