/* Stacks that lie under others have lower numbers: so which are wanted is found from the highest
 * number down, and they are copied from the lowest up. */
#include "gateway/constrain/stack_copier.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS (LH_STACK_DEPTH_MAX + 1)

void lh_stack_copier_reset(lh_stack_copier *copier) {
    free(copier->edges);
    free(copier->wanted);
    free(copier->copies);
    *copier = (lh_stack_copier){0};
}

static bool returns_to_rule(const lh_stack_copy *copy, const lh_stack_edge *edge) {
    return copy->automaton->states[edge->state].kind == LH_STATE_CALL;
}

/* How much of a caller's stack is wanted, where `level` is wanted of the called one's. */
static uint32_t level_below(const lh_stack_copy *copy, const lh_stack_edge *edge, uint32_t level) {
    return level != LH_STACK_DEPTH_ALL && returns_to_rule(copy, edge) ? level - 1 : level;
}

static bool is_cut(const lh_stack_copy *copy, const lh_stack_edge *edge, uint32_t level) {
    return level == 1 && returns_to_rule(copy, edge);
}

static void want_callers(lh_stack_copier *copier, const lh_stack_copy *copy, size_t number,
                         uint32_t level) {
    const lh_stack *stack = &copy->from->stacks[number];
    for (uint32_t i = 0; i < stack->count; i++) {
        const lh_stack_edge *edge = &copy->from->edges[stack->first + i];
        if (edge->parent != LH_STACK_NONE && !is_cut(copy, edge, level))
            copier->wanted[edge->parent] |= (uint16_t)(1u << level_below(copy, edge, level));
    }
}

static lh_stack_edge copy_edge(const lh_stack_copier *copier, const lh_stack_copy *copy,
                               lh_stack_edge edge, uint32_t level) {
    uint32_t max = copy->to->count_max;
    if (is_cut(copy, &edge, level))
        return (lh_stack_edge){.state = LH_AUTOMATON_ESCAPE, .parent = LH_STACK_NONE};
    if (edge.parent != LH_STACK_NONE)
        edge.parent = copier->copies[edge.parent * LEVELS + level_below(copy, &edge, level)];
    if (copy->clamps) {
        edge.min = edge.min > max ? max : edge.min;
        edge.max = edge.max > max ? LH_GRAMMAR_UNBOUNDED : edge.max;
    }
    return edge;
}

static lh_status copy_stack(lh_stack_copier *copier, const lh_stack_copy *copy, size_t number,
                            uint32_t level, lh_error *error) {
    const lh_stack *stack = &copy->from->stacks[number];
    if (!lh_growing_array_reserve(&copier->edges, &copier->edge_capacity, stack->count,
                                  sizeof *copier->edges))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the stacks of a constraint");
    for (uint32_t i = 0; i < stack->count; i++)
        copier->edges[i] = copy_edge(copier, copy, copy->from->edges[stack->first + i], level);
    return lh_stack_pool_intern(copy->to, copier->edges, stack->count,
                                &copier->copies[number * LEVELS + level], error);
}

static lh_status copy_stacks(lh_stack_copier *copier, const lh_stack_copy *copy, size_t stacks,
                             lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = stacks; i-- > 0;)
        for (uint32_t level = 0; copier->wanted[i] >> level; level++)
            if (copier->wanted[i] >> level & 1)
                want_callers(copier, copy, i, level);
    for (size_t i = 0; i < stacks; i++)
        for (uint32_t level = 0; copier->wanted[i] >> level && !status; level++)
            if (copier->wanted[i] >> level & 1)
                status = copy_stack(copier, copy, i, level, error);
    return status;
}

lh_status lh_stack_copier_run(lh_stack_copier *copier, const lh_stack_copy *copy, lh_places *places,
                              lh_error *error) {
    assert(copy->depth <= LH_STACK_DEPTH_MAX);
    size_t stacks = 0;
    for (size_t i = 0; i < places->count; i++)
        if (places->items[i].stack >= stacks)
            stacks = (size_t)places->items[i].stack + 1;
    if (!lh_growing_array_reserve(&copier->wanted, &copier->wanted_capacity, stacks,
                                  sizeof *copier->wanted) ||
        !lh_growing_array_reserve(&copier->copies, &copier->copies_capacity, stacks * LEVELS,
                                  sizeof *copier->copies))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the stacks of a constraint");
    if (stacks)
        memset(copier->wanted, 0, stacks * sizeof *copier->wanted);
    for (size_t i = 0; i < places->count; i++)
        copier->wanted[places->items[i].stack] = (uint16_t)(1u << copy->depth);
    lh_status status = copy_stacks(copier, copy, stacks, error);
    if (status)
        return status;
    for (size_t i = 0; i < places->count; i++)
        places->items[i].stack = copier->copies[places->items[i].stack * LEVELS + copy->depth];
    lh_places_order(places);
    return LH_OK;
}
