/* Who is suspended for what it sent, for how long, and how it is trusted again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/misconduct.h"

#include <stdio.h>
#include <string.h>

#define S 1000000 /* microseconds */

static lh_misconduct book;

static int begin(void **state) {
    (void)state;
    book = (lh_misconduct){0};
    return 0;
}

/* Until when it is suspended, in seconds; 0: it is not. */
static int64_t fault_at(const char *worker, int64_t now_s) {
    return lh_misconduct_note_fault(&book, worker, LH_WORKER_FAULT_BAD_RESULT,
                                    "an impossible token", now_s * S) /
           S;
}

static lh_worker_standing standing_at(const char *worker, int64_t now_s) {
    return lh_misconduct_standing(lh_misconduct_find(&book, worker), now_s * S);
}

static void take_steps(const char *worker, uint32_t count, int64_t now_s) {
    for (uint32_t i = 0; i < count; i++)
        lh_misconduct_note_step(&book, worker, true, now_s * S);
}

static void the_second_fault_suspends(void **state) {
    (void)state;
    assert_int_equal(standing_at("a", 100), LH_STANDING_TRUSTED);
    assert_int_equal(fault_at("a", 100), 0);
    assert_int_equal(standing_at("a", 101), LH_STANDING_WATCHED);
    assert_int_equal(fault_at("a", 102), 132);
    assert_int_equal(standing_at("a", 131), LH_STANDING_SUSPENDED);
    assert_int_equal(lh_misconduct_suspended_until_us(&book, "a", 131 * S), 132 * S);
    assert_int_equal(lh_misconduct_suspended_until_us(&book, "a", 132 * S), 0);
    assert_int_equal(lh_misconduct_suspended_until_us(&book, "b", 131 * S), 0);
    const lh_misconduct_record *record = lh_misconduct_find(&book, "a");
    assert_int_equal(record->faults[LH_WORKER_FAULT_BAD_RESULT], 2);
    assert_int_equal(record->faults[LH_WORKER_FAULT_NO_RESULT], 0);
    assert_string_equal(record->reason, "an impossible token");
    assert_null(lh_misconduct_find(&book, "b"));
}

static void faults_that_are_far_apart_do_not_count_together(void **state) {
    (void)state;
    for (int64_t now_s = 100; now_s < 10000; now_s += 600) {
        assert_int_equal(fault_at("a", now_s), 0);
        assert_int_equal(standing_at("a", now_s + 599), LH_STANDING_WATCHED);
        assert_int_equal(standing_at("a", now_s + 600), LH_STANDING_TRUSTED);
    }
    assert_int_equal(fault_at("b", 100), 0);
    assert_int_equal(fault_at("b", 699), 729);
}

static void one_fault_on_trial_suspends_for_twice_as_long(void **state) {
    (void)state;
    fault_at("a", 100);
    int64_t until_s = fault_at("a", 100);
    for (int64_t pause_s = 60; pause_s < 10000; pause_s *= 2) {
        int64_t expected_s = pause_s < 3600 ? pause_s : 3600;
        assert_int_equal(standing_at("a", until_s), LH_STANDING_ON_TRIAL);
        take_steps("a", LH_MISCONDUCT_TRIAL_STEPS - 1, until_s);
        assert_int_equal(fault_at("a", until_s), until_s + expected_s);
        until_s += expected_s;
    }
}

static void a_clean_trial_restores_trust(void **state) {
    (void)state;
    fault_at("a", 100);
    fault_at("a", 100);
    take_steps("a", LH_MISCONDUCT_TRIAL_STEPS, 120); /* while it is suspended they say nothing */
    assert_int_equal(standing_at("a", 130), LH_STANDING_ON_TRIAL);
    take_steps("b", LH_MISCONDUCT_TRIAL_STEPS, 130);
    take_steps("a", LH_MISCONDUCT_TRIAL_STEPS, 130);
    assert_int_equal(standing_at("a", 130), LH_STANDING_TRUSTED);
    assert_int_equal(fault_at("a", 200), 0);
    assert_int_equal(fault_at("a", 200), 260); /* the last one was a minute ago */
    take_steps("a", LH_MISCONDUCT_TRIAL_STEPS, 260);
    assert_int_equal(fault_at("a", 260 + 3600), 0);
    assert_int_equal(fault_at("a", 260 + 3600), 260 + 3600 + 30);
}

/* It is used all the same where nothing serves without it. */
static void a_suspended_one_that_goes_on_stays_suspended(void **state) {
    (void)state;
    fault_at("a", 100);
    fault_at("a", 100);
    for (int64_t now_s = 101; now_s < 200; now_s++)
        assert_int_equal(fault_at("a", now_s), now_s + 30);
}

static void the_oldest_record_makes_room(void **state) {
    (void)state;
    char name[16];
    for (uint32_t i = 0; i < LH_MISCONDUCT_RECORDS_MAX; i++) {
        snprintf(name, sizeof name, "w%u", i);
        fault_at(name, i == 7 ? 10 : 100 + i);
    }
    fault_at("a", 1000);
    assert_int_equal(book.count, LH_MISCONDUCT_RECORDS_MAX);
    assert_null(lh_misconduct_find(&book, "w7"));
    assert_non_null(lh_misconduct_find(&book, "w6"));
    assert_non_null(lh_misconduct_find(&book, "a"));
}

static int64_t refusal_at(const char *worker, int64_t now_s) {
    return lh_misconduct_note_fault(&book, worker, LH_WORKER_FAULT_REFUSAL, "step 7 failed",
                                    now_s * S) /
           S;
}

static void refusals_in_a_row_suspend(void **state) {
    (void)state;
    assert_int_equal(refusal_at("a", 100), 0);
    take_steps("a", LH_MISCONDUCT_REFUSALS_APART - 1, 100);
    assert_int_equal(refusal_at("a", 101), 0);
    assert_int_equal(standing_at("a", 101), LH_STANDING_TRUSTED); /* they are no results */
    assert_int_equal(refusal_at("a", 102), 132);
    assert_int_equal(standing_at("a", 132), LH_STANDING_ON_TRIAL);
    /* of its trial all steps count that go through it */
    for (uint32_t i = 0; i < LH_MISCONDUCT_TRIAL_STEPS; i++)
        lh_misconduct_note_step(&book, "a", false, 132 * S);
    assert_int_equal(standing_at("a", 132), LH_STANDING_TRUSTED);
}

/* A request that every worker refuses, while others are served. */
static void refusals_with_steps_between_them_do_not(void **state) {
    (void)state;
    for (int64_t now_s = 100; now_s < 200; now_s++) {
        assert_int_equal(refusal_at("a", now_s), 0);
        take_steps("a", LH_MISCONDUCT_REFUSALS_APART, now_s);
    }
}

static void trials_for_results_need_results(void **state) {
    (void)state;
    fault_at("a", 100);
    fault_at("a", 100);
    for (uint32_t i = 0; i < LH_MISCONDUCT_TRIAL_STEPS; i++)
        lh_misconduct_note_step(&book, "a", false, 130 * S);
    assert_int_equal(standing_at("a", 130), LH_STANDING_ON_TRIAL);
}

static void without_a_record_nobody_is_held_responsible(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            lh_misconduct_note_fault(NULL, "a", LH_WORKER_FAULT_NO_RESULT, "none came", S), 0);
    lh_misconduct_note_step(NULL, "a", true, S);
    assert_null(lh_misconduct_find(NULL, "a"));
    assert_int_equal(lh_misconduct_suspended_until_us(NULL, "a", S), 0);
}

/* Steps that look fine say nothing of tokens that looked right. */
static void after_wrong_answers_right_ones_restore_trust(void **state) {
    (void)state;
    for (int64_t now_s = 100; now_s < 102; now_s++)
        lh_misconduct_note_fault(&book, "a", LH_WORKER_FAULT_WRONG_ANSWER, "it differs", now_s * S);
    assert_int_equal(standing_at("a", 102), LH_STANDING_SUSPENDED);
    lh_misconduct_note_agreement(&book, "a", 10000, 120 * S);
    assert_int_equal(standing_at("a", 131), LH_STANDING_ON_TRIAL);
    take_steps("a", 10 * LH_MISCONDUCT_TRIAL_STEPS, 131);
    assert_int_equal(standing_at("a", 131), LH_STANDING_ON_TRIAL);
    lh_misconduct_note_agreement(&book, "a", LH_MISCONDUCT_TRIAL_STEPS - 1, 132 * S);
    assert_int_equal(standing_at("a", 132), LH_STANDING_ON_TRIAL);
    lh_misconduct_note_agreement(&book, "a", 1, 133 * S);
    assert_int_equal(standing_at("a", 133), LH_STANDING_TRUSTED);
    lh_misconduct_note_agreement(&book, "b", 1, 133 * S);
    assert_null(lh_misconduct_find(&book, "b"));
    lh_misconduct_note_agreement(NULL, "a", 1, 133 * S);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_second_fault_suspends, begin),
        cmocka_unit_test_setup(faults_that_are_far_apart_do_not_count_together, begin),
        cmocka_unit_test_setup(one_fault_on_trial_suspends_for_twice_as_long, begin),
        cmocka_unit_test_setup(a_clean_trial_restores_trust, begin),
        cmocka_unit_test_setup(a_suspended_one_that_goes_on_stays_suspended, begin),
        cmocka_unit_test_setup(after_wrong_answers_right_ones_restore_trust, begin),
        cmocka_unit_test_setup(the_oldest_record_makes_room, begin),
        cmocka_unit_test_setup(refusals_in_a_row_suspend, begin),
        cmocka_unit_test_setup(refusals_with_steps_between_them_do_not, begin),
        cmocka_unit_test_setup(trials_for_results_need_results, begin),
        cmocka_unit_test_setup(without_a_record_nobody_is_held_responsible, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
