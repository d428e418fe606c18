/* The plan that the workers have loaded already: what a gateway finds that has been restarted, or
 * whose chain was down. A pure function. */
#pragma once

#include "gateway/fleet/registry.h"
#include "gateway/plan/layout.h"

/* From the first layer on, always the worker that has loaded what comes next; of several the one
 * that was told so last, then the first in the list. Layers that nobody begins with are a stage of
 * NOBODY. The plan has no stages where nobody has loaded any of this model, or where there are too
 * many. Returns whether somebody has each layer. */
bool lh_held_plan(const lh_worker *const *workers, uint32_t count, uint32_t layers,
                  const char *model_digest, lh_layout *plan);
