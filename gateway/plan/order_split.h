/* Where the order of machines is given: how many layers each of them takes. A program over (last
 * machine used, layers done), which finds either
 *
 *   the shortest ring   whose stages and wires all keep a limit: machines that do not help are left
 *                       out
 *   the even split      over all machines of the order, each with a layer at least: its slowest
 *                       stage is as fast as can be for the parts' step; among equal ones, for a
 *                       second kind of step; then the sum of squares, which evens out the stages
 *                       that are not the slowest
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

typedef struct lh_split_state lh_split_state;
typedef struct lh_split_slowest lh_split_slowest;

typedef struct lh_order_split {
    const lh_parts *parts;
    /* the same machines, priced for the second kind of step; NULL: no even split is wanted */
    const lh_parts *second;
    uint32_t count, capacity;
    uint32_t *order;           /* [count], indices into the parts' machines, each there once */
    lh_split_state *states;    /* [capacity][layers + 1] */
    lh_split_slowest *slowest; /* the same, of even splits */
} lh_order_split;

/* For orders of up to `capacity` machines. second: see above. LH_ERR_NO_MEMORY. */
lh_status lh_order_split_init(lh_order_split *split, const lh_parts *parts, const lh_parts *second,
                              uint32_t capacity, lh_error *error);
void lh_order_split_reset(lh_order_split *split);
/* The shortest ring, for lh_limit_search (limit_search.h): context is the split. */
bool lh_order_split_find(void *context, double busiest_max_us, lh_part_ring *ring);
/* The even split over the order's machines, in the parts' indices. False: none fits. */
bool lh_order_split_evenly(lh_order_split *split, lh_layout *layout);
