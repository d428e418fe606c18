/* One libcurl transfer at a time, driven in short waits so that cancelling and stalling are seen at
 * once.
 *
 * A try is one HTTP request. What it brought is kept; the next one asks for the rest alone. Which
 * failures are worth another try: those of the network and of a server that is starting or
 * overloaded (5xx, 408, 429). A server that answers something else than was asked (no 206, another
 * range, more bytes) is not asked again. */
#include "worker/weights/weight_fetch.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/tls_expectation.h"
#include "worker/weights/clear_http2.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define WAIT_MS 50 /* how late cancelling may be seen */
/* A try that brought as much as this starts the count of failures anew. */
#define PROGRESS_BYTES_MIN (64u << 10)
#define PAUSE_MAX_MS       5000
#define TRIES              12u
#define CONNECT_TIMEOUT_MS 5000L
/* libcurl's buffer: fewer calls of on_bytes than with its 16 KiB. */
#define RECEIVE_BYTES (256L << 10)

struct lh_weight_fetch {
    CURL *easy;
    CURLM *multi;
    const _Atomic bool *cancelled;
    int64_t stall_timeout_ms, retry_delay_ms;
    uint32_t tries;
    lh_tls_expectation gateway; /* of connections to its fleet port */
    bool is_kept;               /* the last try succeeded: its connection serves the next one */
};

/* What one call is after: a range, or the whole of a document. */
typedef struct transfer {
    lh_weight_fetch *fetch;
    const char *url;
    bool prior_knowledge;
    lh_text_buffer *document; /* NULL: a range */
    uint64_t offset, length;  /* length: of the range, or the most that the document may have */
    uint64_t received;
    lh_weight_on_bytes *on_bytes;
    void *context;
    /* Of the try in progress: */
    bool has_range; /* its Content-Range fits */
    bool may_retry; /* it failed in a way that another one may not */
    int64_t last_byte_us;
    lh_status status; /* a failure that on_header or on_body has found */
    lh_error *error;
    char curl_error[CURL_ERROR_SIZE];
} transfer;

/* ---- What libcurl calls ---- */

/* "bytes a-b/total": a must be the first byte that is missing, b not behind the last. */
static void check_content_range(transfer *t, const char *value) {
    uint64_t first, last;
    int end = 0;
    if (sscanf(value, " bytes %" SCNu64 "-%" SCNu64 "%n", &first, &last, &end) != 2 ||
        value[end] != '/' || first != t->offset + t->received || last < first ||
        last >= t->offset + t->length)
        t->status =
            lh_fail(t->error, LH_ERR_MALFORMED,
                    "%s: asked for bytes %" PRIu64 "-%" PRIu64 ", the server sends \"%.60s\"",
                    t->url, t->offset + t->received, t->offset + t->length - 1, value);
    else
        t->has_range = true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context) {
    static const char name[] = "content-range:";
    transfer *t = context;
    char value[128];
    size_t length = size * count;
    if (!t->document && length >= sizeof name - 1 &&
        strncasecmp(bytes, name, sizeof name - 1) == 0) {
        snprintf(value, sizeof value, "%.*s", (int)(length - (sizeof name - 1)),
                 bytes + sizeof name - 1);
        value[strcspn(value, "\r\n")] = 0;
        check_content_range(t, value);
    }
    return t->status == LH_OK ? length : 0;
}

static long response_code(transfer *t) {
    long code = 0;
    curl_easy_getinfo(t->fetch->easy, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
    transfer *t = context;
    size_t length = size * count;
    assert(t->received <= t->length);
    if (response_code(t) != (t->document ? 200 : 206))
        return 0; /* the page of an error: what matters is the code */
    if (!t->document && !t->has_range)
        t->status = lh_fail(t->error, LH_ERR_MALFORMED, "%s: the server's 206 has no Content-Range",
                            t->url);
    else if (length > t->length - t->received)
        t->status = lh_fail(t->error, t->document ? LH_ERR_LIMIT : LH_ERR_MALFORMED,
                            "%s: the server sends more than %" PRIu64 " bytes", t->url, t->length);
    else
        t->status = t->on_bytes(t->context, (const uint8_t *)bytes, length, t->error);
    if (t->status != LH_OK)
        return 0;
    t->received += length;
    t->last_byte_us = lh_clock_us(); /* on_bytes may have waited for a disk */
    return length;
}

/* ---- One try ---- */

static bool is_cancelled(const lh_weight_fetch *fetch) {
    return fetch->cancelled && atomic_load(fetch->cancelled);
}

static lh_status fail_cancelled(transfer *t) {
    return lh_fail(t->error, LH_ERR_CANCELLED, "%s: cancelled", t->url);
}

static lh_status code_status(transfer *t, long code) {
    t->may_retry = code >= 500 || code == 408 || code == 429;
    if (t->may_retry)
        return lh_fail(t->error, LH_ERR_UNAVAILABLE, "%s: the server answers %ld", t->url, code);
    if (code == 404 || code == 410)
        return lh_fail(t->error, LH_ERR_NOT_FOUND,
                       "%s: the server answers %ld: it has no such file", t->url, code);
    if (!t->document && code == 200)
        return lh_fail(t->error, LH_ERR_UNSUPPORTED,
                       "%s: the server does not take range requests (200 instead of 206)", t->url);
    return lh_fail(t->error, LH_ERR_UNAVAILABLE, "%s: the server answers %ld", t->url, code);
}

static lh_status curl_status(transfer *t, CURLcode code) {
    const char *text = t->curl_error[0] ? t->curl_error : curl_easy_strerror(code);
    if (t->fetch->gateway.is_refused) {
        lh_tls_expectation_explain(&t->fetch->gateway, t->curl_error, sizeof t->curl_error);
        return lh_fail(t->error, LH_ERR_INVALID, "%s: TLS: %s", t->url, t->curl_error);
    }
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return lh_fail(t->error, LH_ERR_INVALID, "%s: %s; an http:// or https:// URL is wanted",
                       t->url, text);
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_PEER_FAILED_VERIFICATION:
        return lh_fail(t->error, LH_ERR_INVALID,
                       "%s: TLS: %s; check --tls-cert, --tls-key and --tls-ca", t->url, text);
    case CURLE_OUT_OF_MEMORY:
        return lh_fail(t->error, LH_ERR_NO_MEMORY, "%s: out of memory", t->url);
    default:
        t->may_retry = true;
        return lh_fail(t->error, LH_ERR_UNAVAILABLE, "%s: %s", t->url, text);
    }
}

/* The result of a transfer that has ended by itself. */
static lh_status ended_status(transfer *t, CURLcode code) {
    long http = response_code(t);
    if (t->status != LH_OK)
        return t->status;
    if (http != 0 && http != (t->document ? 200 : 206))
        return code_status(t, http);
    if (code != CURLE_OK)
        return curl_status(t, code);
    if (!t->document && t->received < t->length) {
        t->may_retry = true;
        return lh_fail(t->error, LH_ERR_UNAVAILABLE,
                       "%s: the server ended after %" PRIu64 " of %" PRIu64 " bytes", t->url,
                       t->received, t->length);
    }
    return LH_OK;
}

/* Drives the transfer to its end, or until it is cancelled or stalls. */
static lh_status drive(transfer *t) {
    CURLM *multi = t->fetch->multi;
    int running = 1, left;
    t->last_byte_us = lh_clock_us();
    while (curl_multi_perform(multi, &running) == CURLM_OK) {
        CURLMsg *message = curl_multi_info_read(multi, &left);
        if (message && message->msg == CURLMSG_DONE)
            return ended_status(t, message->data.result);
        if (is_cancelled(t->fetch))
            return fail_cancelled(t);
        if (lh_clock_us() - t->last_byte_us > t->fetch->stall_timeout_ms * 1000) {
            t->may_retry = true;
            return lh_fail(t->error, LH_ERR_TIMEOUT, "%s: no byte for %" PRId64 " ms", t->url,
                           t->fetch->stall_timeout_ms);
        }
        curl_multi_poll(multi, NULL, 0, WAIT_MS, NULL);
    }
    return lh_fail(t->error, LH_ERR_NO_MEMORY, "%s: libcurl fails", t->url);
}

/* A connection that failed or stalled is never used again. */
static bool choose_connection(const transfer *t) {
    CURL *easy = t->fetch->easy;
    bool is_kept = t->fetch->is_kept;
    bool is_chosen = t->prior_knowledge
                         ? lh_clear_http2_prepare(easy, is_kept)
                         : curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                                            (long)CURL_HTTP_VERSION_2TLS) == CURLE_OK &&
                               curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, NULL) == CURLE_OK;
    return is_chosen && curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, (long)!is_kept) == CURLE_OK;
}

static lh_status try_once(transfer *t) {
    char range[48];
    CURL *easy = t->fetch->easy;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, t->offset + t->received,
             t->offset + t->length - 1);
    if (t->document) /* there is no going on in the middle: it may be another one by now */
        t->document->length = t->received = 0;
    t->has_range = t->may_retry = t->fetch->gateway.is_refused = false;
    t->status = LH_OK;
    t->curl_error[0] = 0;
    if (!choose_connection(t) ||
        curl_easy_setopt(easy, CURLOPT_RANGE, t->document ? NULL : range) != CURLE_OK ||
        curl_multi_add_handle(t->fetch->multi, easy) != CURLM_OK)
        return lh_fail(t->error, LH_ERR_NO_MEMORY, "%s: out of memory", t->url);
    lh_status status = drive(t);
    t->fetch->is_kept = status == LH_OK;
    curl_multi_remove_handle(t->fetch->multi, easy);
    return status;
}

/* ---- Tries ---- */

/* False when it was cancelled. */
static bool pause_ms(const lh_weight_fetch *fetch, int64_t duration_ms) {
    int64_t end = lh_clock_us() + duration_ms * 1000;
    while (!is_cancelled(fetch)) {
        int64_t left = end - lh_clock_us();
        if (left <= 0)
            return true;
        if (left > WAIT_MS * 1000)
            left = WAIT_MS * 1000;
        nanosleep(&(struct timespec){.tv_nsec = left * 1000}, NULL);
    }
    return false;
}

static lh_status run(transfer *t) {
    lh_error error = {0};
    lh_error *wanted = t->error;
    int64_t pause = t->fetch->retry_delay_ms;
    t->error = &error;
    for (uint32_t failures = 0;;) {
        uint64_t before = t->received;
        lh_status status = is_cancelled(t->fetch) ? fail_cancelled(t) : try_once(t);
        if (status == LH_OK)
            return LH_OK;
        if (t->may_retry && !t->document && t->received == t->length)
            return LH_OK; /* all is here, whatever happened at the end */
        if (!t->document && t->received - before >= PROGRESS_BYTES_MIN) {
            failures = 0;
            pause = t->fetch->retry_delay_ms;
        }
        if (status == LH_ERR_CANCELLED || !t->may_retry || ++failures >= t->fetch->tries)
            return lh_fail(wanted, status, "%s", error.message);
        lh_log(LH_LOG_DEBUG, "weights",
               "a transfer is tried again received=%" PRIu64 " pause_ms=%" PRId64 " reason=\"%s\"",
               t->received, pause, error.message);
        if (!pause_ms(t->fetch, pause))
            return lh_fail(wanted, LH_ERR_CANCELLED, "%s: cancelled", t->url);
        pause = 2 * pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS;
    }
}

static CURLcode on_gateway_context(CURL *easy, void *ssl_context, void *fetch) {
    (void)easy;
    lh_tls_expectation_bind_context(&((lh_weight_fetch *)fetch)->gateway, ssl_context);
    return CURLE_OK;
}

static lh_status start(transfer *t, lh_weight_url url) {
    CURL *easy = t->fetch->easy;
    t->url = url.url;
    t->prior_knowledge = url.prior_knowledge;
    if (curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, url.is_gateway ? 0L : 2L) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION,
                         url.is_gateway ? on_gateway_context : NULL) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, t->fetch) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_URL, url.url) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, t) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, t) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->curl_error) != CURLE_OK)
        return lh_fail(t->error, LH_ERR_NO_MEMORY, "%s: out of memory", url.url);
    lh_status status = run(t);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* t ends here */
    return status;
}

lh_status lh_weight_fetch_range(lh_weight_fetch *fetch, lh_weight_url url, uint64_t offset,
                                uint64_t length, lh_weight_on_bytes *on_bytes, void *context,
                                lh_error *error) {
    if (length == 0 || length - 1 > INT64_MAX || offset > INT64_MAX - (length - 1))
        return lh_fail(error, LH_ERR_INVALID, "%s: %" PRIu64 " bytes at %" PRIu64 " are no range",
                       url.url, length, offset);
    transfer t = {.fetch = fetch,
                  .offset = offset,
                  .length = length,
                  .on_bytes = on_bytes,
                  .context = context,
                  .error = error};
    return start(&t, url);
}

/* ---- Documents ---- */

static lh_status append(void *context, const uint8_t *bytes, size_t length, lh_error *error) {
    return lh_text_buffer_append(context, (const char *)bytes, length, error);
}

lh_status lh_weight_fetch_document(lh_weight_fetch *fetch, lh_weight_url url, size_t limit,
                                   lh_text_buffer *document, lh_error *error) {
    transfer t = {.fetch = fetch,
                  .document = document,
                  .length = limit,
                  .on_bytes = append,
                  .context = document,
                  .error = error};
    return start(&t, url);
}

/* ---- The handle ---- */

static void init_curl(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool set_options(CURL *easy, const lh_weight_fetch_options *options) {
    /* A fleet's machines reach each other directly: a proxy for the Web would not know HTTP/2
     * without TLS. */
    if (curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK ||
        /* each connection asks for the name anew: the server may have moved */
        curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BYTES) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE,
                         (curl_off_t)lh_min_u64(options->bytes_per_s_max, INT64_MAX)) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "longhaul-worker/" LONGHAUL_VERSION) !=
            CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK)
        return false;
    const lh_weight_certificates *files = &options->certificates;
    return (!files->certificate_file ||
            curl_easy_setopt(easy, CURLOPT_SSLCERT, files->certificate_file) == CURLE_OK) &&
           (!files->key_file ||
            curl_easy_setopt(easy, CURLOPT_SSLKEY, files->key_file) == CURLE_OK) &&
           (!files->ca_file || curl_easy_setopt(easy, CURLOPT_CAINFO, files->ca_file) == CURLE_OK);
}

lh_status lh_weight_fetch_create(const lh_weight_fetch_options *options, lh_weight_fetch **fetch,
                                 lh_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    lh_weight_fetch *created = calloc(1, sizeof *created);
    if (!created)
        return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory");
    created->cancelled = options->cancelled;
    created->gateway.expected = lh_tls_identity_named("");
    created->stall_timeout_ms = options->stall_timeout_ms ? options->stall_timeout_ms : 10000;
    created->retry_delay_ms = options->retry_delay_ms ? options->retry_delay_ms : 200;
    created->tries = options->tries ? options->tries : TRIES;
    created->easy = curl_easy_init();
    created->multi = curl_multi_init();
    if (!created->easy || !created->multi ||
        /* a new connection replaces one that has stalled, which libcurl would use again */
        curl_multi_setopt(created->multi, CURLMOPT_MAXCONNECTS, 1L) != CURLM_OK ||
        !set_options(created->easy, options)) {
        lh_weight_fetch_destroy(created);
        return lh_fail(error, LH_ERR_NO_MEMORY, "weights: libcurl cannot be set up");
    }
    *fetch = created;
    return LH_OK;
}

void lh_weight_fetch_destroy(lh_weight_fetch *fetch) {
    if (!fetch)
        return;
    curl_easy_cleanup(fetch->easy);
    curl_multi_cleanup(fetch->multi);
    free(fetch);
}
