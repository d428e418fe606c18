/* Why no plan can be made, in words. Pure. Thread: any. */
#pragma once

#include "gateway/fleet/registry.h"
#include "gateway/fleet/relays.h"

/* Into reason[LH_ERROR_MESSAGE_BYTES]: what the planner says, and by whom too little is offered, or
 * what one of the workers that failed or are not reached has to say. */
void lh_shortage_explain(const lh_error *error, const lh_registry *registry,
                         const lh_relays *relays, char *reason);
