/* A walk over the parts of a node. */
#include "gateway/constrain/grammar_length.h"

#include "common/base/utf8.h"
#include "gateway/constrain/grammar_form.h"

/* Nodes that one walk looks at; a format's pattern has some hundreds. */
#define VISITS_MAX 20000u

typedef struct walk {
    const lh_grammar *grammar;
    uint32_t visits;
} walk;

static const lh_grammar_length unknown = {0, UINT64_MAX};

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t length, uint32_t count) {
    if (length == 0 || count == 0)
        return 0;
    bool is_bound = length < UINT64_MAX && count != LH_GRAMMAR_UNBOUNDED;
    return is_bound && length <= UINT64_MAX / count ? length * count : UINT64_MAX;
}

static lh_grammar_length measure(walk *w, lh_grammar_node node);

static lh_grammar_length measure_sequence(walk *w, const lh_grammar_form *form) {
    lh_grammar_length all = {0, 0};
    for (size_t i = 0; i < form->count; i++) {
        lh_grammar_length one = measure(w, w->grammar->children[form->first + i]);
        all = (lh_grammar_length){plus(all.least, one.least), plus(all.most, one.most)};
    }
    return all;
}

static lh_grammar_length measure_choice(walk *w, const lh_grammar_form *form) {
    lh_grammar_length all = {UINT64_MAX, 0};
    for (size_t i = 0; i < form->count; i++) {
        lh_grammar_length one = measure(w, w->grammar->children[form->first + i]);
        all.least = one.least < all.least ? one.least : all.least;
        all.most = one.most > all.most ? one.most : all.most;
    }
    return form->count ? all : (lh_grammar_length){0, 0};
}

static lh_grammar_length measure(walk *w, lh_grammar_node node) {
    if (node == LH_GRAMMAR_FAILED || ++w->visits > VISITS_MAX)
        return unknown;
    const lh_grammar_form *form = &w->grammar->forms[node];
    lh_grammar_length one;
    switch (form->kind) {
    case LH_GRAMMAR_LITERAL:
        one.least = form->count ? lh_utf8_count(w->grammar->bytes + form->first, form->count) : 0;
        return (lh_grammar_length){one.least, one.least};
    case LH_GRAMMAR_CLASS:
        return (lh_grammar_length){1, 1};
    case LH_GRAMMAR_SEQUENCE:
        return measure_sequence(w, form);
    case LH_GRAMMAR_CHOICE:
        return measure_choice(w, form);
    case LH_GRAMMAR_REPEAT:
        one = measure(w, form->value);
        return (lh_grammar_length){times(one.least, form->min), times(one.most, form->max)};
    case LH_GRAMMAR_TOKEN:
    case LH_GRAMMAR_CALL:
        break;
    }
    return unknown;
}

lh_grammar_length lh_grammar_length_of(const lh_grammar *grammar, lh_grammar_node node) {
    walk w = {.grammar = grammar};
    return measure(&w, node);
}
