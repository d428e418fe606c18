/* How many steps are kept on a chain.
 *
 * Decode: as many as decode_groups.h says. While the chain's costs are not known: one for each
 * stage keeps every stage busy, and one is on its way.
 *
 * Prefill: as many as the plan of the prompt says (overlap_plan.h), up to a limit. A step that
 * waits at a stage costs it nothing: its shards wait in a bounded queue, and only the next steps
 * get an activation buffer. So a worker allocates for the steps that it works on, not for all that
 * may be under way. */
#pragma once

#include "common/protocol/step.h"

#include <stdint.h>

static inline uint32_t lh_decode_depth_unmeasured(uint32_t stages) {
    return stages + 1;
}

/* Steps of a few rows for a ring of some hundred milliseconds. */
#define LH_DECODE_DEPTH_MAX 64u

/* Enough for a ring of 400 ms in chunks of 6 ms. */
#define LH_PREFILL_DEPTH_MAX 64u

/* A plan's depth without what it adds for times that vary (overlap_plan.h): half, and two. */
static inline uint32_t lh_prefill_depth_lean(uint32_t depth) {
    return depth > 3 ? (2 * (depth - 2) + 2) / 3 : depth;
}

/* Steps without rows, which only truncate. */
#define LH_TRUNCATION_DEPTH 2u

/* Activation buffers of a worker (CONTROL.md: steps_max): one step computes, the shards of the next
 * few come in, and one buffer is kept for decode steps. */
#define LH_WORKER_BUFFERS 6u
