/* The stacks of an automaton's calls, as a graph in which equal ones are one (a graph-structured
 * stack, doi 10.3115/981311.981318): a stack says where a rule that was called goes on when it is
 * at its end, which may be several places, since texts may be read in several ways. A repetition
 * that is counted keeps its counts there.
 *
 * Stacks are numbered from 0; those on which one lies have lower numbers. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/automaton.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_STACK_NONE UINT32_MAX

/* Bounds of one pool: 80 MiB. */
#define LH_STACKS_MAX      (1u << 20)
#define LH_STACK_EDGES_MAX (1u << 21)

/* One place where to go on. */
typedef struct lh_stack_edge {
    uint32_t state;    /* of the kind CALL: behind it; LOOP: to be repeated; END; ESCAPE */
    uint32_t parent;   /* the stack of the rule that called; LH_STACK_NONE for END and ESCAPE */
    uint32_t min, max; /* LOOP: how often what is repeated must and may follow once more */
} lh_stack_edge;

/* Of the structure, not of the numbers: the same in every pool. */
typedef struct lh_stack_hash {
    uint64_t low, high;
} lh_stack_hash;

typedef struct lh_stack {
    lh_stack_hash hash; /* of stacks that are equal, but for counts beyond count_max */
    uint32_t first, count;
} lh_stack;

typedef struct lh_stack_pool {
    uint32_t count_max; /* counts above it are equal to those who look no further */
    lh_stack *stacks;
    lh_stack_edge *edges;
    uint32_t *slots; /* [slot_mask + 1]: number + 1; 0 for an empty one */
    size_t stack_count, stack_capacity, edge_count, edge_capacity, slot_mask;
} lh_stack_pool;

/* An empty pool is {.count_max = n}. Frees all and makes it empty again. */
void lh_stack_pool_reset(lh_stack_pool *pool);
/* Makes it empty and keeps its memory. */
void lh_stack_pool_clear(lh_stack_pool *pool);

/* The stack with these edges, count > 0, which are put in order; of a repetition's those are left
 * out that allow nothing which another does not. LH_ERR_LIMIT; LH_ERR_NO_MEMORY. */
lh_status lh_stack_pool_intern(lh_stack_pool *pool, lh_stack_edge *edges, size_t count,
                               uint32_t *stack, lh_error *error);

/* An order-independent sum of hashes. */
lh_stack_hash lh_stack_hash_add(lh_stack_hash a, lh_stack_hash b);
/* The hash of a state on a stack; of the state alone for LH_STACK_NONE. */
lh_stack_hash lh_stack_hash_place(const lh_stack_pool *pool, uint32_t state, uint32_t stack);
