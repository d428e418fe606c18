/* A transfer into a buffer. */
#include "gateway/cli/api_fetch.h"

#include "gateway/cli/api_transfer.h"
#include "gateway/cli/running_api.h"

#define BODY_BYTES_MAX    (64u << 20)
#define ANSWER_TIMEOUT_MS 30000L
#define POST_TIMEOUT_MS   600000L

static bool keep(void *context, const char *bytes, size_t length) {
    lh_text_buffer *body = context;
    return length <= BODY_BYTES_MAX - body->length &&
           lh_text_buffer_append(body, bytes, length, NULL) == LH_OK;
}

static lh_status request(const lh_api_request *wanted, long *http_status, lh_error *error) {
    lh_error cause;
    lh_status status = lh_api_transfer(wanted, http_status, &cause);
    return status == LH_OK ? LH_OK : lh_running_api_explain(wanted->url, &cause, error);
}

lh_status lh_api_fetch(const char *url, const char *path, const char *word, const char *key,
                       long *http_status, lh_text_buffer *body, lh_error *error) {
    const lh_api_request wanted = {.url = url,
                                   .path = path,
                                   .word = word,
                                   .key = key,
                                   .timeout_ms = ANSWER_TIMEOUT_MS,
                                   .on_bytes = keep,
                                   .context = body};
    return request(&wanted, http_status, error);
}

lh_status lh_api_post(const char *url, const char *path, const char *json, const char *key,
                      long *http_status, lh_text_buffer *body, lh_error *error) {
    const lh_api_request wanted = {.url = url,
                                   .path = path,
                                   .word = "",
                                   .key = key,
                                   .json = json,
                                   .timeout_ms = POST_TIMEOUT_MS,
                                   .on_bytes = keep,
                                   .context = body};
    return request(&wanted, http_status, error);
}
