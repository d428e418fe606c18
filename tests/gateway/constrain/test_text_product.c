/* Parts of a grammar as one automaton: which of them have a text. */
#include "gateway/constrain/text_product.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t parts_and_one(const void *context, uint32_t parts) {
    (void)context;
    return parts + 1;
}

static uint32_t all_of(const void *context, uint32_t parts) {
    return parts == *(const uint32_t *)context;
}

static lh_grammar_node letters(lh_grammar *grammar, uint32_t first, uint32_t last, uint32_t least,
                               uint32_t most) {
    const lh_character_range range = {first, last};
    return lh_grammar_repeat(grammar, lh_grammar_class(grammar, &range, 1, false), least, most);
}

/* Part 0: "ab" or "cd\u00e4" or nothing; part 1: a to c, any number; part 2: 2 or 3 characters. */
static size_t parts_of(lh_grammar *grammar, lh_grammar_node *parts) {
    const lh_grammar_node words[] = {lh_grammar_text(grammar, "ab"),
                                     lh_grammar_text(grammar, "cd\xc3\xa4"),
                                     lh_grammar_empty(grammar)};
    parts[0] = lh_grammar_choice(grammar, words, 3);
    parts[1] = letters(grammar, 'a', 'c', 0, LH_GRAMMAR_UNBOUNDED);
    parts[2] = letters(grammar, 0, 0x10ffff, 2, 3);
    return 3;
}

static lh_status build(lh_text_label *label, const void *context, lh_dfa *dfa, lh_error *error) {
    lh_grammar *grammar;
    lh_grammar_node parts[3];
    size_t work = 0;
    lh_status status = lh_grammar_create(&grammar, error);
    if (status)
        return status;
    size_t count = parts_of(grammar, parts);
    status = lh_text_product_build(grammar, parts, count, label, context, &work, dfa, error);
    lh_grammar_destroy(grammar);
    return status;
}

static void each_text_has_its_parts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t parts;
    } cases[] = {{"", 3},           {"a", 2},    {"ab", 7},
                 {"abc", 6},        {"abca", 2}, {"zz", 4},
                 {"\xc3\xa4z", 4},  {"zzzz", 0}, {"abd", 4},
                 {"cd\xc3\xa4", 5}, {"cd", 4},   {"\xf0\x9f\x98\x80\xf0\x9f\x98\x80", 4},
                 {"c", 2}};
    lh_dfa dfa = {0};
    assert_int_equal(build(parts_and_one, NULL, &dfa, NULL), LH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(lh_dfa_label_of(&dfa, cases[i].text, strlen(cases[i].text)),
                         cases[i].parts + 1);
    lh_dfa_reset(&dfa);
}

static void what_all_have_in_common_is_small(void **state) {
    (void)state;
    const uint32_t wanted = 7;
    lh_dfa dfa = {0};
    assert_int_equal(build(all_of, &wanted, &dfa, NULL), LH_OK);
    assert_int_equal(lh_dfa_label_of(&dfa, "ab", 2), 1);
    assert_int_equal(dfa.state_count, 3);
    lh_dfa_reset(&dfa);
}

static lh_status product_of(lh_grammar *grammar, lh_grammar_node part, lh_dfa *dfa) {
    const uint32_t wanted = 1;
    size_t work = 0;
    lh_dfa_reset(dfa);
    return lh_text_product_build(grammar, &part, 1, all_of, &wanted, &work, dfa, NULL);
}

static void repetitions_of_repetitions_have_an_end(void **state) {
    (void)state;
    lh_grammar *grammar;
    lh_dfa dfa = {0};
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_node star = letters(grammar, 'a', 'b', 0, LH_GRAMMAR_UNBOUNDED);
    lh_grammar_node twice = lh_grammar_repeat(grammar, star, 2, LH_GRAMMAR_UNBOUNDED);
    assert_int_equal(product_of(grammar, twice, &dfa), LH_OK);
    assert_int_equal(lh_dfa_label_of(&dfa, "abab", 4), 1);
    assert_int_equal(lh_dfa_label_of(&dfa, "", 0), 1);
    lh_grammar_node none = lh_grammar_empty(grammar);
    for (int i = 0; i < 5; i++)
        none = lh_grammar_repeat(grammar, none, 1000000000, 1000000001);
    assert_true(product_of(grammar, none, &dfa) <= LH_ERR_LIMIT);
    assert_int_equal(product_of(grammar, letters(grammar, 'a', 'a', 1000000000, 1000000000), &dfa),
                     LH_ERR_LIMIT);
    lh_dfa_reset(&dfa);
    lh_grammar_destroy(grammar);
}

/* (any character)*, a, then any 20: the automaton would have a million states. */
static void too_many_states_are_refused(void **state) {
    (void)state;
    lh_grammar *grammar;
    lh_dfa dfa = {0};
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    const lh_grammar_node nodes[] = {letters(grammar, 0, 0x10ffff, 0, LH_GRAMMAR_UNBOUNDED),
                                     lh_grammar_text(grammar, "a"),
                                     letters(grammar, 0, 0x10ffff, 20, 20)};
    assert_int_equal(product_of(grammar, lh_grammar_sequence(grammar, nodes, 3), &dfa),
                     LH_ERR_LIMIT);
    lh_dfa_reset(&dfa);
    lh_grammar_destroy(grammar);
}

static void what_is_not_regular_is_refused(void **state) {
    (void)state;
    lh_grammar *grammar;
    lh_dfa dfa = {0};
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_rule rule = lh_grammar_declare(grammar, "r", 1);
    lh_grammar_define(grammar, rule, lh_grammar_empty(grammar));
    assert_int_equal(product_of(grammar, lh_grammar_call(grammar, rule), &dfa), LH_ERR_UNSUPPORTED);
    assert_int_equal(product_of(grammar, lh_grammar_token(grammar, 1), &dfa), LH_ERR_UNSUPPORTED);
    assert_int_equal(product_of(grammar, lh_grammar_literal(grammar, "\xff", 1), &dfa),
                     LH_ERR_UNSUPPORTED);
    lh_dfa_reset(&dfa);
    lh_grammar_destroy(grammar);
}

static void missing_memory_is_an_error(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_dfa dfa = {0};
        failing_malloc_arm(n);
        lh_status status = build(parts_and_one, NULL, &dfa, NULL);
        bool failed = failing_malloc_disarm();
        lh_dfa_reset(&dfa);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_has_its_parts),
        cmocka_unit_test(what_all_have_in_common_is_small),
        cmocka_unit_test(repetitions_of_repetitions_have_an_end),
        cmocka_unit_test(too_many_states_are_refused),
        cmocka_unit_test(what_is_not_regular_is_refused),
        cmocka_unit_test(missing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
