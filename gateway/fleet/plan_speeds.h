/* How fast the workers of one plan are beside each other. Pure. Thread: any. */
#pragma once

#include "gateway/fleet/planner.h"

/* Takes what each worker has measured of itself (zeros: nothing), and makes it comparable, in whatever unit. Measured speeds count
 * where every worker has measured its own, else the number of threads alone does. Measured ones that are within a quarter of each
 * other are made the same, so that equal machines get equal shares, whatever the noise was. The order of the workers is no
 * matter. */
void lh_plan_speeds_compare(lh_plan_worker *workers, uint32_t count);
