/* Sequences that end before their time: deadlines in the queue and on the chain. (Hang-ups:
 * tests/fleet/test_admission.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

static lh_sequence_request due_at(int64_t deadline_us) {
    lh_sequence_request request = request_of(10, 20);
    request.deadline_us = deadline_us;
    return request;
}

/* Four run and hold all places, a fifth waits. */
static lh_scheduler *create_full(int64_t deadline_us) {
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    for (uint64_t handle = 0; handle < 4; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    request = due_at(deadline_us);
    assert_int_equal(submit_request(s, &request, 4, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 4);
    return s;
}

static void assert_expired(uint64_t handle) {
    assert_true(ears[handle].is_failed);
    assert_int_equal(ears[handle].status, LH_ERR_TIMEOUT);
}

static void what_expires_in_the_queue_costs_no_step(void **state) {
    (void)state;
    lh_scheduler *s = create_full(900 * MS);
    assert_int_equal(lh_scheduler_deadline_us(s), 900 * MS);
    lh_scheduler_tick(s, 900 * MS - 1);
    assert_false(ears[4].is_failed);
    lh_scheduler_tick(s, 900 * MS);
    assert_expired(4);
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 0);
    assert_int_equal(lh_scheduler_current_figures(s).expired, 1);
    assert_int_equal(lh_scheduler_deadline_us(s), 30000 * MS); /* the chain's, as before */
    lh_scheduler_cancel(s, 4);                                 /* unknown by now */
    assert_int_equal(lh_scheduler_current_figures(s).steps, 1);
    lh_scheduler_destroy(s);
}

/* The clock has gone on, and no tick has come yet. */
static void late_work_is_not_begun_even_without_a_tick(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = due_at(5 * MS);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    lh_step_manifest manifest;
    assert_false(lh_scheduler_next_step(s, 5 * MS, &manifest));
    assert_expired(0);
    lh_scheduler_destroy(s);
}

static void a_deadline_that_has_passed_is_refused(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = due_at(5 * MS);
    assert_int_equal(submit_request(s, &request, 0, 5 * MS), LH_ERR_TIMEOUT);
    assert_no_step(s);
    lh_scheduler_destroy(s);
}

static void one_that_runs_is_cancelled_and_its_pages_come_back(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = due_at(50 * MS);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 5), LH_OK);
    assert_int_equal(next_step(s).step_class, LH_STEP_DECODE);
    lh_scheduler_tick(s, 50 * MS);
    assert_expired(0);
    uint64_t step;
    assert_true(lh_scheduler_next_cancel(s, &step)); /* nobody waits for its token */
    assert_int_equal(step, 2);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.truncation_count, 1);
    assert_no_step(s);
    answer_step(s, 1);
    lh_scheduler_step_done(s, 7, 2, LH_ERR_CANCELLED, "", 0);
    answer_step(s, 3);
    assert_int_equal(blocks_held(s), 0);
    lh_scheduler_figures figures = lh_scheduler_current_figures(s);
    assert_int_equal(figures.running + figures.waiting + figures.truncating, 0);
    lh_scheduler_destroy(s);
}

static void a_finished_one_has_no_deadline_any_more(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = due_at(50 * MS);
    request.max_tokens = 1;
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 5), LH_OK);
    assert_true(ears[0].is_finished);
    lh_scheduler_tick(s, 50 * MS);
    assert_false(ears[0].is_failed);
    lh_scheduler_destroy(s);
}

static void without_a_chain_deadlines_hold_too(void **state) {
    (void)state;
    lh_scheduler *s = create_full(900 * MS);
    lh_scheduler_chain_down(s, 0);
    assert_int_equal(lh_scheduler_deadline_us(s), 900 * MS);
    lh_scheduler_tick(s, 900 * MS);
    assert_expired(4);
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 4);
    assert_int_equal(lh_scheduler_deadline_us(s), 5000 * MS); /* for a new chain */
    lh_scheduler_destroy(s);
}

static void the_earliest_deadline_is_the_next(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    const int64_t deadlines[] = {70 * MS, 30 * MS, 0, 50 * MS};
    for (uint64_t handle = 0; handle < 4; handle++) {
        lh_sequence_request request = due_at(deadlines[handle]);
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    }
    assert_int_equal(lh_scheduler_deadline_us(s), 30 * MS);
    lh_scheduler_cancel(s, 1);
    assert_int_equal(lh_scheduler_deadline_us(s), 50 * MS);
    lh_scheduler_tick(s, 80 * MS);
    assert_expired(0);
    assert_expired(3);
    assert_false(ears[1].is_failed || ears[2].is_failed);
    assert_int_equal(lh_scheduler_deadline_us(s), INT64_MAX);
    lh_scheduler_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_expires_in_the_queue_costs_no_step),
        cmocka_unit_test(late_work_is_not_begun_even_without_a_tick),
        cmocka_unit_test(a_deadline_that_has_passed_is_refused),
        cmocka_unit_test(one_that_runs_is_cancelled_and_its_pages_come_back),
        cmocka_unit_test(a_finished_one_has_no_deadline_any_more),
        cmocka_unit_test(without_a_chain_deadlines_hold_too),
        cmocka_unit_test(the_earliest_deadline_is_the_next),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
