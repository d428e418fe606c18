/* Why no plan could be made, in words for an operator. Pure; thread: any. */
#pragma once

#include "gateway/fleet/registry.h"
#include "gateway/fleet/relays.h"

/* The error of a plan, and what the workers have to do with it: what each one offers where that is
 * too little, else who is not reached, has failed or is suspended. reason:
 * LH_ERROR_MESSAGE_BYTES. relays: NULL: there are none. */
void lh_plan_failure_explain(const lh_error *error, const lh_registry *registry,
                             const lh_relays *relays, char *reason);
