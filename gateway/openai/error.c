/* The table of status codes, and the JSON. */
#include "gateway/openai/error.h"

#include "common/base/clock.h"
#include "common/json/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS_MAX 120000

static const struct {
    unsigned status;
    const char *type;
} types[] = {
    {400, "invalid_request_error"}, {401, "invalid_request_error"}, {403, "permission_error"},
    {404, "invalid_request_error"}, {405, "invalid_request_error"}, {408, "request_timeout"},
    {413, "request_too_large"},     {414, "invalid_request_error"}, {415, "invalid_request_error"},
    {421, "invalid_request_error"}, {429, "rate_limit_error"},      {431, "invalid_request_error"},
    {499, "invalid_request_error"}, {501, "not_supported_error"},   {503, "unavailable_error"},
    {504, "server_error"}};

static const char *type_of(unsigned status) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].status == status)
            return types[i].type;
    return "server_error";
}

bool lh_openai_refuse(lh_openai_error *error, unsigned status, const char *param, const char *code,
                      const char *format, ...) {
    va_list args;
    *error = (lh_openai_error){.status = status, .type = type_of(status), .code = code};
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

bool lh_openai_refuse_cause(lh_openai_error *error, const lh_error *cause) {
    switch (cause->status) {
    case LH_ERR_BUSY:
        lh_openai_refuse(error, 429, NULL, "queue_full",
                         "The queue of requests is full. Try again later.");
        error->retry_after_ms = 1000;
        return false;
    case LH_ERR_UNAVAILABLE:
        lh_openai_refuse(error, 503, NULL, "model_unavailable",
                         "No complete chain of workers serves the model now. Try again later.");
        error->retry_after_ms = 2000;
        return false;
    case LH_ERR_TIMEOUT:
        return lh_openai_refuse(error, 504, NULL, "upstream_timeout",
                                "A worker did not answer in time.");
    case LH_ERR_INVALID:
    case LH_ERR_LIMIT:
    case LH_ERR_MALFORMED:
        return lh_openai_refuse(error, 400, NULL, "invalid_value", "%s", cause->message);
    default:
        lh_openai_refuse(
            error, 500, NULL, "internal_error",
            "The server failed to serve this request; its log says more under the request's id.");
        error->retry_is_futile = cause->status == LH_ERR_INTERNAL;
        return false;
    }
}

bool lh_openai_refuse_admission(lh_openai_error *error, const lh_error *cause) {
    if (cause->status != LH_ERR_UNSUPPORTED)
        return lh_openai_refuse_cause(error, cause);
    lh_openai_refuse(error, 503, NULL, "model_unavailable",
                     "The workers that are there cannot compute the model: %s", cause->message);
    error->retry_after_ms = 2000;
    return false;
}

bool lh_openai_refuse_status(lh_openai_error *error, lh_status status) {
    return lh_openai_refuse_cause(error, &(lh_error){.status = status});
}

/* In milliseconds, above 0, which would mean that it is not said. */
static uint32_t retry_ms(int64_t wait_us) {
    int64_t ms = (wait_us + 999) / 1000;
    return ms < 1 ? 1 : ms > RETRY_MS_MAX ? RETRY_MS_MAX : (uint32_t)ms;
}

bool lh_openai_refuse_client(lh_openai_error *error, const lh_ticket *ticket,
                             const lh_account_refusal *refusal) {
    static const char *const limits[] = {[LH_ACCOUNT_REQUESTS] = "requests a minute",
                                         [LH_ACCOUNT_TOKENS] = "tokens a minute",
                                         [LH_ACCOUNT_READING] =
                                             "ms of processor time for reading requests a minute",
                                         [LH_ACCOUNT_CONCURRENT] = "requests at a time"};
    uint32_t wait_ms = retry_ms(refusal->wait_us);
    lh_openai_refuse(error, 429, NULL, "rate_limit_exceeded",
                     "Rate limit reached for %s: %u %s. Try again in %.3f s.",
                     *ticket->name ? ticket->name : "your address", refusal->most,
                     limits[refusal->limit], (double)wait_ms / 1000);
    error->retry_after_ms = wait_ms;
    return false;
}

bool lh_openai_refuse_full(lh_openai_error *error, lh_ticket *ticket, uint32_t sequences) {
    lh_openai_refuse_status(error, LH_ERR_BUSY);
    error->retry_after_ms = retry_ms(lh_ticket_retry_us(ticket, sequences, lh_clock_us()));
    return false;
}

static json_t *text_or_null(const char *text) {
    /* may have been cut inside a character */
    return *text ? lh_json_text(text, strlen(text)) : json_null();
}

json_t *lh_openai_error_json(const lh_openai_error *error) {
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", text_or_null(error->message),
                     "type", error->type, "param", text_or_null(error->param), "code", error->code);
}

lh_status lh_openai_json_reply(unsigned status, json_t *object, lh_http_reply *reply) {
    lh_text_buffer body = {0};
    lh_status failed = lh_json_render(object, &body);
    if (failed)
        lh_text_buffer_reset(&body);
    free(reply->body);
    reply->status = status;
    reply->body = body.bytes;
    reply->body_bytes = body.length;
    lh_http_reply_add(reply, "Content-Type", "application/json");
    return failed;
}

void lh_openai_error_reply(const lh_openai_error *error, lh_http_reply *reply) {
    lh_openai_error_reply_as(error, lh_openai_error_json(error), reply);
}

void lh_openai_error_reply_as(const lh_openai_error *error, json_t *body, lh_http_reply *reply) {
    lh_openai_json_reply(error->status, body, reply);
    if (error->retry_after_ms) {
        lh_http_reply_add(reply, "Retry-After", "%u", (error->retry_after_ms + 999) / 1000);
        lh_http_reply_add(reply, "retry-after-ms", "%u", error->retry_after_ms);
    }
    if (error->retry_is_futile || error->status == 501)
        lh_http_reply_add(reply, "x-should-retry", "false");
    if (error->status == 401)
        lh_http_reply_add(reply, "WWW-Authenticate", "Bearer");
}
