/* When a sequence would be through on a chain, from the chain's costs and from what is there
 * already. It is for comparing chains, so what is the same for all of them may be rough. Pure
 * arithmetic; thread: any. */
#pragma once

#include "gateway/cost/cost_model.h"
#include "gateway/schedule/sequence.h"

/* Microseconds from now. rows: of prompts, to be computed before its first token. here: the other
 * sequences that run or wait; places: how many run at once. The costs have passed
 * lh_cost_chain_check.
 *
 *   wait for a place   those who are ahead of it beyond the places there are, each as long as
 *                      itself
 *   its prompt         all rows, at the pace of the busiest stage or hop
 *   its tokens         each takes a turn around the ring, or, with many others, a row of each of
 *                      them at the busiest stage or hop */
double lh_finish_estimate_us(const lh_cost_chain *costs, const lh_sequence *sequence, uint64_t rows,
                             uint32_t rows_max, uint32_t here, uint32_t places);
