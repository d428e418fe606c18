/* The exact search, for few machines: a program over (machines used, the last of them, layers done)
 * that finds the shortest ring whose stages and wires all keep a limit. Any order of machines, any
 * split, any of them left out: 2^W W^2 L^2 / 2 transitions. Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

#define LH_MACHINE_SUBSETS_MAX 12u

typedef struct lh_machine_subsets lh_machine_subsets;

/* For the parts' machines, LH_MACHINE_SUBSETS_MAX of them at most. LH_ERR_NO_MEMORY. */
lh_status lh_machine_subsets_create(const lh_parts *parts, lh_machine_subsets **subsets,
                                    lh_error *error);
void lh_machine_subsets_destroy(lh_machine_subsets *subsets);
/* For lh_limit_search (limit_search.h): context is the subsets. The parts may have been priced anew
 * since they were created. */
bool lh_machine_subsets_find(void *context, double busiest_max_us, lh_part_ring *ring);
