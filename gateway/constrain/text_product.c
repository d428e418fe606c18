/* The subset construction (Rabin and Scott, doi 10.1147/rd.32.0114): a state is the set of those
 * states of the parts in which a text can leave them. Characters are taken by the ranges within
 * which all states of a set agree. */
#include "gateway/constrain/text_product.h"

#include "common/base/growing_array.h"
#include "gateway/constrain/text_nfa.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHARACTER_LAST  0x10ffffu
#define SURROGATE_FIRST 0xd800u
#define SURROGATE_LAST  0xdfffu

/* members[first .. first + count), ascending; none of them a split. */
typedef struct text_set {
    uint32_t first, count;
    uint64_t hash;
} text_set;

typedef struct product {
    lh_text_nfa nfa;
    lh_text_label *label;
    const void *context;
    lh_dfa *dfa;
    text_set *sets; /* [dfa->state_count] */
    size_t set_capacity;
    uint32_t *members;
    size_t member_count, member_capacity;
    /* All of nfa.state_count. */
    uint32_t *seen, *stack, *next; /* seen: in the set that is being built, by its number */
    uint32_t round;
    /* Where ranges of the current set begin, or have ended. */
    uint32_t *borders;
    size_t border_count, border_capacity;
    uint32_t *table; /* [TABLE_SIZE] of sets, by their members; NONE: empty */
    size_t *work;
} product;

#define NONE       UINT32_MAX
#define TABLE_SIZE 131072u
/* Units of work (dfa.h): to sort one of thousands of numbers; of a state and an edge in all. */
#define SORT_WORK  8u
#define STATE_WORK 20u
_Static_assert(TABLE_SIZE > 2 * LH_DFA_STATES_MAX, "half of the table stays empty");

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for an automaton");
}

/* Adds what is reached from a state without a character to next[count]. */
static size_t add_reached(product *all, uint32_t state, size_t count) {
    size_t waiting = 0;
    for (all->stack[waiting++] = state; waiting > 0;) {
        uint32_t at = all->stack[--waiting];
        const lh_text_nfa_state *of = &all->nfa.states[at];
        if (all->seen[at] == all->round)
            continue;
        all->seen[at] = all->round;
        ++*all->work;
        if (of->kind == LH_TEXT_NFA_SPLIT) {
            all->stack[waiting++] = of->other;
            all->stack[waiting++] = of->next;
        } else {
            all->next[count++] = at;
        }
    }
    return count;
}

static int compare_numbers(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint64_t hash_of(const uint32_t *members, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ members[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return hash;
}

static uint32_t label_of(const product *all, const uint32_t *members, size_t count) {
    uint32_t parts = 0;
    for (size_t i = 0; i < count; i++)
        if (all->nfa.states[members[i]].kind == LH_TEXT_NFA_MATCH)
            parts |= 1u << all->nfa.states[members[i]].next;
    return all->label(all->context, parts);
}

static lh_status add_set(product *all, size_t count, uint64_t hash, lh_error *error) {
    size_t number = all->dfa->state_count;
    if (!lh_growing_array_reserve(&all->members, &all->member_capacity, all->member_count + count,
                                  sizeof *all->members) ||
        !lh_growing_array_reserve(&all->sets, &all->set_capacity, number + 1, sizeof *all->sets))
        return no_memory(error);
    if (count)
        memcpy(all->members + all->member_count, all->next, count * sizeof *all->next);
    all->sets[number] = (text_set){(uint32_t)all->member_count, (uint32_t)count, hash};
    all->member_count += count;
    return lh_dfa_add_state(all->dfa, label_of(all, all->next, count), error);
}

/* The number of the set next[count]. */
static lh_status find_set(product *all, size_t count, uint32_t *number, lh_error *error) {
    lh_status status = lh_dfa_count_work(all->work, SORT_WORK * count, error);
    if (status)
        return status;
    qsort(all->next, count, sizeof *all->next, compare_numbers);
    uint64_t hash = hash_of(all->next, count);
    size_t slot = (hash >> 20) % TABLE_SIZE;
    for (; all->table[slot] != NONE; slot = (slot + 1) % TABLE_SIZE) {
        const text_set *set = &all->sets[all->table[slot]];
        if (set->hash == hash && set->count == count &&
            (count == 0 ||
             memcmp(all->members + set->first, all->next, count * sizeof *all->next) == 0))
            break;
    }
    if (all->table[slot] == NONE) {
        if ((status = add_set(all, count, hash, error)))
            return status;
        all->table[slot] = (uint32_t)all->dfa->state_count - 1;
    }
    *number = all->table[slot];
    return LH_OK;
}

static bool class_has(const product *all, const lh_text_nfa_state *class, uint32_t character) {
    if (class->range_count == 0)
        return false; /* there may be no ranges at all */
    const lh_character_range *ranges = all->nfa.ranges + class->first_range;
    size_t low = 0, high = class->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < character)
            low = middle + 1;
        else
            high = middle;
    }
    return low < class->range_count && ranges[low].first <= character;
}

/* ---- Borders. ---- */

static lh_status add_border(product *all, uint32_t character, lh_error *error) {
    if (!lh_growing_array_reserve(&all->borders, &all->border_capacity, all->border_count + 1,
                                  sizeof *all->borders))
        return no_memory(error);
    all->borders[all->border_count++] = character;
    return LH_OK;
}

/* Ascending, each once: from one to the next, all characters do the same. */
static lh_status find_borders(product *all, const text_set *set, lh_error *error) {
    static const uint32_t always[] = {0, SURROGATE_FIRST, SURROGATE_LAST + 1, CHARACTER_LAST + 1};
    lh_status status = LH_OK;
    all->border_count = 0;
    for (size_t i = 0; i < 4 && !status; i++)
        status = add_border(all, always[i], error);
    for (size_t i = 0; i < set->count && !status; i++) {
        const lh_text_nfa_state *state = &all->nfa.states[all->members[set->first + i]];
        size_t ranges = state->kind == LH_TEXT_NFA_CLASS ? state->range_count : 0;
        status = lh_dfa_count_work(all->work, 1 + 2 * SORT_WORK * ranges, error);
        for (size_t r = 0; r < ranges && !status; r++) {
            const lh_character_range *range = &all->nfa.ranges[state->first_range + r];
            status = add_border(all, range->first, error);
            if (!status)
                status = add_border(all, range->last + 1, error);
        }
    }
    if (status)
        return status;
    qsort(all->borders, all->border_count, sizeof *all->borders, compare_numbers);
    size_t kept = 0;
    for (size_t i = 0; i < all->border_count; i++)
        if (kept == 0 || all->borders[kept - 1] != all->borders[i])
            all->borders[kept++] = all->borders[i];
    all->border_count = kept;
    return LH_OK;
}

/* ---- Exploring. ---- */

/* Where a set goes with a character, as a set's number. */
static lh_status step(product *all, uint32_t from, uint32_t character, uint32_t *to,
                      lh_error *error) {
    const text_set set = all->sets[from];
    size_t count = 0;
    lh_status status = lh_dfa_count_work(all->work, 4 * set.count, error);
    if (status)
        return status;
    all->round++;
    for (size_t i = 0; i < set.count; i++) {
        const lh_text_nfa_state *state = &all->nfa.states[all->members[set.first + i]];
        if (state->kind == LH_TEXT_NFA_CLASS && class_has(all, state, character))
            count = add_reached(all, state->next, count);
    }
    return find_set(all, count, to, error);
}

static lh_status explore_state(product *all, uint32_t from, lh_error *error) {
    const text_set set = all->sets[from];
    lh_status status = find_borders(all, &set, error);
    for (size_t i = 0; i + 1 < all->border_count && !status; i++) {
        uint32_t low = all->borders[i], high = all->borders[i + 1] - 1, to = 0;
        if (low == SURROGATE_FIRST)
            continue;
        status = step(all, from, low, &to, error);
        if (!status)
            status = lh_dfa_add_edge(all->dfa, from, low, high, to, error);
    }
    return status;
}

static lh_status explore(product *all, const uint32_t *begins, size_t count, lh_error *error) {
    uint32_t number;
    size_t reached = 0;
    all->round++;
    for (size_t i = 0; i < count; i++)
        reached = add_reached(all, begins[i], reached);
    lh_status status = find_set(all, reached, &number, error);
    for (uint32_t s = 0; s < all->dfa->state_count && !status; s++)
        status = explore_state(all, s, error);
    return status;
}

static bool make_room(product *all) {
    size_t states = all->nfa.state_count;
    all->seen = calloc(states, sizeof *all->seen);
    all->next = calloc(states, sizeof *all->next);
    all->stack = calloc(2 * states + 1, sizeof *all->stack);
    all->table = malloc(TABLE_SIZE * sizeof *all->table);
    if (all->table)
        memset(all->table, 0xff, TABLE_SIZE * sizeof *all->table);
    return all->seen && all->next && all->stack && all->table;
}

static void reset(product *all) {
    lh_text_nfa_reset(&all->nfa);
    free(all->sets);
    free(all->members);
    free(all->seen);
    free(all->stack);
    free(all->next);
    free(all->borders);
    free(all->table);
}

lh_status lh_text_product_build(const lh_grammar *grammar, const lh_grammar_node *parts,
                                size_t part_count, lh_text_label *label, const void *context,
                                size_t *work, lh_dfa *dfa, lh_error *error) {
    product all = {.label = label, .context = context, .work = work, .dfa = dfa};
    uint32_t begins[LH_TEXT_PARTS_MAX];
    lh_status status = lh_grammar_check(grammar, error);
    assert(part_count <= LH_TEXT_PARTS_MAX);
    for (size_t i = 0; i < part_count && !status; i++)
        status = lh_text_nfa_add(&all.nfa, grammar, parts[i], (uint32_t)i, &begins[i], error);
    if (!status)
        status = lh_dfa_count_work(work, all.nfa.state_count + TABLE_SIZE / 64, error);
    if (!status && !make_room(&all))
        status = no_memory(error);
    if (!status)
        status = explore(&all, begins, part_count, error);
    if (!status)
        status = lh_dfa_count_work(work, STATE_WORK * (dfa->state_count + dfa->edge_count), error);
    if (!status)
        status = lh_dfa_simplify(dfa, error);
    reset(&all);
    return status;
}
