/* Draws one token from one row of logits. Pure: the same parameters and logits give the same token,
 * so that a replay after a lost worker goes on with the same text. Thread: any, scratch is the
 * caller's.
 *
 * Order of the steps: mask, logit bias, penalties, temperature, top-k, top-p, min-p, draw.
 * temperature 0 is greedy: the greatest logit after bias and penalties, the lowest token id among
 * equals. What top-k, top-p and min-p leave is defined in candidates.h; among it a token is drawn
 * by kernels.h's `draw` with the noise of seed and counter. Logprobs are of the distribution before
 * temperature and truncation, after mask, bias and penalties; tokens that cannot come are not
 * among the best. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/row_answer.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the parameters can be honoured. LH_ERR_INVALID: a parameter is not finite or out of its
 * range; LH_ERR_LIMIT: a token of biases or counts is not in the vocabulary, or more logprobs are
 * wanted than LH_TOP_LOGPROBS_MAX. */
lh_status lh_sampling_check(const lh_sampling *sampling, uint32_t vocabulary, lh_error *error);

/* Bytes of scratch for a vocabulary of this size; 64-byte aligned. */
size_t lh_sampler_scratch_bytes(uint32_t vocabulary);

/* logits[vocabulary] may be changed; 64-byte aligned. mask[lh_mask_code_words(vocabulary)]: the
 * tokens that may be drawn (mask_code.h); NULL: all. The parameters have passed the check. The draw
 * is the answer's only part; answer->top points to room for top_logprobs, and stays.
 * LH_ERR_INVALID: a logit is NaN or +inf, or all are -inf (the message says so). */
lh_status lh_sample(const lh_kernels *kernels, float *logits, uint32_t vocabulary,
                    const lh_sampling *sampling, const uint64_t *mask, void *scratch,
                    lh_row_answer *answer, lh_error *error);
