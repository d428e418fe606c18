/* Copies of stacks from one pool to another: only those that lie under some places, and as much of
 * them as is wanted. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/closure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of the stacks is copied: the callers of so many rules, one above the other, below which
 * is LH_AUTOMATON_ESCAPE; or all. */
#define LH_STACK_DEPTH_ALL 0
#define LH_STACK_DEPTH_MAX 8

/* Scratch. An empty one is {0}. */
typedef struct lh_stack_copier {
    uint32_t *copies;     /* [stacks][LH_STACK_DEPTH_MAX + 1] */
    uint16_t *wanted;     /* [stacks]: a bit for each depth */
    lh_stack_edge *edges; /* of one stack */
    size_t copies_capacity, wanted_capacity, edge_capacity;
} lh_stack_copier;

void lh_stack_copier_reset(lh_stack_copier *copier);

typedef struct lh_stack_copy {
    const lh_automaton *automaton;
    const lh_stack_pool *from;
    lh_stack_pool *to;
    uint32_t depth;
    bool clamps; /* counts that are above to->count_max are all made the same */
} lh_stack_copy;

/* Copies what lies under the places, and changes their stacks to the copies; places that have
 * become equal are one. LH_ERR_LIMIT, LH_ERR_NO_MEMORY: the places may have changed. */
lh_status lh_stack_copier_run(lh_stack_copier *copier, const lh_stack_copy *copy, lh_places *places,
                              lh_error *error);
