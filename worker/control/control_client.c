/* PUT /fleet/workers/{name} over one libcurl handle. */
#include "worker/control/control_client.h"

#include "common/net/tls_expectation.h"
#include "common/protocol/control/assignment_reply.h"
#include "common/protocol/control_seal.h"
#include "worker/control/gateway_inquiry.h"
#include "worker/weights/clear_http2.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 3000L
/* An answer that takes longer is of no use: the next report is due. */
#define ANSWER_TIMEOUT_MS 5000L

struct lh_control_client {
    CURL *easy;
    struct curl_slist *headers;
    char name[LH_WORKER_NAME_BYTES]; /* the worker's */
    char gateway_url[LH_CONTROL_URL_BYTES];
    char error[CURL_ERROR_SIZE];
    char answer[LH_CONTROL_BODY_BYTES_MAX + 1u];
    size_t length;
    bool too_long;
    bool secure;
    lh_tls_expectation gateway; /* where it is secure */
    bool has_answered;          /* once: so the scheme is right */
    bool is_kept;               /* the last PUT succeeded: its connection serves the next one */
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context) {
    lh_control_client *client = context;
    size_t length = size * count;
    if (length > LH_CONTROL_BODY_BYTES_MAX - client->length) {
        client->too_long = true;
        return 0;
    }
    memcpy(client->answer + client->length, bytes, length);
    client->length += length;
    return length;
}

static CURLcode on_ssl_context(CURL *easy, void *ssl_context, void *client) {
    (void)easy;
    lh_tls_expectation_bind_context(&((lh_control_client *)client)->gateway, ssl_context);
    return CURLE_OK;
}

static bool set_tls(lh_control_client *client, const lh_tls_options *tls) {
    CURL *easy = client->easy;
    client->gateway.expected = lh_tls_identity_named("");
    return curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->certificate_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           /* the files are read for each connection: they may have been replaced */
           curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L) == CURLE_OK &&
           /* who the gateway is counts, not where */
           curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_context) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, client) == CURLE_OK;
}

static bool set_options(lh_control_client *client, const char *url, const lh_tls_options *tls) {
    CURL *easy = client->easy;
    bool good = curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT") == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_WRITEDATA, client) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
                /* each connection asks for the name anew: the gateway may have moved */
                curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L) == CURLE_OK &&
                /* a new connection replaces one whose request has timed out */
                curl_easy_setopt(easy, CURLOPT_MAXCONNECTS, 1L) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ANSWER_TIMEOUT_MS) == CURLE_OK;
    return good && (!tls || set_tls(client, tls));
}

lh_status lh_control_client_create(const char *gateway_url, const char *worker_name,
                                   const lh_tls_options *tls, lh_control_client **client,
                                   lh_error *error) {
    char url[LH_CONTROL_URL_BYTES];
    int length = snprintf(url, sizeof(url), "%s/fleet/workers/%s", gateway_url, worker_name);
    if (length < 0 || (size_t)length >= sizeof(url))
        return lh_fail(error, LH_ERR_INVALID, "--gateway: the URL is too long");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    lh_control_client *made = calloc(1, sizeof *made);
    if (!made) {
        curl_global_cleanup();
        return lh_fail(error, LH_ERR_NO_MEMORY, "control client: out of memory");
    }
    made->easy = curl_easy_init();
    made->headers = curl_slist_append(NULL, "content-type: application/json");
    if (!made->easy || !made->headers || !set_options(made, url, tls)) {
        lh_control_client_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY,
                       "control client: libcurl refuses its options, or out of memory");
    }
    snprintf(made->name, sizeof(made->name), "%s", worker_name);
    snprintf(made->gateway_url, sizeof(made->gateway_url), "%s", gateway_url);
    made->secure = tls;
    *client = made;
    return LH_OK;
}

void lh_control_client_destroy(lh_control_client *client) {
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    curl_slist_free_all(client->headers);
    free(client);
    curl_global_cleanup();
}

/* What the gateway says of a refusal: the first line of its body. */
static lh_status refusal(const lh_control_client *client, long code, lh_error *error) {
    return lh_fail(error,
                   code >= 500   ? LH_ERR_UNAVAILABLE
                   : code == 409 ? LH_ERR_EXISTS
                                 : LH_ERR_INVALID,
                   "the gateway answers %ld: %.*s", code, (int)strcspn(client->answer, "\r\n"),
                   client->answer);
}

/* libcurl does not say in plain words that http:// and https:// were mixed up. */
static const char *hint(const lh_control_client *client, CURLcode code) {
    bool is_cut = code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM || code == CURLE_PARTIAL_FILE ||
                  code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR;
    if (client->has_answered)
        return "";
    if (client->secure) {
        return code == CURLE_SSL_CONNECT_ERROR
                   ? " (is its fleet port without TLS? then --gateway begins with http://)"
                   : "";
    }
    return is_cut ? " (if its fleet port takes TLS, --gateway begins with https://)" : "";
}

/* Nobody there speaks as a gateway's fleet port does. */
static lh_status no_answer(lh_control_client *client, CURLcode code, lh_error *error) {
    const char *cause = client->error[0] != '\0' ? client->error : curl_easy_strerror(code);
    bool may_be_api = !client->has_answered && code != CURLE_COULDNT_CONNECT &&
                      code != CURLE_COULDNT_RESOLVE_HOST;
    int port = may_be_api ? lh_gateway_inquiry_fleet_port(client->gateway_url, client->name) : 0;
    if (port != 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.120s is the gateway's public API; its fleet port is %d: --gateway has to "
                       "name that",
                       client->gateway_url, port);
    return lh_fail(error, LH_ERR_UNAVAILABLE, "the gateway does not answer: %s%s", cause,
                   hint(client, code));
}

/* One request, on the kept connection or on a new one. A connection that failed is never used
 * again. */
static CURLcode send_once(lh_control_client *client) {
    client->length = 0;
    client->too_long = false;
    client->gateway.is_refused = client->gateway.is_own_revoked = false;
    client->error[0] = '\0';
    curl_easy_setopt(client->easy, CURLOPT_FRESH_CONNECT, (long)!client->is_kept);
    bool is_ready = client->secure || lh_clear_http2_prepare(client->easy, client->is_kept);
    CURLcode code = is_ready ? curl_easy_perform(client->easy) : CURLE_OUT_OF_MEMORY;
    client->is_kept = code == CURLE_OK;
    return code;
}

/* The gateway may have closed a kept connection or may have been replaced: what fails there is sent
 * again at once on a new one. A report may arrive twice: it says what is. */
static CURLcode send_report(lh_control_client *client) {
    bool was_kept = client->is_kept;
    CURLcode code = send_once(client);
    bool is_final = code == CURLE_OK || code == CURLE_OPERATION_TIMEDOUT || client->too_long ||
                    client->gateway.is_refused || client->gateway.is_own_revoked;
    return was_kept && !is_final ? send_once(client) : code;
}

static lh_status perform(lh_control_client *client, const char *message, lh_error *error) {
    curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, message);
    curl_easy_setopt(client->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(message));
    CURLcode code = send_report(client);
    client->answer[client->length] = '\0';
    if (client->too_long) {
        return lh_fail(error, LH_ERR_LIMIT, "the gateway's answer is longer than %u bytes",
                       LH_CONTROL_BODY_BYTES_MAX);
    }
    if (client->gateway.is_refused) {
        lh_tls_expectation_explain(&client->gateway, client->error, sizeof client->error);
        return lh_fail(error, LH_ERR_UNAVAILABLE, "the gateway does not answer: %s", client->error);
    }
    if (client->gateway.is_own_revoked)
        return lh_fail(error, LH_ERR_CANCELLED,
                       "the gateway has revoked this worker's certificate: it may join again with "
                       "a new line of longhaul-gateway token");
    if (code != CURLE_OK)
        return no_answer(client, code, error);
    client->has_answered = true;
    long status = 0;
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? LH_OK : refusal(client, status, error);
}

lh_status lh_control_client_put(lh_control_client *client, char *body, const char **answer,
                                size_t *length, lh_error *error) {
    char *message = lh_control_seal(client->name, body);
    if (!message)
        return lh_fail(error, LH_ERR_NO_MEMORY, "the worker's report: out of memory");
    lh_status status = perform(client, message, error);
    free(message);
    *answer = client->answer;
    return status == LH_OK
               ? lh_control_unseal(client->name, client->answer, client->length, length, error)
               : status;
}
