/* A hash table of what was made, by content. */
#include "gateway/constrain/stack_pool.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define SLOTS_MIN 64
/* A table above this is given back by clear, which would take long to fill with zeros each time. */
#define SLOTS_KEPT_MAX 16384

void lh_stack_pool_reset(lh_stack_pool *pool) {
    free(pool->stacks);
    free(pool->edges);
    free(pool->slots);
    *pool = (lh_stack_pool){.count_max = pool->count_max};
}

void lh_stack_pool_clear(lh_stack_pool *pool) {
    if (pool->slots && pool->slot_mask >= SLOTS_KEPT_MAX) {
        lh_stack_pool_reset(pool);
        return;
    }
    pool->stack_count = pool->edge_count = 0;
    if (pool->slots)
        memset(pool->slots, 0, (pool->slot_mask + 1) * sizeof *pool->slots);
}

lh_stack_hash lh_stack_hash_add(lh_stack_hash a, lh_stack_hash b) {
    return (lh_stack_hash){a.low + b.low, a.high + b.high};
}

static lh_stack_hash hash_words(const uint64_t *words, size_t count) {
    XXH128_hash_t hash = XXH3_128bits(words, count * sizeof *words);
    return (lh_stack_hash){hash.low64, hash.high64};
}

lh_stack_hash lh_stack_hash_place(const lh_stack_pool *pool, uint32_t state, uint32_t stack) {
    lh_stack_hash below = stack == LH_STACK_NONE ? (lh_stack_hash){0, 0} : pool->stacks[stack].hash;
    return hash_words((uint64_t[]){state, below.low, below.high}, 3);
}

static uint32_t clamp(uint32_t count, uint32_t max, uint32_t beyond) {
    return count > max ? beyond : count;
}

static lh_stack_hash hash_edges(const lh_stack_pool *pool, const lh_stack_edge *edges,
                                size_t count) {
    lh_stack_hash sum = {count, 0};
    for (size_t i = 0; i < count; i++) {
        lh_stack_hash place = lh_stack_hash_place(pool, edges[i].state, edges[i].parent);
        uint32_t min = clamp(edges[i].min, pool->count_max, pool->count_max);
        uint32_t max = clamp(edges[i].max, pool->count_max, LH_GRAMMAR_UNBOUNDED);
        sum = lh_stack_hash_add(
            sum, hash_words((uint64_t[]){place.low, place.high, (uint64_t)min << 32 | max}, 3));
    }
    return hash_words((uint64_t[]){sum.low, sum.high}, 2);
}

/* Of one repetition on one stack: the least minimum first, the greatest maximum first among
 * equals. */
static int compare_edges(const void *a, const void *b) {
    const lh_stack_edge *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->min != y->min)
        return x->min < y->min ? -1 : 1;
    return (x->max < y->max) - (x->max > y->max);
}

/* In order, without what another covers. Gives the number that is left. */
static size_t normalize(lh_stack_edge *edges, size_t count) {
    size_t kept = 1;
    if (count > 1)
        qsort(edges, count, sizeof *edges, compare_edges);
    for (size_t i = 1; i < count; i++) {
        const lh_stack_edge *last = &edges[kept - 1];
        bool is_covered = last->state == edges[i].state && last->parent == edges[i].parent &&
                          last->max >= edges[i].max;
        if (!is_covered)
            edges[kept++] = edges[i];
    }
    return kept;
}

static size_t slot_of(const lh_stack_pool *pool, const lh_stack_edge *edges, size_t count) {
    return (size_t)XXH3_64bits(edges, count * sizeof *edges) & pool->slot_mask;
}

static bool equals(const lh_stack_pool *pool, uint32_t stack, const lh_stack_edge *edges,
                   size_t count) {
    const lh_stack *own = &pool->stacks[stack];
    return own->count == count &&
           memcmp(pool->edges + own->first, edges, count * sizeof *edges) == 0;
}

/* Twice the slots, or the first ones. */
static bool grow_slots(lh_stack_pool *pool) {
    size_t slots = pool->slots ? (pool->slot_mask + 1) * 2 : SLOTS_MIN;
    uint32_t *made = calloc(slots, sizeof *made);
    if (!made)
        return false;
    free(pool->slots);
    pool->slots = made;
    pool->slot_mask = slots - 1;
    for (uint32_t i = 0; i < pool->stack_count; i++) {
        const lh_stack *stack = &pool->stacks[i];
        size_t slot = slot_of(pool, pool->edges + stack->first, stack->count);
        while (pool->slots[slot])
            slot = (slot + 1) & pool->slot_mask;
        pool->slots[slot] = i + 1;
    }
    return true;
}

static lh_status reserve(lh_stack_pool *pool, size_t count, lh_error *error) {
    if (pool->stack_count >= LH_STACKS_MAX || pool->edge_count + count > LH_STACK_EDGES_MAX)
        return lh_fail(error, LH_ERR_LIMIT,
                       "the text can be read in too many ways by its grammar, or is nested too "
                       "deeply");
    bool is_full = !pool->slots || pool->stack_count * 2 > pool->slot_mask;
    if ((is_full && !grow_slots(pool)) ||
        !lh_growing_array_reserve(&pool->stacks, &pool->stack_capacity, pool->stack_count + 1,
                                  sizeof *pool->stacks) ||
        !lh_growing_array_reserve(&pool->edges, &pool->edge_capacity, pool->edge_count + count,
                                  sizeof *pool->edges))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the stacks of a constraint");
    return LH_OK;
}

lh_status lh_stack_pool_intern(lh_stack_pool *pool, lh_stack_edge *edges, size_t count,
                               uint32_t *stack, lh_error *error) {
    assert(count > 0);
    count = normalize(edges, count);
    lh_status status = reserve(pool, count, error);
    if (status)
        return status;
    size_t slot = slot_of(pool, edges, count);
    for (; pool->slots[slot]; slot = (slot + 1) & pool->slot_mask)
        if (equals(pool, pool->slots[slot] - 1, edges, count)) {
            *stack = pool->slots[slot] - 1;
            return LH_OK;
        }
    memcpy(pool->edges + pool->edge_count, edges, count * sizeof *edges);
    pool->stacks[pool->stack_count] = (lh_stack){.hash = hash_edges(pool, edges, count),
                                                 .first = (uint32_t)pool->edge_count,
                                                 .count = (uint32_t)count};
    pool->edge_count += count;
    *stack = (uint32_t)pool->stack_count++;
    pool->slots[slot] = *stack + 1;
    return LH_OK;
}
