/* Refusals in words: which limit, and when to come again; or that it has taken too long. Thread:
 * any. */
#pragma once

#include "gateway/auth/authenticator.h"
#include "gateway/openai/error.h"

/* 429: a limit of the client's own. */
void lh_openai_refuse_client(lh_openai_error *error, const lh_ticket *ticket,
                             const lh_account_refusal *refusal);
/* 429: the queue is full for so many sequences. */
void lh_openai_refuse_full(lh_openai_error *error, lh_ticket *ticket, uint32_t sequences,
                           int64_t now_us);
/* Its time was over: 408 where nothing had been drawn, which may be tried again as it is, else 504.
 */
void lh_openai_refuse_late(lh_openai_error *error, uint64_t tokens, int64_t timeout_us);
/* 499: seen by a client that closed its sending half alone, which counts as hanging up. */
void lh_openai_refuse_gone(lh_openai_error *error);
