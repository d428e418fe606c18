/* When a sequence would be through on a chain, from the chain's costs and from who is there
 * already. It is for comparing chains, so what is the same for all of them may be rough. Pure
 * arithmetic; thread: any. */
#pragma once

#include "gateway/cost/cost_model.h"

typedef struct lh_finish_question {
    uint32_t length, max_tokens; /* of the sequence */
    uint32_t cached;             /* of its length, what a prefix on the chain spares it */
    uint32_t here, places;       /* sequences that run or wait, and how many run at once */
    uint64_t rows_before;        /* of prompts, still to be computed for those that are here */
    uint32_t rows_max;           /* of a step */
} lh_finish_question;

/* Microseconds from now. The costs have passed lh_cost_chain_check.
 *
 *   wait for a place   those who are ahead of it beyond the places there are, each as long as
 *                      itself
 *   its prompt         all rows that are to be computed before its first token, at the pace of the
 *                      busiest stage or hop
 *   its tokens         each takes a turn around the ring, or, with many others, a row of each of
 *                      them at the busiest stage or hop */
double lh_finish_estimate_us(const lh_cost_chain *costs, const lh_finish_question *question);
