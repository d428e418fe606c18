/* What the live planner knows, for GET /fleet. Thread: the engine's. */
#pragma once

#include "gateway/fleet/fleet.h"

#include <jansson.h>

/* "better" of a chain in docs/API.md: JSON null while nothing has been looked for. NULL: no memory.
 */
json_t *lh_plan_view_render(const lh_fleet *fleet, int64_t now_us);
