/* The best layout of a model over machines: which of them to use, in which order, with which
 * layers.
 *
 * Up to LH_LAYOUT_EXACT_MACHINES machines nothing is better (machine_subsets.h), and with a few
 * more where the model has few layers: 12 with 24. With more, orders are found over sites
 * (site_search.h): exact for sites visited once and layers of one size, as long as there are
 * LH_SITE_SEARCH_EXACT sites at most; then the orders that are best are split with the layers' true
 * sizes (order_split.h), and machines are moved, added and left out while that helps. Each site
 * alone is tried as well, so that no plan is slower than the best of these.
 * Beside the plan goes a bound (ring_bound.h).
 *
 * Pure functions of the map and the aim, which is not EVEN (even_split.h): the same machines give
 * the same plan, in whatever order they stand. Thread: any. */
#pragma once

#include "gateway/plan/limit_search.h"
#include "gateway/plan/ring_bound.h"

#define LH_LAYOUT_EXACT_MACHINES 8u

typedef struct lh_layout_plan {
    lh_layout layout; /* in the map's indices */
    lh_aim_size size; /* of steps, at which it is as good as that */
    double value;     /* of the aim */
    double ring_us, busiest_us;
    lh_ring_bound bound; /* nothing has a value below bound.value */
    bool is_exact;       /* nothing is better than this plan, whatever the bound is */
    lh_kv_need kv;       /* for which each stage has room: as the model wants it, or less */
} lh_layout_plan;

/* With the room for keys and values that the map's model wants, or, where no layout has that, with
 * half of it, and half of that. LH_ERR_LIMIT: no layout holds the model, or none keeps the aim's
 * bound; the message has figures.
 * LH_ERR_INVALID, LH_ERR_UNAVAILABLE: as lh_fleet_map_check. LH_ERR_NO_MEMORY. */
lh_status lh_layout_search(const lh_fleet_map *map, const lh_aim *aim, lh_layout_plan *plan,
                           lh_error *error);
/* The same for whoever has to have a plan at once: over sites alone, with a few tries and without
 * moving machines. Its work is bounded by the number of machines, sites and layers: 64 machines in
 * 16 sites take 45 ms at most (tests/bench/tool_plan_simulation.c). */
lh_status lh_layout_search_quickly(const lh_fleet_map *map, const lh_aim *aim, lh_layout_plan *plan,
                                   lh_error *error);
