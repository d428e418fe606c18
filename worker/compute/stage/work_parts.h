/* How an operation is cut for the threads. Thread: any. */
#pragma once

#include "common/base/arithmetic.h"
#include "worker/compute/stage/ops.h"

/* Below so many elements an operation costs less than waking the helpers: the caller does
 * it alone. */
#define LH_PART_ELEMENTS_MIN 8192u
/* Rows are divided in this unit, so that parts of packed activations begin at aligned addresses. */
#define LH_PART_ROWS 16u
/* Several parts for each thread: one that comes late or is interrupted leaves its parts to the
 * others. */
#define LH_PARTS_PER_THREAD 4u

static inline uint32_t lh_units_in(uint32_t count, uint32_t unit) {
    return (uint32_t)(((uint64_t)count + unit - 1) / unit);
}

/* Part `part` of `parts` of [0, count), in whole units. */
static inline lh_span lh_part_of(uint32_t count, uint32_t unit, uint32_t part, uint32_t parts) {
    uint64_t units = ((uint64_t)count + unit - 1) / unit;
    return (lh_span){.begin = lh_min_u32((uint32_t)(units * part / parts) * unit, count),
                     .end = lh_min_u32((uint32_t)(units * (part + 1) / parts) * unit, count)};
}

/* How many parts to make of so many units. */
static inline uint32_t lh_parts_for(const lh_compute *compute, uint64_t units) {
    uint32_t threads = lh_thread_pool_size(compute->pool);
    uint32_t most = threads == 1 ? 1 : threads * LH_PARTS_PER_THREAD;
    return units < most ? (uint32_t)units : most;
}

/* The same for operations that are often too small to share. */
static inline uint32_t lh_parts_of_small(const lh_compute *compute, uint32_t units,
                                         uint64_t elements) {
    return elements < LH_PART_ELEMENTS_MIN ? 1 : lh_parts_for(compute, units);
}
