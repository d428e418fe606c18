/* Thompson's construction (doi 10.1145/363347.363387), from the end of a text to its front. */
#include "gateway/constrain/text_nfa.h"

#include "common/base/growing_array.h"
#include "common/base/utf8.h"
#include "gateway/constrain/grammar_form.h"

#include <stdlib.h>
#include <string.h>

typedef struct builder {
    lh_text_nfa *nfa;
    const lh_grammar *grammar;
    lh_status status;
    lh_error *error;
} builder;

void lh_text_nfa_reset(lh_text_nfa *nfa) {
    free(nfa->states);
    free(nfa->ranges);
    *nfa = (lh_text_nfa){0};
}

/* Its number; 0 after a failure, which sticks. */
static uint32_t add_state(builder *work, lh_text_nfa_state state) {
    lh_text_nfa *nfa = work->nfa;
    if (work->status)
        return 0;
    if (nfa->state_count == LH_TEXT_NFA_STATES_MAX)
        work->status =
            lh_fail(work->error, LH_ERR_LIMIT, "needs more than %u states", LH_TEXT_NFA_STATES_MAX);
    else if (!lh_growing_array_reserve(&nfa->states, &nfa->state_capacity, nfa->state_count + 1,
                                       sizeof *nfa->states))
        work->status = lh_fail(work->error, LH_ERR_NO_MEMORY, "no memory for an automaton");
    if (work->status)
        return 0;
    nfa->states[nfa->state_count] = state;
    return (uint32_t)nfa->state_count++;
}

static uint32_t add_class(builder *work, const lh_character_range *ranges, size_t count,
                          uint32_t next) {
    lh_text_nfa *nfa = work->nfa;
    uint32_t first = (uint32_t)nfa->range_count;
    if (!work->status && count > LH_TEXT_NFA_RANGES_MAX - nfa->range_count)
        work->status = lh_fail(work->error, LH_ERR_LIMIT, "needs more than %u ranges of characters",
                               LH_TEXT_NFA_RANGES_MAX);
    if (work->status)
        return 0;
    if (!lh_growing_array_reserve(&nfa->ranges, &nfa->range_capacity, nfa->range_count + count,
                                  sizeof *nfa->ranges)) {
        work->status = lh_fail(work->error, LH_ERR_NO_MEMORY, "no memory for an automaton");
        return 0;
    }
    if (count)
        memcpy(nfa->ranges + first, ranges, count * sizeof *ranges);
    nfa->range_count += count;
    return add_state(work, (lh_text_nfa_state){.kind = LH_TEXT_NFA_CLASS,
                                               .next = next,
                                               .first_range = first,
                                               .range_count = (uint32_t)count});
}

static uint32_t add_literal(builder *work, const lh_grammar_form *form, uint32_t next) {
    const char *bytes = work->grammar->bytes + form->first, *end = bytes + form->count;
    if (lh_utf8_valid_prefix(bytes, form->count) != form->count)
        work->status = lh_fail(work->error, LH_ERR_UNSUPPORTED, "has bytes that are no characters");
    while (end > bytes && !work->status) {
        do
            end--;
        while (((unsigned char)*end & 0xc0) == 0x80);
        const char *at = end;
        uint32_t character = lh_utf8_decode(&at);
        next = add_class(work, &(lh_character_range){character, character}, 1, next);
    }
    return next;
}

static uint32_t split(builder *work, uint32_t next, uint32_t other) {
    return add_state(work,
                     (lh_text_nfa_state){.kind = LH_TEXT_NFA_SPLIT, .next = next, .other = other});
}

static uint32_t add_node(builder *work, lh_grammar_node node, uint32_t next);

static uint32_t add_choice(builder *work, const lh_grammar_form *form, uint32_t next) {
    if (form->count == 0)
        return add_class(work, NULL, 0, next);
    const lh_grammar_node *children = work->grammar->children + form->first;
    uint32_t begin = add_node(work, children[form->count - 1], next);
    for (size_t i = form->count - 1; i-- > 0;)
        begin = split(work, add_node(work, children[i], next), begin);
    return begin;
}

static uint32_t add_repeat(builder *work, const lh_grammar_form *form, uint32_t next) {
    uint32_t end = next;
    if (form->max == LH_GRAMMAR_UNBOUNDED) {
        uint32_t loop = split(work, 0, next), body = add_node(work, form->value, loop);
        if (!work->status)
            work->nfa->states[loop].next = body;
        next = loop;
    }
    for (uint32_t i = form->min; i < form->max && form->max != LH_GRAMMAR_UNBOUNDED; i++) {
        next = split(work, add_node(work, form->value, next), end);
        if (work->status)
            return 0;
    }
    for (uint32_t i = 0; i < form->min && !work->status; i++) {
        uint32_t before = next;
        next = add_node(work, form->value, next);
        if (next == before) /* nothing, however often */
            break;
    }
    return next;
}

/* Where its texts begin, which go on at `next`. */
static uint32_t add_node(builder *work, lh_grammar_node node, uint32_t next) {
    const lh_grammar_form *form = &work->grammar->forms[node];
    if (work->status)
        return 0;
    switch (form->kind) {
    case LH_GRAMMAR_LITERAL:
        return add_literal(work, form, next);
    case LH_GRAMMAR_CLASS:
        return add_class(work, work->grammar->ranges + form->first, form->count, next);
    case LH_GRAMMAR_SEQUENCE:
        for (size_t i = form->count; i-- > 0;)
            next = add_node(work, work->grammar->children[form->first + i], next);
        return next;
    case LH_GRAMMAR_CHOICE:
        return add_choice(work, form, next);
    case LH_GRAMMAR_REPEAT:
        return add_repeat(work, form, next);
    default:
        work->status = lh_fail(work->error, LH_ERR_UNSUPPORTED, "is not a regular language");
        return 0;
    }
}

lh_status lh_text_nfa_add(lh_text_nfa *nfa, const lh_grammar *grammar, lh_grammar_node node,
                          uint32_t part, uint32_t *begin, lh_error *error) {
    builder work = {.nfa = nfa, .grammar = grammar, .error = error};
    uint32_t end = add_state(&work, (lh_text_nfa_state){.kind = LH_TEXT_NFA_MATCH, .next = part});
    *begin = add_node(&work, node, end);
    return work.status;
}
