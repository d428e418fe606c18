/* Automata over characters: what they accept, before and after they are simplified. */
#include "gateway/constrain/dfa.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint32_t label_of(const lh_dfa *dfa, const char *text) {
    return lh_dfa_label_of(dfa, text, strlen(text));
}

/* "ab" and "cb" are 1, "a" is 2; from state 4 nothing is accepted, 5 is another 2. */
static lh_status build(lh_dfa *dfa) {
    static const uint32_t labels[] = {0, 2, 0, 1, 0, 1};
    static const struct {
        uint32_t state, low, high, target;
    } edges[] = {{0, 'a', 'a', 1}, {0, 'c', 'c', 2}, {0, 'd', 'f', 4},
                 {1, 'b', 'b', 3}, {2, 'b', 'b', 5}, {4, 'g', 'g', 4}};
    lh_status status = LH_OK;
    for (size_t i = 0; i < 6 && !status; i++)
        status = lh_dfa_add_state(dfa, labels[i], NULL);
    for (size_t i = 0; i < 6 && !status; i++)
        status = lh_dfa_add_edge(dfa, edges[i].state, edges[i].low, edges[i].high, edges[i].target,
                                 NULL);
    return status;
}

static void a_simpler_one_accepts_the_same(void **state) {
    (void)state;
    lh_dfa dfa = {0};
    assert_int_equal(build(&dfa), LH_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(label_of(&dfa, "ab"), 1);
        assert_int_equal(label_of(&dfa, "cb"), 1);
        assert_int_equal(label_of(&dfa, "a"), 2);
        assert_int_equal(label_of(&dfa, ""), 0);
        assert_int_equal(label_of(&dfa, "dg"), 0);
        assert_int_equal(label_of(&dfa, "abb"), 0);
        assert_int_equal(lh_dfa_simplify(&dfa, NULL), LH_OK);
        assert_false(lh_dfa_is_empty(&dfa));
    }
    assert_int_equal(dfa.state_count, 4); /* the two ends are one, 4 is gone */
    assert_int_equal(dfa.edge_count, 4);
    lh_dfa_reset(&dfa);
}

static void edges_that_touch_are_one(void **state) {
    (void)state;
    lh_dfa dfa = {0};
    assert_int_equal(lh_dfa_add_state(&dfa, 1, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 0, 'a', 'c', 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 0, 'd', 'e', 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 0, 'g', 0x10ffff, 0, NULL), LH_OK);
    assert_int_equal(dfa.edge_count, 2);
    assert_int_equal(label_of(&dfa, "abcdeg\xc3\xa4"), 1);
    assert_int_equal(label_of(&dfa, "f"), 0);
    lh_dfa_reset(&dfa);
}

static void circles_stay(void **state) {
    (void)state;
    lh_dfa dfa = {0};
    assert_int_equal(lh_dfa_add_state(&dfa, 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_state(&dfa, 1, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 0, 'a', 'a', 1, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 1, 'b', 'b', 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_simplify(&dfa, NULL), LH_OK);
    assert_int_equal(label_of(&dfa, "ababa"), 1);
    assert_int_equal(label_of(&dfa, "abab"), 0);
    lh_dfa_reset(&dfa);
}

static void what_accepts_nothing_is_empty(void **state) {
    (void)state;
    lh_dfa dfa = {0};
    assert_true(lh_dfa_is_empty(&dfa));
    assert_int_equal(lh_dfa_add_state(&dfa, 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_add_edge(&dfa, 0, 'a', 'a', 0, NULL), LH_OK);
    assert_int_equal(lh_dfa_simplify(&dfa, NULL), LH_OK);
    assert_true(lh_dfa_is_empty(&dfa));
    assert_int_equal(label_of(&dfa, "a"), 0);
    lh_dfa_reset(&dfa);
}

static void too_many_states_are_refused(void **state) {
    (void)state;
    lh_dfa dfa = {0};
    lh_error error;
    for (size_t i = 0; i < LH_DFA_STATES_MAX; i++)
        assert_int_equal(lh_dfa_add_state(&dfa, 0, &error), LH_OK);
    assert_int_equal(lh_dfa_add_state(&dfa, 0, &error), LH_ERR_LIMIT);
    lh_dfa_reset(&dfa);
}

static void missing_memory_is_an_error(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_dfa dfa = {0};
        failing_malloc_arm(n);
        lh_status status = build(&dfa);
        if (!status)
            status = lh_dfa_simplify(&dfa, NULL);
        bool failed = failing_malloc_disarm();
        lh_dfa_reset(&dfa);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_simpler_one_accepts_the_same),
        cmocka_unit_test(edges_that_touch_are_one),
        cmocka_unit_test(circles_stay),
        cmocka_unit_test(what_accepts_nothing_is_empty),
        cmocka_unit_test(too_many_states_are_refused),
        cmocka_unit_test(missing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
