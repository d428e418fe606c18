/* Who is asked about an answer, and what follows from what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/spot_case.h"

#include <stdlib.h>
#include <string.h>

enum { DRAWS = 3, A = 0, B = 1, C = 2 };

static lh_spot_case spot;

static void begin(uint64_t last_draw) {
    lh_answer_record *record = lh_answer_record_create(DRAWS);
    assert_non_null(record);
    record->draw_count = DRAWS;
    record->draws[DRAWS - 1] = last_draw;
    lh_spot_case_init(&spot, record, A, 0);
}

/* The first draws are the same for all. */
static void say(uint32_t chain, uint64_t last_draw) {
    lh_spot_opinion opinion = {.chain = chain, .draws = calloc(DRAWS, sizeof(uint64_t))};
    assert_non_null(opinion.draws);
    opinion.draws[DRAWS - 1] = last_draw;
    lh_spot_case_add(&spot, &opinion);
}

static void assert_asks(bool has_third, bool a, bool b, bool c) {
    assert_int_equal(lh_spot_case_asks(&spot, A, has_third), a);
    assert_int_equal(lh_spot_case_asks(&spot, B, has_third), b);
    assert_int_equal(lh_spot_case_asks(&spot, C, has_third), c);
}

/* wrong: the chain; where the verdict is another one it does not matter. */
static void assert_verdict(lh_spot_verdict verdict, uint32_t chain) {
    uint32_t wrong;
    assert_string_equal(lh_spot_verdict_name(lh_spot_case_judge(&spot, &wrong)),
                        lh_spot_verdict_name(verdict));
    if (verdict == LH_SPOT_WRONG)
        assert_int_equal(spot.opinions[wrong].chain, chain);
}

static void end(void) {
    lh_spot_case_reset(&spot);
}

static void another_chain_agrees(void **state) {
    (void)state;
    begin(7);
    assert_verdict(LH_SPOT_OPEN, 0);
    assert_asks(true, false, true, true);
    say(B, 7);
    assert_verdict(LH_SPOT_AGREED, 0);
    assert_int_equal(lh_spot_case_difference(&spot, 0, 1), DRAWS);
    end();
}

static void a_third_chain_decides(void **state) {
    (void)state;
    const struct {
        uint64_t third;
        lh_spot_verdict verdict;
        uint32_t wrong;
    } cases[] = {{7, LH_SPOT_WRONG, B}, {8, LH_SPOT_WRONG, A}, {9, LH_SPOT_UNDECIDED, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(7);
        say(B, 8);
        assert_verdict(LH_SPOT_OPEN, 0);
        assert_int_equal(lh_spot_case_difference(&spot, 0, 1), DRAWS - 1);
        assert_asks(true, false, false, true);
        say(C, cases[i].third);
        assert_verdict(cases[i].verdict, cases[i].wrong);
        end();
    }
}

static void of_two_the_one_that_contradicts_itself_is_wrong(void **state) {
    (void)state;
    begin(7);
    say(B, 8);
    assert_asks(false, true, false, false);
    say(A, 8);
    assert_verdict(LH_SPOT_WRONG, A);
    end();
    begin(7);
    say(B, 8);
    say(A, 7);
    assert_verdict(LH_SPOT_OPEN, 0);
    assert_asks(false, false, true, false);
    say(B, 7);
    assert_verdict(LH_SPOT_WRONG, B);
    end();
}

static void of_two_that_stay_with_it_nobody_is(void **state) {
    (void)state;
    begin(7);
    say(B, 8);
    say(A, 7);
    say(B, 8);
    assert_verdict(LH_SPOT_UNDECIDED, 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_chain_agrees),
        cmocka_unit_test(a_third_chain_decides),
        cmocka_unit_test(of_two_the_one_that_contradicts_itself_is_wrong),
        cmocka_unit_test(of_two_that_stay_with_it_nobody_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
