/* From an order of machines that is good for layers of one size to a layout that is good for the
 * layers as they are: the order is split anew, with machines of the same sites beside it that may
 * be better at what is left over and those that are pinned; then machines are moved, taken in and
 * exchanged while that helps, as long as a budget of work lasts, which is counted and not timed.
 * Thread: one at a time. */
#pragma once

#include "gateway/plan/limit_search.h"
#include "gateway/plan/order_split.h"

typedef struct lh_order_polish {
    lh_parts *parts;
    const lh_aim *aim;
    lh_order_split split;
    uint32_t *kept; /* [split.capacity]: an order to come back to */
    double work_left;
} lh_order_polish;

/* LH_ERR_NO_MEMORY. */
lh_status lh_order_polish_init(lh_order_polish *polish, lh_parts *parts, const lh_aim *aim,
                               lh_error *error);
void lh_order_polish_reset(lh_order_polish *polish);
/* Replaces *best where the order of *from, for steps of its size, makes something better; *from is
 * in layers of one size (site_search.h). Prices the parts anew. */
void lh_order_polish_split(lh_order_polish *polish, const lh_found *from, lh_found *best);
/* Moves machines of *best. */
void lh_order_polish_move(lh_order_polish *polish, lh_found *best);
