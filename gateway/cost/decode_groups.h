/* Into how many steps the sequences that decode are dealt. Pure arithmetic: no clock, no
 * allocation.
 *
 * A sequence's next row can leave when its last token has come around the ring. With all N in one
 * step the chain waits for the ring after each, and of its stages only one works at a time. In k
 * groups of n = N / k rows each that follow each other, a token of every sequence comes once in
 *
 *     period = max( ring(n), k * busiest(n) )
 *
 *     ring(n)     a step of n rows once around, alone: all stages, wires and delays
 *     busiest(n)  the stage or wire that takes longest for it
 *
 *      k = 1   stage 1  [AAAAAA]                        [AAAAAA]       ring: both stages wait
 *              stage 2          ~[AAAAAA]~                      ~[AAAAAA]
 *      k = 3   stage 1  [AA][BB][CC][AA][BB][CC][AA]                   busy: stage 1 never waits
 *              stage 2       ~[AA][BB][CC][AA][BB]
 *
 * More groups hide more of the ring (Little's law), but a step of a few rows takes nearly as long
 * as one of some more, since the weights are read once for each step: so busy time grows with k as
 * the ring's gets shorter, and the best k is where they meet. There each delay of one leaves a gap
 * in the other: times vary, so the period is reckoned a little longer than the greater of the two
 * where they are near each other. Of numbers that are as good the least is taken.
 *
 * Thread: any. */
#pragma once

#include "gateway/cost/cost_model.h"

typedef struct lh_decode_groups {
    uint32_t count;   /* steps under way, 1 .. sequences */
    double period_us; /* between two tokens of a sequence */
} lh_decode_groups;

/* For so many sequences (> 0) at about this position, at most count_max (> 0) steps and rows_max
 * rows in each. The chain has passed lh_cost_chain_check. */
lh_decode_groups lh_decode_groups_choose(const lh_cost_chain *chain, uint32_t position,
                                         uint32_t sequences, uint32_t count_max, uint32_t rows_max);
/* The period of so many groups (> 0): ring_us of one of them alone, busy_us of the busiest stage or
 * wire with all of them. */
double lh_decode_groups_period_us(double ring_us, double busy_us, uint32_t count);
