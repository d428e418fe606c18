/* What the API tells without generating anything: models, health, the fleet, traces. Private to
 * gateway/openai/. Thread: the exchange's server thread. */
#pragma once

#include "gateway/openai/call.h"

/* As the engine says, or draining. */
lh_engine_state lh_openai_lookup_state(const lh_openai_api *api);
/* 503, and why. */
void lh_openai_lookup_set_unavailable(lh_engine_state state, lh_openai_error *error);
/* The reply to a request of any action but the two that generate. READY or BREAK. */
lh_http_progress lh_openai_lookup_reply(lh_openai_call *call, lh_http_reply *reply);
