/* What a row of logits tells, without a draw: whether they are numbers, which are the best, and
 * what a token that is known was worth. Pure. Thread: any, scratch is the caller's. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/row_answer.h"
#include "kernels/kernels.h"

#include <stdint.h>

/* LH_ERR_INVALID: a logit is NaN or +inf (the message says which). */
lh_status lh_logits_check(const float *logits, uint32_t vocabulary, lh_error *error);
/* The best `wanted` by logit, best first, equal ones by token id, without those that are -inf:
 * top's logprobs are still logits. Returns how many. */
uint32_t lh_logits_best(const float *logits, uint32_t vocabulary, uint32_t wanted,
                        lh_token_logprob *top);
/* log of the sum of exp(logit - max) of all; scratch[vocabulary], 64-byte aligned like the logits.
 * The log probability of a token is its logit - max - this, in this order. */
float lh_logits_log_sum(const lh_kernels *kernels, const float *logits, uint32_t vocabulary,
                        float max, float *scratch);
/* The score of token (< vocabulary), with the `top` best; scratch as above. LH_ERR_INVALID: a logit
 * is NaN or +inf, or all are -inf. */
lh_status lh_logits_score(const lh_kernels *kernels, const float *logits, uint32_t vocabulary,
                          uint32_t token, uint32_t top, float *scratch, lh_token_score *score,
                          lh_error *error);
