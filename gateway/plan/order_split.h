/* Where the order of machines is given: which of them to use, and how many layers each takes. A
 * program over (last machine used, layers done). Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

typedef struct lh_split_state lh_split_state;

typedef struct lh_order_split {
    const lh_parts *parts;
    uint32_t count, capacity;
    uint32_t *order;        /* [count], indices into the parts' machines, each there once */
    lh_split_state *states; /* [capacity][layers + 1] */
} lh_order_split;

/* For orders of up to `capacity` machines. LH_ERR_NO_MEMORY. */
lh_status lh_order_split_init(lh_order_split *split, const lh_parts *parts, uint32_t capacity,
                              lh_error *error);
void lh_order_split_reset(lh_order_split *split);
/* For lh_limit_search (limit_search.h): context is the split. */
bool lh_order_split_find(void *context, double busiest_max_us, lh_part_ring *ring);
