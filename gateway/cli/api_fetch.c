/* libcurl, once. */
#include "gateway/cli/api_fetch.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_BYTES_MAX     (64u << 20)
#define CONNECT_TIMEOUT_MS 5000L
#define ANSWER_TIMEOUT_MS  30000L
#define POST_TIMEOUT_MS    600000L

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context) {
    lh_text_buffer *body = context;
    size_t length = size * count;
    if (length > BODY_BYTES_MAX - body->length ||
        lh_text_buffer_append(body, bytes, length, NULL) != LH_OK)
        return 0;
    return length;
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

/* json: of a POST; NULL: it is a GET. */
static bool set_up(CURL *easy, const char *url, struct curl_slist *headers, const char *json,
                   lh_text_buffer *body, char *reason) {
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           (!json || curl_easy_setopt(easy, CURLOPT_POSTFIELDS, json) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, json ? POST_TIMEOUT_MS : ANSWER_TIMEOUT_MS) ==
               CURLE_OK;
}

static lh_status tell(CURLcode code, const char *url, const char *reason, lh_error *error) {
    const char *why = reason[0] ? reason : curl_easy_strerror(code);
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return lh_fail(error, LH_ERR_INVALID, "--url %.120s: %.150s", url, why);
    case CURLE_OPERATION_TIMEDOUT:
        return lh_fail(error, LH_ERR_TIMEOUT, "%.120s does not answer: %.150s", url, why);
    case CURLE_WRITE_ERROR:
        return lh_fail(error, LH_ERR_LIMIT, "%.120s answers with more than %u MiB", url,
                       BODY_BYTES_MAX >> 20);
    default:
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%.120s cannot be asked: %.150s", url, why);
    }
}

static lh_status perform(CURL *easy, const char *url, char *whole, struct curl_slist *headers,
                         const char *json, long *http_status, lh_text_buffer *body,
                         lh_error *error) {
    char reason[CURL_ERROR_SIZE] = "";
    if (!whole || !set_up(easy, whole, headers, json, body, reason))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    CURLcode code = curl_easy_perform(easy);
    if (code != CURLE_OK)
        return tell(code, url, reason, error);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, http_status);
    return LH_OK;
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

static lh_status request(const char *url, const char *path, const char *word, const char *json,
                         const char *key, long *http_status, lh_text_buffer *body,
                         lh_error *error) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    char *whole = easy ? make_url(easy, url, path, word) : NULL;
    lh_status status = easy && add_headers(&headers, key, json)
                           ? perform(easy, url, whole, headers, json, http_status, body, error)
                           : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    free(whole);
    curl_slist_free_all(headers);
    if (easy)
        curl_easy_cleanup(easy);
    curl_global_cleanup();
    return status;
}

lh_status lh_api_fetch(const char *url, const char *path, const char *word, const char *key,
                       long *http_status, lh_text_buffer *body, lh_error *error) {
    return request(url, path, word, NULL, key, http_status, body, error);
}

lh_status lh_api_post(const char *url, const char *path, const char *json, const char *key,
                      long *http_status, lh_text_buffer *body, lh_error *error) {
    return request(url, path, "", json, key, http_status, body, error);
}
