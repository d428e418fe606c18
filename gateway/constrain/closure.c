/* In two parts. First all is done with stacks that were there before the byte: rules that have
 * their end here return to their callers. What is called on the way is collected by rule, and then
 * begun, callers before those that they call at their fronts (the automaton's rank), so that all
 * who call a rule at this byte are known when its one stack is made.
 *
 * A rule that was begun here and may be empty does not return here: whoever calls it goes on behind
 * it at once. So no stack gets a caller after it was used. */
#include "gateway/constrain/closure.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SEEN_SLOTS_MIN 256
/* A larger table is made small again once a step needed little of it: each step clears it. */
#define SEEN_SLOTS_KEPT_MAX 4096
#define NOTHING             UINT32_MAX

/* A call that waits for its rule's turn. */
typedef struct waiting_call {
    lh_stack_edge edge;
    uint32_t next; /* of the same rule, or NOTHING */
} waiting_call;

struct lh_closure {
    const lh_automaton *automaton;
    lh_stack_pool *pool;
    lh_places *out;
    bool is_beginning; /* in the second part */
    lh_place *waiting; /* to be looked at */
    uint64_t *seen;    /* [seen_mask + 1]: places + 1; 0 for an empty slot */
    size_t seen_mask, seen_count, waiting_count, waiting_capacity;
    uint32_t *first_call; /* [rule_count]: NOTHING where none waits */
    uint32_t *ranks;      /* [rule_count]: of rules with calls, a heap with the least on top */
    waiting_call *calls;
    lh_stack_edge *edges; /* of one rule's calls */
    size_t rank_count, call_count, call_capacity, edge_capacity;
    size_t work;
    lh_error *error;
    lh_status status;
};

/* ---- Places ---- */

void lh_places_reset(lh_places *places) {
    free(places->items);
    *places = (lh_places){0};
}

static bool push_place(lh_place **items, size_t *count, size_t *capacity, lh_place place) {
    if (!lh_growing_array_reserve(items, capacity, *count + 1, sizeof place))
        return false;
    (*items)[(*count)++] = place;
    return true;
}

lh_status lh_places_copy(lh_places *copy, const lh_places *places, lh_error *error) {
    if (!lh_growing_array_reserve(&copy->items, &copy->capacity, places->count,
                                  sizeof *copy->items))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the places of a constraint");
    if (places->count)
        memcpy(copy->items, places->items, places->count * sizeof *copy->items);
    copy->count = places->count;
    copy->may_end = places->may_end;
    copy->escapes = places->escapes;
    return LH_OK;
}

bool lh_places_is_alive(const lh_places *places) {
    return places->count > 0 || places->may_end || places->escapes;
}

static int compare_places(const void *a, const void *b) {
    const lh_place *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->stack > y->stack) - (x->stack < y->stack);
}

void lh_places_order(lh_places *places) {
    size_t kept = 0;
    if (places->count > 1)
        qsort(places->items, places->count, sizeof *places->items, compare_places);
    for (size_t i = 0; i < places->count; i++)
        if (kept == 0 || compare_places(&places->items[kept - 1], &places->items[i]) != 0)
            places->items[kept++] = places->items[i];
    places->count = kept;
}

/* ---- What has been seen ---- */

lh_status lh_closure_create(const lh_automaton *automaton, lh_closure **closure, lh_error *error) {
    lh_closure *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    made->automaton = automaton;
    made->seen = calloc(SEEN_SLOTS_MIN, sizeof *made->seen);
    made->seen_mask = SEEN_SLOTS_MIN - 1;
    made->first_call = calloc(automaton->rule_count, sizeof *made->first_call);
    made->ranks = calloc(automaton->rule_count, sizeof *made->ranks);
    if (!made->seen || !made->first_call || !made->ranks) {
        lh_closure_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a constraint");
    }
    for (size_t i = 0; i < automaton->rule_count; i++)
        made->first_call[i] = NOTHING;
    *closure = made;
    return LH_OK;
}

void lh_closure_destroy(lh_closure *closure) {
    if (!closure)
        return;
    free(closure->edges);
    free(closure->calls);
    free(closure->ranks);
    free(closure->first_call);
    free(closure->seen);
    free(closure->waiting);
    free(closure);
}

static void fail_memory(lh_closure *own) {
    if (!own->status)
        own->status =
            lh_fail(own->error, LH_ERR_NO_MEMORY, "no memory for the places of a constraint");
}

static uint64_t key_of(lh_place place) {
    return ((uint64_t)place.state << 32 | place.stack) + 1;
}

static size_t seen_slot(const lh_closure *own, uint64_t key) {
    size_t slot = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & own->seen_mask;
    while (own->seen[slot] && own->seen[slot] != key)
        slot = (slot + 1) & own->seen_mask;
    return slot;
}

static bool grow_seen(lh_closure *own) {
    uint64_t *old = own->seen;
    size_t old_mask = own->seen_mask, slots = (old_mask + 1) * 2;
    uint64_t *made = calloc(slots, sizeof *made);
    if (!made)
        return false;
    own->seen = made;
    own->seen_mask = slots - 1;
    for (size_t i = 0; i <= old_mask; i++)
        if (old[i])
            own->seen[seen_slot(own, old[i])] = old[i];
    free(old);
    return true;
}

/* True when it is new. */
static bool see(lh_closure *own, lh_place place) {
    if (own->seen_count >= LH_PLACES_MAX) {
        own->status =
            lh_fail(own->error, LH_ERR_LIMIT,
                    "the text can be read in more than %u ways by its grammar", LH_PLACES_MAX);
        return false;
    }
    if (own->seen_count * 2 > own->seen_mask && !grow_seen(own)) {
        fail_memory(own);
        return false;
    }
    size_t slot = seen_slot(own, key_of(place));
    if (own->seen[slot])
        return false;
    own->seen[slot] = key_of(place);
    own->seen_count++;
    return true;
}

static void add(lh_closure *own, uint32_t state, uint32_t stack) {
    lh_state_kind kind = own->automaton->states[state].kind;
    lh_place place = {state, stack};
    own->work++;
    if (own->status || kind == LH_STATE_DEAD || !see(own, place))
        return;
    bool is_final = kind == LH_STATE_BYTES || kind == LH_STATE_TOKEN;
    bool pushed =
        is_final ? push_place(&own->out->items, &own->out->count, &own->out->capacity, place)
                 : push_place(&own->waiting, &own->waiting_count, &own->waiting_capacity, place);
    if (!pushed)
        fail_memory(own);
}

/* ---- Calls ---- */

static void push_rank(lh_closure *own, uint32_t rank) {
    size_t at = own->rank_count++;
    for (; at > 0 && own->ranks[(at - 1) / 2] > rank; at = (at - 1) / 2)
        own->ranks[at] = own->ranks[(at - 1) / 2];
    own->ranks[at] = rank;
}

static uint32_t pop_rank(lh_closure *own) {
    uint32_t least = own->ranks[0], last = own->ranks[--own->rank_count];
    size_t at = 0;
    for (size_t child; (child = at * 2 + 1) < own->rank_count; at = child) {
        if (child + 1 < own->rank_count && own->ranks[child + 1] < own->ranks[child])
            child++;
        if (own->ranks[child] >= last)
            break;
        own->ranks[at] = own->ranks[child];
    }
    own->ranks[at] = last;
    return least;
}

static void call(lh_closure *own, uint32_t rule, lh_stack_edge edge) {
    own->work++;
    if (own->status)
        return;
    if (!lh_growing_array_reserve(&own->calls, &own->call_capacity, own->call_count + 1,
                                  sizeof *own->calls)) {
        fail_memory(own);
        return;
    }
    if (own->first_call[rule] == NOTHING)
        push_rank(own, own->automaton->rules[rule].rank);
    own->calls[own->call_count] = (waiting_call){edge, own->first_call[rule]};
    own->first_call[rule] = (uint32_t)own->call_count++;
}

static uint32_t one_less(uint32_t count) {
    return count == 0 || count == LH_GRAMMAR_UNBOUNDED ? count : count - 1;
}

/* What is repeated must follow `min` times and may `max` times. */
static void repeat(lh_closure *own, uint32_t loop, uint32_t stack, uint32_t min, uint32_t max) {
    const lh_automaton_state *state = &own->automaton->states[loop];
    if (min == 0)
        add(own, state->next, stack);
    if (max > 0)
        call(own, state->value,
             (lh_stack_edge){
                 .state = loop, .parent = stack, .min = one_less(min), .max = one_less(max)});
}

static void enter(lh_closure *own, const lh_automaton_state *state, lh_place place) {
    if (own->automaton->rules[state->value].is_nullable)
        add(own, state->next, place.stack);
    if (state->next != LH_AUTOMATON_FINAL) {
        call(own, state->value, (lh_stack_edge){.state = place.state, .parent = place.stack});
        return;
    }
    /* Nothing is left to do here: it returns to where this rule would. So lists that are written by
     * recursion at their end need no stack. */
    const lh_stack *stack = &own->pool->stacks[place.stack];
    for (uint32_t i = 0; i < stack->count; i++)
        call(own, state->value, own->pool->edges[stack->first + i]);
}

static void leave(lh_closure *own, uint32_t number) {
    const lh_stack *stack = &own->pool->stacks[number];
    for (uint32_t i = 0; i < stack->count; i++) {
        lh_stack_edge edge = own->pool->edges[stack->first + i];
        const lh_automaton_state *state = &own->automaton->states[edge.state];
        if (state->kind == LH_STATE_CALL)
            add(own, state->next, edge.parent);
        else if (state->kind == LH_STATE_LOOP)
            repeat(own, edge.state, edge.parent, edge.min, edge.max);
        own->out->may_end |= state->kind == LH_STATE_END;
        own->out->escapes |= state->kind == LH_STATE_ESCAPE;
    }
}

static void look(lh_closure *own, lh_place place) {
    const lh_automaton_state *state = &own->automaton->states[place.state];
    switch (state->kind) {
    case LH_STATE_FINAL:
        if (!own->is_beginning)
            leave(own, place.stack);
        return;
    case LH_STATE_SPLIT:
        for (uint32_t i = 0; i < state->count; i++)
            add(own, own->automaton->targets[state->first + i], place.stack);
        return;
    case LH_STATE_CALL:
        enter(own, state, place);
        return;
    case LH_STATE_LOOP:
        repeat(own, place.state, place.stack, state->min, state->max);
        return;
    default:
        assert(false && "a kind of state that waits");
    }
}

static void look_at_all(lh_closure *own) {
    while (own->waiting_count > 0 && !own->status)
        look(own, own->waiting[--own->waiting_count]);
}

/* The stack of all calls of a rule. */
static uint32_t gather(lh_closure *own, uint32_t rule) {
    size_t count = 0;
    uint32_t stack = 0;
    for (uint32_t i = own->first_call[rule]; i != NOTHING; i = own->calls[i].next) {
        if (!lh_growing_array_reserve(&own->edges, &own->edge_capacity, count + 1,
                                      sizeof *own->edges)) {
            fail_memory(own);
            return 0;
        }
        own->edges[count++] = own->calls[i].edge;
    }
    own->work += 8 * count; /* they are put in order, and hashed */
    own->status = lh_stack_pool_intern(own->pool, own->edges, count, &stack, own->error);
    return stack;
}

static void begin_called(lh_closure *own) {
    own->is_beginning = true;
    while (own->rank_count > 0 && !own->status) {
        uint32_t rule = own->automaton->by_rank[pop_rank(own)];
        uint32_t stack = gather(own, rule);
        own->first_call[rule] = NOTHING;
        add(own, own->automaton->rules[rule].start, stack);
        look_at_all(own);
    }
}

/* ---- One step ---- */

static void clear_seen(lh_closure *own) {
    uint64_t *made = NULL;
    if (own->seen_mask >= SEEN_SLOTS_KEPT_MAX && own->seen_count < SEEN_SLOTS_KEPT_MAX / 8)
        made = malloc(SEEN_SLOTS_MIN * sizeof *made);
    if (made) {
        free(own->seen);
        own->seen = made;
        own->seen_mask = SEEN_SLOTS_MIN - 1;
    }
    memset(own->seen, 0, (own->seen_mask + 1) * sizeof *own->seen);
    own->seen_count = 0;
}

static void open_closure(lh_closure *own, lh_stack_pool *pool, lh_places *places, lh_error *error) {
    assert(own->rank_count == 0);
    own->pool = pool;
    own->out = places;
    own->is_beginning = false;
    own->error = error;
    own->status = LH_OK;
    own->waiting_count = own->call_count = own->work = 0;
    clear_seen(own);
    places->count = 0;
    places->may_end = places->escapes = false;
}

static lh_status close_closure(lh_closure *own) {
    look_at_all(own);
    begin_called(own);
    while (own->rank_count > 0) /* after a failure */
        own->first_call[own->automaton->by_rank[pop_rank(own)]] = NOTHING;
    lh_places_order(own->out);
    return own->status;
}

lh_status lh_closure_begin(lh_closure *closure, lh_stack_pool *pool, lh_places *places,
                           lh_error *error) {
    const lh_automaton *automaton = closure->automaton;
    open_closure(closure, pool, places, error);
    call(closure, automaton->root,
         (lh_stack_edge){.state = LH_AUTOMATON_END, .parent = LH_STACK_NONE});
    places->may_end = automaton->rules[automaton->root].is_nullable;
    return close_closure(closure);
}

lh_status lh_closure_step(lh_closure *closure, lh_stack_pool *pool, const lh_places *from,
                          uint8_t byte, lh_places *places, lh_error *error) {
    const lh_automaton *automaton = closure->automaton;
    open_closure(closure, pool, places, error);
    for (size_t i = 0; i < from->count; i++) {
        const lh_automaton_state *state = &automaton->states[from->items[i].state];
        closure->work += 1 + state->count / 8;
        for (uint32_t k = 0; state->kind == LH_STATE_BYTES && k < state->count; k++) {
            const lh_automaton_edge *edge = &automaton->edges[state->first + k];
            if (byte >= edge->first && byte <= edge->last)
                add(closure, edge->target, from->items[i].stack);
        }
    }
    return close_closure(closure);
}

lh_status lh_closure_step_token(lh_closure *closure, lh_stack_pool *pool, const lh_places *from,
                                uint32_t token, lh_places *places, lh_error *error) {
    const lh_automaton *automaton = closure->automaton;
    open_closure(closure, pool, places, error);
    for (size_t i = 0; i < from->count; i++) {
        const lh_automaton_state *state = &automaton->states[from->items[i].state];
        if (state->kind == LH_STATE_TOKEN && state->value == token)
            add(closure, state->next, from->items[i].stack);
    }
    return close_closure(closure);
}

size_t lh_closure_work(const lh_closure *closure) {
    return closure->work;
}
