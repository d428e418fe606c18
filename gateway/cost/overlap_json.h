/* The cost model for GET /fleet: what it reckons with, and what it would choose. Thread: one at a
 * time. */
#pragma once

#include "gateway/cost/overlap_plan.h"

#include <jansson.h>

/* {"lacks": why nothing can be predicted, or null, "stages": [...], "hops": [...], "plans": [...],
 * "token_ms"}: the times of a stage and the rates of a hop as the model has them now, the plans of
 * prompts of 128, 512 and 2048, and what a token of a single sequence takes around the ring. NULL:
 * out of memory. */
json_t *lh_overlap_json_render(const lh_overlap_planner *planner);
