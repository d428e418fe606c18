/* 429 in words: which limit, and when to come again. Thread: any. */
#pragma once

#include "gateway/access/gatekeeper.h"
#include "gateway/http/openai_error.h"

/* A limit of the client's own. */
void lh_openai_refuse_client(lh_openai_error *error, const lh_pass *pass, const lh_account_refusal *refusal);
/* The queue is full for so many sequences. */
void lh_openai_refuse_full(lh_openai_error *error, lh_pass *pass, uint32_t sequences, int64_t now_us);
