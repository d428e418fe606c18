/* Why a request is not served, as OpenAI's clients read it:
 * {"error":{"message","type","param","code"}} under a status code. Plain data; thread: its owner's.
 * Each _refuse returns false, so that what fails can end with it. */
#pragma once

#include "common/base/status.h"
#include "gateway/auth/authenticator.h"
#include "gateway/http/reply.h"

#include <jansson.h>
#include <stdint.h>

typedef struct lh_openai_error {
    unsigned status;  /* 0: none */
    const char *type; /* static */
    const char *code; /* static; NULL: null */
    char param[96];   /* "": null */
    char message[512];
    uint32_t retry_after_ms; /* 0: not said */
    bool retry_is_futile;    /* a server error that would come again */
} lh_openai_error;

/* About one parameter (NULL: none); the type follows from the status. */
bool lh_openai_refuse(lh_openai_error *error, unsigned status, const char *param, const char *code,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* From the engine's status: BUSY is 429 (retry after a second, where the caller knows no better),
 * UNAVAILABLE 503, TIMEOUT 504, a value that it refuses 400 with the cause's message, all else 500.
 * The other messages may name machines: they are for the log only and do not go into the error. */
bool lh_openai_refuse_cause(lh_openai_error *error, const lh_error *cause);
/* The same of lh_engine_submit and lh_engine_refusal: UNSUPPORTED is 503, too, with the cause's
 * message, which speaks of the model alone. */
bool lh_openai_refuse_admission(lh_openai_error *error, const lh_error *cause);
/* The same of a status that needs no words. */
bool lh_openai_refuse_status(lh_openai_error *error, lh_status status);
/* 429: a limit of the client's own. */
bool lh_openai_refuse_client(lh_openai_error *error, const lh_ticket *ticket,
                             const lh_account_refusal *refusal);
/* 429: the queue is full for so many sequences. */
bool lh_openai_refuse_full(lh_openai_error *error, lh_ticket *ticket, uint32_t sequences);

/* NULL: no memory. */
json_t *lh_openai_error_json(const lh_openai_error *error);
/* Fills status, body and headers; without a body when there is no memory for one. */
void lh_openai_error_reply(const lh_openai_error *error, lh_http_reply *reply);
/* The same with a body in other words, which it takes; NULL: no memory for it. */
void lh_openai_error_reply_as(const lh_openai_error *error, json_t *body, lh_http_reply *reply);

/* A reply whose body is `object`, which it takes. LH_ERR_NO_MEMORY: it has no body. */
lh_status lh_openai_json_reply(unsigned status, json_t *object, lh_http_reply *reply);
