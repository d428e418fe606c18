/* Nodes in an array, their parts in others. A node's children stand before it, so there are no
 * circles but through rules. */
#include "gateway/constrain/grammar.h"

#include "common/base/arithmetic.h"
#include "common/base/growing_array.h"
#include "common/base/utf8.h"
#include "gateway/constrain/grammar_form.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_POINT_MAX  0x10FFFFu
#define SURROGATE_FIRST 0xD800u
#define SURROGATE_LAST  0xDFFFu

lh_status lh_grammar_create(lh_grammar **grammar, lh_error *error) {
    lh_grammar *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a grammar");
    made->root = LH_GRAMMAR_FAILED;
    *grammar = made;
    return LH_OK;
}

void lh_grammar_destroy(lh_grammar *grammar) {
    if (!grammar)
        return;
    free(grammar->forms);
    free(grammar->rules);
    free(grammar->children);
    free(grammar->ranges);
    free(grammar->bytes);
    free(grammar);
}

lh_grammar_node lh_grammar_fail(lh_grammar *grammar, lh_status status, const char *format, ...) {
    assert(status != LH_OK);
    if (grammar->failure.status)
        return LH_GRAMMAR_FAILED;
    va_list arguments;
    va_start(arguments, format);
    grammar->failure.status = status;
    vsnprintf(grammar->failure.message, sizeof grammar->failure.message, format, arguments);
    va_end(arguments);
    return LH_GRAMMAR_FAILED;
}

void lh_grammar_place_failure(lh_grammar *grammar, const char *place) {
    char message[sizeof grammar->failure.message];
    if (!grammar->failure.status)
        return;
    memcpy(message, grammar->failure.message, sizeof message);
    snprintf(grammar->failure.message, sizeof grammar->failure.message, "%.80s: %.*s", place,
             (int)sizeof message - 100, message);
}

size_t *lh_grammar_work(lh_grammar *grammar) {
    return &grammar->work;
}

lh_status lh_grammar_check(const lh_grammar *grammar, lh_error *error) {
    if (grammar->failure.status && error)
        *error = grammar->failure;
    return grammar->failure.status;
}

/* Room for `more` elements of an array of the grammar, of which it may have `max`. */
static bool reserve(lh_grammar *grammar, void *array_pointer, size_t *capacity, size_t count,
                    size_t more, size_t element_bytes, size_t max, const char *what) {
    if (more > max || count > max - more)
        lh_grammar_fail(grammar, LH_ERR_LIMIT, "the grammar has more than %zu %s", max, what);
    else if (!lh_growing_array_reserve(array_pointer, capacity, count + more, element_bytes))
        lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a grammar of %zu %s",
                        count + more, what);
    return grammar->failure.status == LH_OK;
}

static lh_grammar_node push(lh_grammar *grammar, lh_grammar_form form) {
    if (grammar->failure.status ||
        !reserve(grammar, &grammar->forms, &grammar->form_capacity, grammar->form_count, 1,
                 sizeof *grammar->forms, LH_GRAMMAR_NODES_MAX, "nodes"))
        return LH_GRAMMAR_FAILED;
    if (form.depth > LH_GRAMMAR_DEPTH_MAX)
        return lh_grammar_fail(grammar, LH_ERR_LIMIT, "more than %u parts are inside one another",
                               LH_GRAMMAR_DEPTH_MAX);
    grammar->forms[grammar->form_count] = form;
    return (lh_grammar_node)grammar->form_count++;
}

lh_grammar_node lh_grammar_literal(lh_grammar *grammar, const char *bytes, size_t length) {
    /* One more, so that there are bytes to point to even of an empty text. */
    if (grammar->failure.status ||
        !reserve(grammar, &grammar->bytes, &grammar->byte_capacity, grammar->byte_count,
                 length < SIZE_MAX ? length + 1 : length, 1, LH_GRAMMAR_PARTS_MAX,
                 "bytes of literals"))
        return LH_GRAMMAR_FAILED;
    size_t first = grammar->byte_count;
    if (length)
        memcpy(grammar->bytes + first, bytes, length);
    grammar->byte_count += length;
    return push(
        grammar,
        (lh_grammar_form){.kind = LH_GRAMMAR_LITERAL, .depth = 1, .first = first, .count = length});
}

lh_grammar_node lh_grammar_text(lh_grammar *grammar, const char *text) {
    return lh_grammar_literal(grammar, text, strlen(text));
}

lh_grammar_node lh_grammar_empty(lh_grammar *grammar) {
    return lh_grammar_literal(grammar, "", 0);
}

static int by_first(const void *a, const void *b) {
    uint32_t x = ((const lh_character_range *)a)->first, y = ((const lh_character_range *)b)->first;
    return (x > y) - (x < y);
}

/* Sorts and joins; gives the number that is left. */
static size_t join_ranges(lh_character_range *ranges, size_t count) {
    size_t kept = 0;
    qsort(ranges, count, sizeof *ranges, by_first);
    for (size_t i = 0; i < count; i++) {
        lh_character_range range = ranges[i];
        if (range.last > CODE_POINT_MAX)
            range.last = CODE_POINT_MAX;
        if (range.first > range.last)
            continue;
        if (kept > 0 && range.first <= ranges[kept - 1].last + 1)
            ranges[kept - 1].last = lh_max_u32(ranges[kept - 1].last, range.last);
        else
            ranges[kept++] = range;
    }
    return kept;
}

/* The gaps between them: one more than there are ranges at most. */
static size_t negate_ranges(lh_character_range *ranges, size_t count) {
    size_t kept = 0;
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        lh_character_range range = ranges[i];
        if (range.first > from)
            ranges[kept++] = (lh_character_range){from, range.first - 1};
        from = range.last + 1;
    }
    if (from <= CODE_POINT_MAX)
        ranges[kept++] = (lh_character_range){from, CODE_POINT_MAX};
    return kept;
}

/* One range more at most: only one can have surrogates in its middle. */
static size_t drop_surrogates(lh_character_range *ranges, size_t count) {
    size_t kept = 0;
    lh_character_range above = {1, 0};
    for (size_t i = 0; i < count; i++) {
        lh_character_range range = ranges[i];
        if (range.first < SURROGATE_FIRST && range.last > SURROGATE_LAST) {
            above = (lh_character_range){SURROGATE_LAST + 1, range.last};
            range.last = SURROGATE_FIRST - 1;
        } else if (range.first < SURROGATE_FIRST)
            range.last = lh_min_u32(range.last, SURROGATE_FIRST - 1);
        else if (range.last > SURROGATE_LAST)
            range.first = lh_max_u32(range.first, SURROGATE_LAST + 1);
        else
            continue;
        if (range.first <= range.last)
            ranges[kept++] = range;
    }
    if (above.first > above.last)
        return kept;
    size_t at = kept;
    for (; at > 0 && ranges[at - 1].first > above.first; at--)
        ranges[at] = ranges[at - 1];
    ranges[at] = above;
    return kept + 1;
}

lh_grammar_node lh_grammar_class(lh_grammar *grammar, const lh_character_range *ranges,
                                 size_t count, bool negated) {
    /* Two more: one by negation, one where the surrogates are cut out. */
    if (grammar->failure.status ||
        !reserve(grammar, &grammar->ranges, &grammar->range_capacity, grammar->range_count,
                 count < SIZE_MAX - 2 ? count + 2 : count, sizeof *grammar->ranges,
                 LH_GRAMMAR_PARTS_MAX, "ranges of characters"))
        return LH_GRAMMAR_FAILED;
    size_t first = grammar->range_count;
    lh_character_range *own = grammar->ranges + first;
    if (count)
        memcpy(own, ranges, count * sizeof *own);
    size_t kept = join_ranges(own, count);
    if (negated)
        kept = negate_ranges(own, kept);
    kept = drop_surrogates(own, kept);
    grammar->range_count += kept;
    return push(grammar, (lh_grammar_form){
                             .kind = LH_GRAMMAR_CLASS, .depth = 1, .first = first, .count = kept});
}

static lh_grammar_node combine(lh_grammar *grammar, lh_grammar_kind kind,
                               const lh_grammar_node *nodes, size_t count) {
    if (grammar->failure.status ||
        !reserve(grammar, &grammar->children, &grammar->child_capacity, grammar->child_count, count,
                 sizeof *grammar->children, LH_GRAMMAR_PARTS_MAX, "parts of sequences and choices"))
        return LH_GRAMMAR_FAILED;
    size_t first = grammar->child_count;
    uint32_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        assert(nodes[i] < grammar->form_count);
        depth = lh_max_u32(depth, grammar->forms[nodes[i]].depth);
        grammar->children[first + i] = nodes[i];
    }
    grammar->child_count += count;
    return push(grammar, (lh_grammar_form){
                             .kind = kind, .depth = depth + 1, .first = first, .count = count});
}

lh_grammar_node lh_grammar_sequence(lh_grammar *grammar, const lh_grammar_node *nodes,
                                    size_t count) {
    return count == 1 ? nodes[0] : combine(grammar, LH_GRAMMAR_SEQUENCE, nodes, count);
}

lh_grammar_node lh_grammar_choice(lh_grammar *grammar, const lh_grammar_node *nodes, size_t count) {
    return count == 1 ? nodes[0] : combine(grammar, LH_GRAMMAR_CHOICE, nodes, count);
}

lh_grammar_node lh_grammar_repeat(lh_grammar *grammar, lh_grammar_node node, uint32_t min,
                                  uint32_t max) {
    if (grammar->failure.status)
        return LH_GRAMMAR_FAILED;
    if (min > max || min == LH_GRAMMAR_UNBOUNDED)
        return lh_grammar_fail(grammar, LH_ERR_INVALID,
                               "a repetition has a minimum of %u and a maximum of %u", min, max);
    assert(node < grammar->form_count);
    if (min == 1 && max == 1)
        return node;
    return push(grammar, (lh_grammar_form){.kind = LH_GRAMMAR_REPEAT,
                                           .depth = grammar->forms[node].depth + 1,
                                           .value = node,
                                           .min = min,
                                           .max = max});
}

lh_grammar_node lh_grammar_token(lh_grammar *grammar, uint32_t token) {
    return push(grammar, (lh_grammar_form){.kind = LH_GRAMMAR_TOKEN, .depth = 1, .value = token});
}

lh_grammar_rule lh_grammar_declare(lh_grammar *grammar, const char *name, size_t length) {
    if (grammar->failure.status ||
        !reserve(grammar, &grammar->rules, &grammar->rule_capacity, grammar->rule_count, 1,
                 sizeof *grammar->rules, LH_GRAMMAR_RULES_MAX, "rules"))
        return LH_GRAMMAR_FAILED;
    lh_grammar_rule_form *rule = &grammar->rules[grammar->rule_count];
    size_t kept = length < sizeof rule->name ? length : sizeof rule->name - 1;
    if (kept)
        memcpy(rule->name, name, kept);
    rule->name[kept < length ? lh_utf8_valid_prefix(name, kept) : kept] = '\0';
    rule->node = LH_GRAMMAR_FAILED;
    return (lh_grammar_rule)grammar->rule_count++;
}

void lh_grammar_define(lh_grammar *grammar, lh_grammar_rule rule, lh_grammar_node node) {
    if (grammar->failure.status)
        return;
    assert(rule < grammar->rule_count && node < grammar->form_count);
    if (grammar->rules[rule].node != LH_GRAMMAR_FAILED)
        lh_grammar_fail(grammar, LH_ERR_INVALID, "the rule \"%s\" is defined twice",
                        grammar->rules[rule].name);
    else
        grammar->rules[rule].node = node;
}

lh_grammar_node lh_grammar_call(lh_grammar *grammar, lh_grammar_rule rule) {
    assert(grammar->failure.status || rule < grammar->rule_count);
    return push(grammar, (lh_grammar_form){.kind = LH_GRAMMAR_CALL, .depth = 1, .value = rule});
}

void lh_grammar_set_root(lh_grammar *grammar, lh_grammar_node node) {
    assert(grammar->failure.status || node < grammar->form_count);
    grammar->root = node;
}
