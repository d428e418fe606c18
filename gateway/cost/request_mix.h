/* What requests have been like lately: the lengths of their prompts and answers, and how many ran
 * at once, as averages over the last hundred or so. Plain data; thread: one at a time. */
#pragma once

#include <stdint.h>

/* So many requests say something. */
#define LH_REQUEST_MIX_MIN 16u

/* All zero: there was none. */
typedef struct lh_request_mix {
    uint64_t count;
    double prompt_tokens, answer_tokens;
    double sequences; /* that ran when one ended, itself included */
} lh_request_mix;

/* One has ended. */
void lh_request_mix_note(lh_request_mix *mix, uint32_t prompt_tokens, uint32_t answer_tokens,
                         uint32_t sequences);
