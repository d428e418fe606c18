/* Why a request is not served, as OpenAI's clients read it:
 * {"error":{"message","type","param","code"}} under a status code. Plain data; thread: its owner's.
 */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "gateway/http/reply.h"

#include <stdint.h>

typedef struct lh_openai_error {
    unsigned status;
    const char *type; /* static */
    const char *code; /* static; NULL: null */
    char param[96];   /* "": null */
    char message[512];
    uint32_t retry_after_ms; /* 0: not said */
    bool retry_is_futile;    /* a server error that would come again */
} lh_openai_error;

/* 400 invalid_request_error about one parameter (NULL: none). Returns false, so that a parser can
 * end with it. */
bool lh_openai_refuse(lh_openai_error *error, const char *param, const char *code,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Any other status: the type follows from it. */
void lh_openai_error_set(lh_openai_error *error, unsigned status, const char *code,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* From the engine's status: BUSY is 429 (retry after a second, where the caller knows no better),
 * UNAVAILABLE 503, TIMEOUT 504, a value that it refuses 400 with the cause's message, all else 500.
 * The other messages may name machines: they are for the log only and do not go into the error. */
void lh_openai_error_from(lh_openai_error *error, const lh_error *cause);

/* Appends the JSON object. LH_ERR_NO_MEMORY. */
lh_status lh_openai_error_render(const lh_openai_error *error, lh_text_buffer *out);
/* Fills status, body and headers; without a body when there is no memory for one. */
void lh_openai_error_reply(const lh_openai_error *error, lh_http_reply *reply);
