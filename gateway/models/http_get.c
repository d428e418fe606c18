/* A chain of requests: each is one libcurl transfer, which follows nothing by itself. */
#include "gateway/models/http_get.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REDIRECTS_MAX      10u
#define CONNECT_TIMEOUT_MS 10000L
/* libcurl's buffer: fewer calls of on_bytes than with its 16 KiB. */
#define RECEIVE_BYTES (256L << 10)

typedef struct transfer {
    const lh_http_request *request;
    CURL *easy;
    lh_http_answer *answer;
    bool has_begun;   /* on_answer has been called */
    lh_status status; /* a failure of ours */
    lh_error *error;
    char reason[CURL_ERROR_SIZE];
} transfer;

/* ---- The answer's head ---- */

/* The value of the header line, if it is of that name. */
static bool header_value(const char *line, size_t length, const char *name, char *value,
                         size_t bytes) {
    size_t name_length = strlen(name);
    if (length <= name_length || strncasecmp(line, name, name_length) != 0 ||
        line[name_length] != ':')
        return false;
    line += name_length + 1;
    length -= name_length + 1;
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    while (length > 0 && strchr(" \t\r\n", line[length - 1]))
        length--;
    snprintf(value, bytes, "%.*s", length < bytes ? (int)length : 0, line);
    return true;
}

/* "bytes 5-9/10", "bytes 5-9/" and a star, or "bytes *" and "/10". */
static void read_content_range(const char *value, lh_http_answer *answer) {
    uint64_t last;
    int end = 0;
    if (sscanf(value, "bytes %" SCNu64 "-%" SCNu64 "%n", &answer->range_first, &last, &end) == 2)
        answer->has_range = true;
    else if (sscanf(value, "bytes *%n", &end) != 0 || end == 0)
        return;
    answer->has_total = sscanf(value + end, "/%" SCNu64, &answer->total) == 1;
}

static void read_link(const char *value, lh_http_answer *answer) {
    const char *end = strchr(value, '>');
    if (value[0] == '<' && end && strstr(end, "rel=\"next\""))
        snprintf(answer->next, sizeof answer->next, "%.*s", (int)(end - value - 1), value + 1);
}

static size_t on_header(char *line, size_t size, size_t count, void *context) {
    transfer *t = context;
    size_t length = size * count;
    char value[LH_MODEL_URL_BYTES + 32];
    if (length > 5 && strncmp(line, "HTTP/", 5) == 0) /* also after a 100 or a proxy's answer */
        *t->answer = (lh_http_answer){.status = 0};
    else if (header_value(line, length, "etag", t->answer->tag, sizeof t->answer->tag))
        return length;
    else if (header_value(line, length, "content-range", value, sizeof value))
        read_content_range(value, t->answer);
    else if (header_value(line, length, "content-length", value, sizeof value))
        t->answer->has_length = sscanf(value, "%" SCNu64, &t->answer->length) == 1;
    else if (header_value(line, length, "link", value, sizeof value))
        read_link(value, t->answer);
    return length;
}

/* Once, before the body, or at the end where there is none. */
static void begin(transfer *t) {
    curl_off_t retry_after = 0;
    if (t->has_begun)
        return;
    t->has_begun = true;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->answer->status);
    if (curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after) == CURLE_OK)
        t->answer->retry_after_s = retry_after;
}

static bool is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool has_content(const transfer *t) {
    return t->answer->status == 200 || t->answer->status == 206;
}

static void announce(transfer *t) {
    bool was_told = t->has_begun;
    begin(t);
    if (!was_told && t->request->on_answer && !is_redirect(t->answer->status))
        t->status = t->request->on_answer(t->request->context, t->answer, t->error);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
    transfer *t = context;
    size_t length = size * count;
    announce(t);
    if (t->status == LH_OK && has_content(t))
        t->status = t->request->on_bytes(t->request->context, bytes, length, t->error);
    return t->status == LH_OK ? length : 0;
}

/* ---- One request ---- */

static lh_status tell(const transfer *t, CURLcode code, const char *url, lh_error *error) {
    const char *why = t->reason[0] ? t->reason : curl_easy_strerror(code);
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return lh_fail(error, LH_ERR_INVALID, "%.140s: %.140s", url, why);
    case CURLE_PEER_FAILED_VERIFICATION:
        return lh_fail(error, LH_ERR_INVALID, "%.140s: its certificate is not good: %.120s", url,
                       why);
    case CURLE_OPERATION_TIMEDOUT:
        return lh_fail(error, LH_ERR_TIMEOUT, "%.140s: %.140s", url, why);
    default:
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%.140s: %.140s", url, why);
    }
}

static bool append_header(struct curl_slist **headers, const char *name, const char *value) {
    char *line = NULL;
    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    struct curl_slist *longer = curl_slist_append(*headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
    if (longer)
        *headers = longer;
    return longer;
}

static bool make_headers(const lh_http_request *request, bool with_token,
                         struct curl_slist **headers) {
    char text[LH_HTTP_TAG_BYTES];
    if (with_token && request->token[0]) {
        char *bearer = NULL;
        bool is_there = asprintf(&bearer, "Bearer %s", request->token) >= 0 &&
                        append_header(headers, "Authorization", bearer);
        if (!is_there)
            return false;
        explicit_bzero(bearer, strlen(bearer));
        free(bearer);
    }
    /* What is counted and compared are the file's own bytes. */
    if (!append_header(headers, "Accept-Encoding", "identity"))
        return false;
    if (request->from == 0)
        return true;
    snprintf(text, sizeof text, "bytes=%" PRIu64 "-", request->from);
    return append_header(headers, "Range", text) &&
           (!request->if_range[0] || append_header(headers, "If-Range", request->if_range));
}

static bool set_up(transfer *t, const char *url, struct curl_slist *headers) {
    CURL *easy = t->easy;
    curl_easy_reset(easy);
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, t) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, t) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->reason) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)t->request->stall_timeout_s) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BYTES) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "longhaul-gateway/" LONGHAUL_VERSION) ==
               CURLE_OK;
}

static lh_status perform(transfer *t, const char *url, bool with_token, lh_error *error) {
    struct curl_slist *headers = NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    t->has_begun = false;
    t->status = LH_OK;
    t->reason[0] = '\0';
    *t->answer = (lh_http_answer){.status = 0};
    if (make_headers(t->request, with_token, &headers) && set_up(t, url, headers))
        code = curl_easy_perform(t->easy);
    if (t->status == LH_OK && (code == CURLE_OK || t->has_begun))
        announce(t);
    /* A body that is passed over may end as it likes. */
    bool is_answered = code == CURLE_OK || (t->has_begun && !has_content(t));
    lh_status status = t->status;
    if (status == LH_OK && !is_answered)
        status = tell(t, code, url, error);
    curl_slist_free_all(headers);
    return status;
}

/* ---- Redirects ---- */

/* "scheme://host:port", the port always named; "": the URL is none. */
static void origin_of(const char *url, char origin[LH_MODEL_URL_BYTES]) {
    CURLU *parsed = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    origin[0] = '\0';
    if (parsed && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
        snprintf(origin, LH_MODEL_URL_BYTES, "%.10s://%.1500s:%.10s", scheme, host, port);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parsed);
}

bool lh_http_same_origin(const char *url, const char *other) {
    char a[LH_MODEL_URL_BYTES], b[LH_MODEL_URL_BYTES];
    origin_of(url, a);
    origin_of(other, b);
    return a[0] && strcasecmp(a, b) == 0;
}

static bool is_https(const char *url) {
    return strncasecmp(url, "https://", 8) == 0;
}

/* Where the answer sends us. */
static lh_status read_target(const transfer *t, const char *from, char url[LH_MODEL_URL_BYTES],
                             lh_error *error) {
    const char *target = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &target);
    if (!target || strlen(target) >= LH_MODEL_URL_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "%.200s redirects to no usable URL", from);
    if (is_https(from) && !is_https(target))
        return lh_fail(error, LH_ERR_INVALID,
                       "%.130s redirects from https to %.130s, which is not followed", from,
                       target);
    snprintf(url, LH_MODEL_URL_BYTES, "%s", target);
    return LH_OK;
}

static lh_status follow(transfer *t, lh_error *error) {
    char url[LH_MODEL_URL_BYTES], next[LH_MODEL_URL_BYTES];
    bool with_token = true;
    snprintf(url, sizeof url, "%s", t->request->url);
    for (uint32_t i = 0; i <= REDIRECTS_MAX; i++) {
        lh_status status = perform(t, url, with_token, error);
        if (status != LH_OK || !is_redirect(t->answer->status))
            return status;
        status = read_target(t, url, next, error);
        if (status != LH_OK)
            return status;
        with_token = with_token && lh_http_same_origin(t->request->url, next);
        memcpy(url, next, sizeof url);
    }
    return lh_fail(error, LH_ERR_INVALID, "%.200s redirects more than %u times", t->request->url,
                   REDIRECTS_MAX);
}

lh_status lh_http_get(const lh_http_request *request, lh_http_answer *answer, lh_error *error) {
    transfer t = {.request = request, .answer = answer, .error = error};
    if (strlen(request->url) >= LH_MODEL_URL_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "the URL is over %d bytes", LH_MODEL_URL_BYTES - 1);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    t.easy = curl_easy_init();
    lh_status status =
        t.easy ? follow(&t, error) : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request");
    if (t.easy)
        curl_easy_cleanup(t.easy);
    curl_global_cleanup();
    return status;
}
