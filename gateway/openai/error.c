/* The table of status codes, and the JSON. */
#include "gateway/openai/error.h"

#include "common/json/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    unsigned status;
    const char *type;
} types[] = {
    {400, "invalid_request_error"}, {401, "invalid_request_error"}, {403, "permission_error"},
    {404, "invalid_request_error"}, {405, "invalid_request_error"}, {408, "request_timeout"},
    {413, "request_too_large"},     {414, "invalid_request_error"}, {415, "invalid_request_error"},
    {429, "rate_limit_error"},      {431, "invalid_request_error"}, {499, "invalid_request_error"},
    {501, "not_supported_error"},   {503, "unavailable_error"},     {504, "server_error"}};

static const char *type_of(unsigned status) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].status == status)
            return types[i].type;
    return "server_error";
}

static void set(lh_openai_error *error, unsigned status, const char *param, const char *code,
                const char *format, va_list args) {
    *error = (lh_openai_error){.status = status, .type = type_of(status), .code = code};
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    vsnprintf(error->message, sizeof error->message, format, args);
}

bool lh_openai_refuse(lh_openai_error *error, const char *param, const char *code,
                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    set(error, 400, param, code, format, args);
    va_end(args);
    return false;
}

void lh_openai_error_set(lh_openai_error *error, unsigned status, const char *code,
                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    set(error, status, NULL, code, format, args);
    va_end(args);
}

void lh_openai_error_from(lh_openai_error *error, const lh_error *cause) {
    switch (cause->status) {
    case LH_ERR_BUSY:
        lh_openai_error_set(error, 429, "queue_full",
                            "The queue of requests is full. Try again later.");
        error->retry_after_ms = 1000;
        break;
    case LH_ERR_UNAVAILABLE:
        lh_openai_error_set(error, 503, "model_unavailable",
                            "No complete chain of workers serves the model now. Try again later.");
        error->retry_after_ms = 2000;
        break;
    case LH_ERR_TIMEOUT:
        lh_openai_error_set(error, 504, "upstream_timeout", "A worker did not answer in time.");
        break;
    case LH_ERR_INVALID:
    case LH_ERR_LIMIT:
    case LH_ERR_MALFORMED:
        lh_openai_error_set(error, 400, "invalid_value", "%s", cause->message);
        break;
    default:
        lh_openai_error_set(
            error, 500, "internal_error",
            "The server failed to serve this request; its log says more under the request's id.");
        error->retry_is_futile = cause->status == LH_ERR_INTERNAL;
    }
}

static json_t *text_or_null(const char *text) {
    /* may have been cut inside a character */
    return *text ? lh_json_text(text, strlen(text)) : json_null();
}

lh_status lh_openai_error_render(const lh_openai_error *error, lh_text_buffer *out) {
    return lh_json_render(json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message",
                                    text_or_null(error->message), "type", error->type, "param",
                                    text_or_null(error->param), "code", error->code),
                          out);
}

void lh_openai_error_reply(const lh_openai_error *error, lh_http_reply *reply) {
    lh_text_buffer body = {0};
    reply->status = error->status;
    if (lh_openai_error_render(error, &body))
        lh_text_buffer_reset(&body);
    free(reply->body);
    reply->body = body.bytes;
    reply->body_bytes = body.length;
    lh_http_reply_add(reply, "Content-Type", "application/json");
    if (error->retry_after_ms) {
        uint32_t seconds = (error->retry_after_ms + 999) / 1000;
        lh_http_reply_add(reply, "Retry-After", "%u", seconds > 120 ? 120 : seconds);
        lh_http_reply_add(reply, "retry-after-ms", "%u", error->retry_after_ms);
    }
    if (error->retry_is_futile || error->status == 501)
        lh_http_reply_add(reply, "x-should-retry", "false");
    if (error->status == 401)
        lh_http_reply_add(reply, "WWW-Authenticate", "Bearer");
}
