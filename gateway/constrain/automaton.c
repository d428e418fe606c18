/* What is found out about the states once they are built: which rules may be empty, from where no
 * end can be reached, in which order rules call each other at their fronts, and which bytes are
 * told apart. All of it is linear in the number of states. */
#include "gateway/constrain/automaton.h"

#include "gateway/constrain/automaton_build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- A property that spreads from the rules' end to the states before it ---- */

/* State s depends on each of dependents[first[t] .. first[t + 1]] = s, for what it refers to: t. */
typedef struct spreading {
    const lh_automaton *automaton;
    bool over_bytes;      /* through bytes and tokens as well */
    uint32_t *first;      /* [state_count + 2] */
    uint32_t *dependents; /* [first[state_count]] */
    uint32_t *waiting;    /* [state_count] */
    bool *has;            /* [state_count]: the property */
} spreading;

typedef void visit(void *context, uint32_t state, uint32_t target);

/* All states to which one refers. */
static void each_reference(const lh_automaton *automaton, uint32_t state, visit *call,
                           void *context) {
    const lh_automaton_state *at = &automaton->states[state];
    if (at->kind == LH_STATE_BYTES)
        for (uint32_t i = 0; i < at->count; i++)
            call(context, state, automaton->edges[at->first + i].target);
    if (at->kind == LH_STATE_SPLIT)
        for (uint32_t i = 0; i < at->count; i++)
            call(context, state, automaton->targets[at->first + i]);
    if (at->kind == LH_STATE_CALL || at->kind == LH_STATE_LOOP)
        call(context, state, automaton->rules[at->value].start);
    if (at->kind == LH_STATE_CALL || at->kind == LH_STATE_LOOP || at->kind == LH_STATE_TOKEN)
        call(context, state, at->next);
}

static void count_reference(void *context, uint32_t state, uint32_t target) {
    (void)state;
    ((spreading *)context)->first[target + 2]++;
}

static void note_reference(void *context, uint32_t state, uint32_t target) {
    spreading *own = context;
    own->dependents[own->first[target + 1]++] = state;
}

/* Whether a state has the property, of which what it refers to has got one more. */
static bool gets(const spreading *own, uint32_t state) {
    const lh_automaton_state *at = &own->automaton->states[state];
    switch (at->kind) {
    case LH_STATE_SPLIT:
        return true;
    case LH_STATE_BYTES:
        return own->over_bytes;
    case LH_STATE_TOKEN:
        return own->over_bytes;
    case LH_STATE_CALL:
        return own->has[at->next] && own->has[own->automaton->rules[at->value].start];
    case LH_STATE_LOOP:
        return own->has[at->next] &&
               (at->min == 0 || own->has[own->automaton->rules[at->value].start]);
    default:
        return false;
    }
}

static void run_spreading(spreading *own) {
    size_t waiting = 0;
    own->has[LH_AUTOMATON_FINAL] = true;
    own->waiting[waiting++] = LH_AUTOMATON_FINAL;
    while (waiting > 0) {
        uint32_t reached = own->waiting[--waiting];
        for (uint32_t i = own->first[reached]; i < own->first[reached + 1]; i++) {
            uint32_t state = own->dependents[i];
            if (own->has[state] || !gets(own, state))
                continue;
            own->has[state] = true;
            own->waiting[waiting++] = state;
        }
    }
}

/* has[state]: the rule's end can be reached from there; over_bytes: by any text, else by none. */
static lh_status find_ends(const lh_automaton *automaton, bool over_bytes, bool **has,
                           lh_error *error) {
    size_t states = automaton->state_count;
    spreading own = {.automaton = automaton, .over_bytes = over_bytes};
    lh_status status = LH_ERR_NO_MEMORY;
    own.first = calloc(states + 2, sizeof *own.first);
    own.waiting = calloc(states, sizeof *own.waiting);
    own.has = calloc(states, sizeof *own.has);
    if (!own.first || !own.waiting || !own.has)
        goto done;
    for (uint32_t i = 0; i < states; i++)
        each_reference(automaton, i, count_reference, &own);
    for (size_t i = 1; i < states + 2; i++)
        own.first[i] += own.first[i - 1];
    own.dependents = calloc((size_t)own.first[states + 1] + 1, sizeof *own.dependents);
    if (!own.dependents)
        goto done;
    for (uint32_t i = 0; i < states; i++)
        each_reference(automaton, i, note_reference, &own);
    run_spreading(&own);
    *has = own.has;
    own.has = NULL;
    status = LH_OK;
done:
    free(own.dependents);
    free(own.has);
    free(own.waiting);
    free(own.first);
    return status ? lh_fail(error, status, "no memory for an automaton") : LH_OK;
}

/* ---- Dead ends ---- */

static void drop_dead_edges(lh_automaton *automaton, lh_automaton_state *state, const bool *lives) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        if (state->kind == LH_STATE_BYTES && lives[automaton->edges[state->first + i].target])
            automaton->edges[state->first + kept++] = automaton->edges[state->first + i];
        if (state->kind == LH_STATE_SPLIT && lives[automaton->targets[state->first + i]])
            automaton->targets[state->first + kept++] = automaton->targets[state->first + i];
    }
    state->count = kept;
}

static lh_status drop_dead_states(lh_automaton *automaton, lh_error *error) {
    bool *lives = NULL;
    lh_status status = find_ends(automaton, true, &lives, error);
    if (status)
        return status;
    for (size_t i = LH_AUTOMATON_FIRST_STATE; i < automaton->state_count; i++) {
        lh_automaton_state *state = &automaton->states[i];
        if (!lives[i])
            *state = (lh_automaton_state){.kind = LH_STATE_DEAD};
        else if (state->kind == LH_STATE_LOOP && !lives[automaton->rules[state->value].start])
            state->max = 0; /* none of what cannot be */
        else if (state->kind == LH_STATE_BYTES || state->kind == LH_STATE_SPLIT)
            drop_dead_edges(automaton, state, lives);
    }
    if (!lives[automaton->rules[automaton->root].start])
        status = lh_fail(error, LH_ERR_INVALID, "no text matches the grammar");
    free(lives);
    return status;
}

/* ---- Which rules may be empty ---- */

static lh_status find_nullable(lh_automaton *automaton, lh_error *error) {
    bool *empty = NULL;
    lh_status status = find_ends(automaton, false, &empty, error);
    if (status)
        return status;
    for (size_t i = 0; i < automaton->rule_count; i++)
        automaton->rules[i].is_nullable = empty[automaton->rules[i].start];
    /* As often as wanted: the rest may be empty. */
    for (size_t i = 0; i < automaton->state_count; i++)
        if (automaton->states[i].kind == LH_STATE_LOOP &&
            automaton->rules[automaton->states[i].value].is_nullable)
            automaton->states[i].min = 0;
    free(empty);
    return LH_OK;
}

/* ---- The order of rules ---- */

typedef enum color { NOT_SEEN, OPEN, CLOSED } color;

/* A walk through the rules, from each to those that it may call at its front: depth first, so that
 * closing order is the reverse of rank. */
typedef struct ordering {
    lh_automaton *automaton;
    uint8_t *colors;     /* [rule_count] */
    bool *seen;          /* [state_count]: each state is in one rule */
    uint32_t *open;      /* [rule_count]: the way to where the walk is */
    size_t *calls_begin; /* [rule_count]: of each open rule, in calls */
    uint32_t *calls;     /* [state_count]: rules to go to, a stack */
    uint32_t *states;    /* [state_count]: of one rule, to look at */
    size_t open_count, call_count, state_count;
    uint32_t next_rank; /* counts down */
} ordering;

static void see(ordering *own, uint32_t state) {
    if (own->seen[state] || state < LH_AUTOMATON_FIRST_STATE)
        return;
    own->seen[state] = true;
    own->states[own->state_count++] = state;
}

static void see_next(ordering *own, uint32_t state) {
    const lh_automaton_state *at = &own->automaton->states[state];
    bool is_call = at->kind == LH_STATE_CALL || at->kind == LH_STATE_LOOP;
    if (at->kind == LH_STATE_SPLIT)
        for (uint32_t i = 0; i < at->count; i++)
            see(own, own->automaton->targets[at->first + i]);
    if (!is_call)
        return;
    if (at->kind == LH_STATE_CALL || at->max > 0)
        own->calls[own->call_count++] = at->value;
    if (own->automaton->rules[at->value].is_nullable || (at->kind == LH_STATE_LOOP && at->min == 0))
        see(own, at->next);
}

static void open_rule(ordering *own, uint32_t rule) {
    own->colors[rule] = OPEN;
    own->calls_begin[own->open_count] = own->call_count;
    own->open[own->open_count++] = rule;
    see(own, own->automaton->rules[rule].start);
    while (own->state_count > 0)
        see_next(own, own->states[--own->state_count]);
}

static void close_rule(ordering *own) {
    uint32_t rule = own->open[--own->open_count];
    own->colors[rule] = CLOSED;
    own->automaton->rules[rule].rank = --own->next_rank;
    own->automaton->by_rank[own->next_rank] = rule;
}

static lh_status refuse_left_recursion(const ordering *own, const lh_grammar *grammar,
                                       uint32_t rule, lh_error *error) {
    uint32_t name = own->automaton->rules[rule].name;
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "the rule \"%s\" may begin with itself (left recursion), which is not supported",
                   name == LH_GRAMMAR_FAILED ? "" : grammar->rules[name].name);
}

static lh_status order_from(ordering *own, const lh_grammar *grammar, uint32_t rule,
                            lh_error *error) {
    open_rule(own, rule);
    while (own->open_count > 0) {
        if (own->call_count == own->calls_begin[own->open_count - 1]) {
            close_rule(own);
            continue;
        }
        uint32_t called = own->calls[--own->call_count];
        if (own->colors[called] == OPEN)
            return refuse_left_recursion(own, grammar, called, error);
        if (own->colors[called] == NOT_SEEN)
            open_rule(own, called);
    }
    return LH_OK;
}

static lh_status order_rules(lh_automaton *automaton, const lh_grammar *grammar, lh_error *error) {
    size_t rules = automaton->rule_count, states = automaton->state_count;
    ordering own = {.automaton = automaton, .next_rank = (uint32_t)rules};
    lh_status status = LH_OK;
    automaton->by_rank = calloc(rules, sizeof *automaton->by_rank);
    own.colors = calloc(rules, sizeof *own.colors);
    own.seen = calloc(states, sizeof *own.seen);
    own.open = calloc(rules, sizeof *own.open);
    own.calls_begin = calloc(rules, sizeof *own.calls_begin);
    own.calls = calloc(states, sizeof *own.calls);
    own.states = calloc(states, sizeof *own.states);
    if (!automaton->by_rank || !own.colors || !own.seen || !own.open || !own.calls_begin ||
        !own.calls || !own.states)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton");
    for (uint32_t i = 0; i < rules && !status; i++)
        if (own.colors[i] == NOT_SEEN)
            status = order_from(&own, grammar, i, error);
    free(own.states);
    free(own.calls);
    free(own.calls_begin);
    free(own.open);
    free(own.seen);
    free(own.colors);
    return status;
}

/* ---- Bytes ---- */

static void find_classes(lh_automaton *automaton) {
    bool begins[257] = {true};
    for (size_t i = 0; i < automaton->state_count; i++) {
        const lh_automaton_state *state = &automaton->states[i];
        for (uint32_t k = 0; state->kind == LH_STATE_BYTES && k < state->count; k++) {
            begins[automaton->edges[state->first + k].first] = true;
            begins[automaton->edges[state->first + k].last + 1] = true;
        }
    }
    for (size_t byte = 0; byte < 256; byte++) {
        automaton->class_count += begins[byte];
        automaton->class_of[byte] = (uint8_t)(automaton->class_count - 1);
    }
}

lh_status lh_automaton_create(const lh_grammar *grammar, uint32_t vocabulary,
                              lh_automaton **automaton, lh_error *error) {
    lh_status status = lh_grammar_check(grammar, error);
    if (status)
        return status;
    lh_automaton *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton");
    if ((status = lh_automaton_build(made, grammar, vocabulary, error)) ||
        (status = drop_dead_states(made, error)) || (status = find_nullable(made, error)) ||
        (status = order_rules(made, grammar, error))) {
        lh_automaton_destroy(made);
        return status;
    }
    find_classes(made);
    *automaton = made;
    return LH_OK;
}

void lh_automaton_destroy(lh_automaton *automaton) {
    if (!automaton)
        return;
    free(automaton->by_rank);
    free(automaton->rules);
    free(automaton->targets);
    free(automaton->edges);
    free(automaton->states);
    free(automaton);
}
