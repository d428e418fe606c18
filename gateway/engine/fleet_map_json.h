/* GET /fleet/map: what plans are made from, as it has been measured, in the format of the files
 * that `longhaul-gateway plan` reads (docs/OPERATING.md). Thread: the engine's. */
#pragma once

#include "gateway/engine/router.h"

/* A JSON text, malloc'd, the caller's. Workers of which nothing has been measured, nor of one like
 * them, stand in "unmeasured" by their names. NULL: no memory, or more sites or layers than a file
 * may have. */
char *lh_fleet_map_render(const lh_router *router, int64_t now_us);
