/* The best layout that keeps an order: the machines of another layout in its turn, each with other
 * layers or left out. Of plans that are nearly as good it is the one that disturbs least. Thread:
 * any. */
#pragma once

#include "gateway/plan/layout_search.h"

/* plan->bound is not set, and nothing is said of what other orders would give. Errors of
 * lh_layout_search; LH_ERR_LIMIT: no layout in this order holds the model. */
lh_status lh_layout_resplit(const lh_fleet_map *map, const lh_aim *aim, const lh_layout *order,
                            lh_layout_plan *plan, lh_error *error);
/* The same with an eighth of the work, for whoever has to have a plan at once: 16 machines and 80
 * layers take a few milliseconds. */
lh_status lh_layout_resplit_quickly(const lh_fleet_map *map, const lh_aim *aim,
                                    const lh_layout *order, lh_layout_plan *plan, lh_error *error);
