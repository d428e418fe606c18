/* What no layout can be better than, and what that is made of: for any limit of the busiest part
 *
 *   compute  the layers' bytes on the machines that are fastest at them, each as far as its memory
 *            and the limit go, in whole and in parts; attention where it is fastest
 *   head     where it is fastest
 *   steps    as many stages as that takes at least, each with the least that a step costs anywhere
 *   wires    the shortest way in and the shortest way out; between them as many hops as so many
 *            stages need, of those as many between sites as so many sites need, at the shortest
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

typedef struct lh_ring_bound {
    double busiest_us; /* of rings whose busiest part takes at least so long ... */
    double compute_us, head_us, steps_us, wires_us;
    uint32_t stages, sites; /* ... and so many at least */
    double value;           /* of the aim */
} lh_ring_bound;

typedef struct lh_ring_bounds lh_ring_bounds;

/* LH_ERR_NO_MEMORY. */
lh_status lh_ring_bounds_create(const lh_parts *parts, lh_ring_bounds **bounds, lh_error *error);
void lh_ring_bounds_destroy(lh_ring_bounds *bounds);
/* The least value that any layout can have for this size, for which the parts are priced, as far as
 * this shows; a value of INFINITY: none is possible. */
lh_ring_bound lh_ring_bounds_find(lh_ring_bounds *bounds, const lh_aim *aim,
                                  const lh_aim_size *size);
