/* States that accept the same texts are joined from the last one backwards: whatever a state leads
 * to has been joined before it, so that equal edges mean equal languages. That is Revuz's way for
 * automata without circles (doi 10.1016/0304-3975(92)90142-3); a state that leads back is left as
 * it is. */
#include "gateway/constrain/dfa.h"

#include "common/base/growing_array.h"
#include "common/base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

void lh_dfa_reset(lh_dfa *dfa) {
    free(dfa->states);
    free(dfa->edges);
    *dfa = (lh_dfa){0};
}

lh_status lh_dfa_add_state(lh_dfa *dfa, uint32_t label, lh_error *error) {
    if (dfa->state_count == LH_DFA_STATES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "needs more than %u states", LH_DFA_STATES_MAX);
    if (!lh_growing_array_reserve(&dfa->states, &dfa->state_capacity, dfa->state_count + 1,
                                  sizeof *dfa->states))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton's states");
    dfa->states[dfa->state_count++] = (lh_dfa_state){.label = label};
    return LH_OK;
}

static bool continues(const lh_dfa *dfa, const lh_dfa_state *state, uint32_t low, uint32_t target) {
    const lh_dfa_edge *last = &dfa->edges[dfa->edge_count - 1];
    return state->edge_count > 0 && last->target == target && last->high + 1 == low;
}

lh_status lh_dfa_add_edge(lh_dfa *dfa, uint32_t state, uint32_t low, uint32_t high, uint32_t target,
                          lh_error *error) {
    lh_dfa_state *from = &dfa->states[state];
    assert(state < dfa->state_count && low <= high);
    assert(from->edge_count == 0 || from->first_edge + from->edge_count == dfa->edge_count);
    if (dfa->edge_count > 0 && continues(dfa, from, low, target)) {
        dfa->edges[dfa->edge_count - 1].high = high;
        return LH_OK;
    }
    if (dfa->edge_count == LH_DFA_EDGES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "needs more than %u edges", LH_DFA_EDGES_MAX);
    if (!lh_growing_array_reserve(&dfa->edges, &dfa->edge_capacity, dfa->edge_count + 1,
                                  sizeof *dfa->edges))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton's edges");
    if (from->edge_count++ == 0)
        from->first_edge = (uint32_t)dfa->edge_count;
    dfa->edges[dfa->edge_count++] = (lh_dfa_edge){low, high, target};
    return LH_OK;
}

lh_status lh_dfa_count_work(size_t *work, size_t more, lh_error *error) {
    *work += more;
    return *work <= LH_DFA_WORK_MAX ? LH_OK
                                    : lh_fail(error, LH_ERR_LIMIT, "takes too long to compile");
}

/* ---- Simplifying. ---- */

typedef struct simplifier {
    const lh_dfa *old;
    lh_dfa joined;     /* its states have the old numbers; those that are gone have no edges */
    uint32_t *into;    /* [state_count] what a state became; NONE: no text is accepted from it */
    uint32_t *table;   /* [table_size] of states, by what they accept; NONE: empty */
    size_t table_size; /* a power of two */
} simplifier;

/* into[s] becomes s for each state from which an accepting one is reached. `first` and `next` are
 * lists of the edges that lead to a state. */
static void mark_alive(simplifier *work, uint32_t *first, uint32_t *next, uint32_t *source) {
    const lh_dfa *old = work->old;
    size_t waiting = 0;
    uint32_t *stack = work->table;
    memset(first, 0xff, old->state_count * sizeof *first);
    for (uint32_t s = 0; s < old->state_count; s++)
        for (uint32_t e = 0; e < old->states[s].edge_count; e++) {
            uint32_t edge = old->states[s].first_edge + e, target = old->edges[edge].target;
            source[edge] = s;
            next[edge] = first[target];
            first[target] = edge;
        }
    for (uint32_t s = 0; s < old->state_count; s++) {
        work->into[s] = old->states[s].label ? s : NONE;
        if (old->states[s].label)
            stack[waiting++] = s;
    }
    while (waiting > 0)
        for (uint32_t edge = first[stack[--waiting]]; edge != NONE; edge = next[edge])
            if (work->into[source[edge]] == NONE) {
                work->into[source[edge]] = source[edge];
                stack[waiting++] = source[edge];
            }
    memset(work->table, 0xff, work->table_size * sizeof *work->table);
}

static lh_status find_alive(simplifier *work, lh_error *error) {
    const lh_dfa *old = work->old;
    uint32_t *lists = calloc(old->state_count + 2 * old->edge_count, sizeof *lists);
    if (!lists)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton");
    mark_alive(work, lists, lists + old->state_count, lists + old->state_count + old->edge_count);
    free(lists);
    return LH_OK;
}

/* The old state's edges, without those into nowhere; false in *leads_on: one leads to itself or
 * back. */
static lh_status copy_edges(simplifier *work, uint32_t state, bool *leads_on, lh_error *error) {
    const lh_dfa_state *from = &work->old->states[state];
    lh_status status = LH_OK;
    *leads_on = true;
    for (uint32_t e = 0; e < from->edge_count && !status; e++) {
        const lh_dfa_edge *edge = &work->old->edges[from->first_edge + e];
        uint32_t target = work->into[edge->target];
        *leads_on &= edge->target > state;
        if (target != NONE)
            status = lh_dfa_add_edge(&work->joined, state, edge->low, edge->high, target, error);
    }
    return status;
}

static uint64_t hash_of(const lh_dfa *dfa, const lh_dfa_state *state) {
    uint64_t hash = state->label;
    for (uint32_t e = 0; e < state->edge_count; e++) {
        const lh_dfa_edge *edge = &dfa->edges[state->first_edge + e];
        const uint32_t parts[] = {edge->low, edge->high, edge->target};
        for (size_t i = 0; i < 3; i++)
            hash = (hash ^ parts[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    }
    return hash;
}

static bool is_equal(const lh_dfa *dfa, const lh_dfa_state *a, const lh_dfa_state *b) {
    for (uint32_t e = 0; e < a->edge_count && a->edge_count == b->edge_count; e++) {
        const lh_dfa_edge *x = &dfa->edges[a->first_edge + e], *y = &dfa->edges[b->first_edge + e];
        if (x->low != y->low || x->high != y->high || x->target != y->target)
            return false;
    }
    return a->label == b->label && a->edge_count == b->edge_count;
}

/* The state with the same edges that came before this one; itself, which is entered, where there is
 * none. */
static uint32_t find_equal(simplifier *work, uint32_t state) {
    const lh_dfa_state *wanted = &work->joined.states[state];
    size_t slot = hash_of(&work->joined, wanted) & (work->table_size - 1);
    while (work->table[slot] != NONE &&
           !is_equal(&work->joined, wanted, &work->joined.states[work->table[slot]]))
        slot = (slot + 1) & (work->table_size - 1);
    if (work->table[slot] == NONE)
        work->table[slot] = state;
    return work->table[slot];
}

static lh_status join_equal(simplifier *work, lh_error *error) {
    lh_dfa *joined = &work->joined;
    for (size_t s = 0; s < work->old->state_count; s++)
        if (lh_dfa_add_state(joined, work->old->states[s].label, error))
            return LH_ERR_NO_MEMORY;
    for (uint32_t s = (uint32_t)work->old->state_count; s-- > 0;) {
        size_t edges = joined->edge_count;
        bool leads_on;
        if (work->into[s] == NONE)
            continue;
        if (copy_edges(work, s, &leads_on, error))
            return LH_ERR_NO_MEMORY;
        work->into[s] = leads_on && s > 0 ? find_equal(work, s) : s;
        if (work->into[s] != s) {
            joined->states[s].edge_count = 0;
            joined->edge_count = edges;
        }
    }
    return LH_OK;
}

/* A state that leads back has been copied before what it leads to was joined. */
static void renumber(simplifier *work) {
    lh_dfa *joined = &work->joined;
    uint32_t *number = work->table, count = 0;
    for (uint32_t s = 0; s < joined->state_count; s++) {
        if (s > 0 && work->into[s] != s)
            continue;
        number[s] = count;
        joined->states[count++] = joined->states[s];
    }
    joined->state_count = count;
    for (size_t e = 0; e < joined->edge_count; e++)
        joined->edges[e].target = number[work->into[joined->edges[e].target]];
}

static size_t table_size_for(size_t states) {
    size_t size = 16;
    while (size < 2 * states)
        size *= 2;
    return size;
}

lh_status lh_dfa_simplify(lh_dfa *dfa, lh_error *error) {
    simplifier work = {.old = dfa, .table_size = table_size_for(dfa->state_count)};
    work.into = calloc(dfa->state_count + 1, sizeof *work.into);
    work.table = calloc(work.table_size, sizeof *work.table);
    lh_status status = LH_OK;
    if (!work.into || !work.table)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton");
    if (!status)
        status = find_alive(&work, error);
    if (!status)
        status = join_equal(&work, error);
    if (!status) {
        renumber(&work);
        lh_dfa_reset(dfa);
        *dfa = work.joined;
    } else {
        lh_dfa_reset(&work.joined);
    }
    free(work.into);
    free(work.table);
    return status;
}

bool lh_dfa_is_empty(const lh_dfa *dfa) {
    return dfa->state_count == 0 || (!dfa->states[0].label && dfa->states[0].edge_count == 0);
}

static uint32_t step(const lh_dfa *dfa, uint32_t state, uint32_t character) {
    const lh_dfa_state *from = &dfa->states[state];
    const lh_dfa_edge *edges = dfa->edges + from->first_edge;
    size_t low = 0, high = from->edge_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (edges[middle].high < character)
            low = middle + 1;
        else
            high = middle;
    }
    return low < from->edge_count && edges[low].low <= character ? edges[low].target : NONE;
}

uint32_t lh_dfa_label_of(const lh_dfa *dfa, const char *text, size_t length) {
    const char *end = text + length;
    uint32_t state = dfa->state_count > 0 ? 0 : NONE;
    while (state != NONE && text < end)
        state = step(dfa, state, lh_utf8_decode(&text));
    return state == NONE ? 0 : dfa->states[state].label;
}
