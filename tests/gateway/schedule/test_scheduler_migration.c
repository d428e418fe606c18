/* Sequences that go from one scheduler to another, and how schedulers compare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

/* Four run and hold all places, two wait. */
static lh_scheduler *create_full(void) {
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    for (uint64_t handle = 0; handle < 6; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 4);
    return s;
}

static void who_waits_may_go_and_who_runs_stays(void **state) {
    (void)state;
    lh_scheduler *s = create_full();
    lh_sequence *first = lh_scheduler_migrate_out(s, UINT64_MAX, 0),
                *second = lh_scheduler_migrate_out(s, UINT64_MAX, 0);
    assert_int_equal(first->handle, 4);
    assert_int_equal(second->handle, 5);
    assert_null(lh_scheduler_migrate_out(s, UINT64_MAX, 0));
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 0);
    lh_scheduler_cancel(s, 4); /* unknown here by now */
    lh_sequence_destroy(first);
    lh_sequence_destroy(second);
    lh_scheduler_destroy(s);
}

/* The other chain goes on with it as with its own: deadline, cancellation and number. */
static void an_adopted_one_is_like_ones_own(void **state) {
    (void)state;
    lh_scheduler *a = create_full();
    lh_scheduler *b = create_ready(64);
    assert_true(lh_scheduler_has_room(b));
    assert_false(lh_scheduler_has_room(a));
    lh_sequence *moved = lh_scheduler_migrate_out(a, UINT64_MAX, 0);
    uint64_t number = moved->schedule.id;
    moved->request.deadline_us = 900 * MS;
    lh_scheduler_migrate_in(b, moved, 5 * MS);
    assert_false(lh_scheduler_has_room(b)); /* it waits */
    assert_int_equal(lh_scheduler_deadline_us(b), 900 * MS);
    lh_step_manifest manifest = next_step(b);
    assert_int_equal(manifest.segment_count, 1);
    assert_int_equal(manifest.segments[0].sequence, number);
    bring_token(b, 7, manifest.step, number, 10, 42);
    assert_int_equal(ears[4].tokens[0], 42);
    lh_scheduler_cancel(b, 4);
    assert_int_equal(lh_scheduler_current_figures(b).cancelled, 1);
    lh_scheduler_destroy(b);
    lh_scheduler_destroy(a);
}

static void one_that_is_too_long_for_the_other_stays(void **state) {
    (void)state;
    lh_scheduler *s = create_full();
    assert_null(lh_scheduler_migrate_out(s, 29, 0));
    lh_sequence *moved = lh_scheduler_migrate_out(s, 30, 0);
    assert_int_equal(moved->handle, 4);
    lh_sequence_destroy(moved);
    lh_scheduler_destroy(s);
}

/* The one whose turn it is cannot go: then the first in the queue that can. */
static void another_goes_for_one_that_cannot(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    for (uint64_t handle = 0; handle < 5; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    request = request_of(10, 60);
    request.priority = -1;
    assert_int_equal(submit_request(s, &request, 5, 0), LH_OK);
    lh_scheduler_chain_down(s, 0);
    lh_sequence *moved = lh_scheduler_migrate_out(s, 30, 0);
    assert_int_equal(moved->handle, 0);
    lh_sequence_destroy(moved);
    moved = lh_scheduler_migrate_out(s, 70, 0);
    assert_int_equal(moved->handle, 5);
    lh_sequence_destroy(moved);
    lh_scheduler_destroy(s);
}

/* There and back at once would never end; from a chain that is down it goes on, whenever it came.
 */
static void it_rests_before_it_moves_again(void **state) {
    (void)state;
    lh_scheduler *a = create_full();
    lh_sequence *moved = lh_scheduler_migrate_out(a, UINT64_MAX, 0);
    lh_sequence_destroy(lh_scheduler_migrate_out(a, UINT64_MAX, 0));
    lh_scheduler_migrate_in(a, moved, 10 * MS);
    assert_null(lh_scheduler_migrate_out(a, UINT64_MAX, 209 * MS));
    assert_ptr_equal(lh_scheduler_migrate_out(a, UINT64_MAX, 210 * MS), moved);
    lh_scheduler_migrate_in(a, moved, 210 * MS);
    lh_scheduler_chain_down(a, 211 * MS);
    for (int left = 5; left > 0; left--) { /* it, and the four that ran */
        lh_sequence *next = lh_scheduler_migrate_out(a, UINT64_MAX, 211 * MS);
        assert_non_null(next);
        lh_sequence_destroy(next);
    }
    assert_null(lh_scheduler_migrate_out(a, UINT64_MAX, 211 * MS));
    lh_scheduler_destroy(a);
}

/* Its tenant's share is what memory is needed for. */
static void without_memory_it_fails_where_it_came_to(void **state) {
    (void)state;
    lh_scheduler *a = create_full(), *b = create_ready(64);
    lh_sequence *moved = lh_scheduler_migrate_out(a, UINT64_MAX, 0);
    failing_malloc_arm(1);
    lh_scheduler_migrate_in(b, moved, 0);
    assert_true(failing_malloc_disarm());
    assert_true(ears[4].is_failed);
    assert_int_equal(ears[4].status, LH_ERR_NO_MEMORY);
    assert_int_equal(lh_scheduler_current_figures(b).failed, 1);
    assert_int_equal(lh_scheduler_current_figures(b).waiting, 0);
    const lh_sequence_request request = request_of(10, 20);
    lh_sequence *sequence;
    lh_error error;
    assert_int_equal(lh_sequence_create(&request, 0, 1000, &sequence, NULL), LH_OK);
    failing_malloc_arm(1);
    assert_int_equal(lh_scheduler_submit(b, sequence, 0, &error), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    assert_no_step(b);
    lh_scheduler_destroy(a);
    lh_scheduler_destroy(b);
}

/* Two stages, the second one takes 1 ms a row, the ring 3 ms. */
static double finish_of(const lh_scheduler *s, uint32_t prompt_tokens, uint32_t max_tokens) {
    lh_sequence_request request = request_of(prompt_tokens, max_tokens);
    lh_sequence *sequence;
    double us;
    assert_int_equal(lh_sequence_create(&request, 7, 1000, &sequence, NULL), LH_OK);
    assert_true(lh_scheduler_expect_finish(s, sequence, &us));
    lh_sequence_destroy(sequence);
    return us;
}

static void the_finish_is_expected_from_costs_and_company(void **state) {
    (void)state;
    const lh_cost_chain chain = costs_of_chain();
    lh_scheduler *s = create_ready(64);
    lh_scheduler_set_costs(s, &chain);
    double ring_us = lh_cost_decode_step(&chain, 10, 1).ring_us;
    assert_true(finish_of(s, 10, 20) == 10 * 1000 + 20 * ring_us);
    lh_sequence_request request = request_of(30, 20);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_true(finish_of(s, 10, 20) == 40 * 1000 + 20 * ring_us); /* the other's prompt is first */
    for (uint64_t handle = 1; handle < 5; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    /* five are here, for four places: it waits for two of them, then draws beside three others */
    double turn_us = 20 * (ring_us > 4000 ? ring_us : 4000);
    assert_true(finish_of(s, 10, 20) == 160 * 1000 + 1.5 * turn_us);
    lh_scheduler_destroy(s);
}

/* The hop between the stages carries a row in 4 ms, the slower stage computes it in one. */
static void a_wire_that_is_the_bottleneck_counts(void **state) {
    (void)state;
    lh_cost_chain chain = costs_of_chain();
    chain.hops[1].row_bytes = 4000;
    chain.hops[1].bytes_per_us = 1;
    lh_scheduler *s = create_ready(64);
    lh_scheduler_set_costs(s, &chain);
    double ring_us = lh_cost_decode_step(&chain, 10, 1).ring_us;
    assert_true(ring_us > 6000 && ring_us < 8000);
    assert_true(finish_of(s, 10, 20) == 10 * 4000 + 20 * ring_us);
    lh_sequence_request request = request_of(30, 20);
    for (uint64_t handle = 0; handle < 3; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    /* it draws beside three others */
    assert_true(finish_of(s, 10, 20) == 100 * 4000 + 20 * 4 * 4000.0);
    lh_scheduler_destroy(s);
}

static void a_prefix_that_is_here_shortens_the_wait(void **state) {
    (void)state;
    const lh_cost_chain chain = costs_of_chain();
    lh_scheduler *s = create_sharing(64);
    lh_scheduler_set_costs(s, &chain);
    lh_sequence_request request = request_of(40, 20);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(next_step(s).rows, 40);
    double ring_us = lh_cost_decode_step(&chain, 40, 1).ring_us;
    /* two pages of 16 are the other's */
    assert_true(finish_of(s, 40, 20) == 8 * 1000 + 20 * ring_us);
    lh_scheduler_chain_down(s, 0);
    assert_true(finish_of(s, 40, 20) > 40 * 1000);
    lh_scheduler_destroy(s);
}

static void without_costs_the_sequences_are_counted(void **state) {
    (void)state;
    lh_scheduler *s = create_full();
    lh_sequence_request request = request_of(10, 20);
    lh_sequence *sequence;
    double count;
    assert_int_equal(lh_sequence_create(&request, 7, 1000, &sequence, NULL), LH_OK);
    assert_false(lh_scheduler_expect_finish(s, sequence, &count));
    assert_true(count == 6);
    lh_sequence_destroy(sequence);
    lh_scheduler_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_may_go_and_who_runs_stays),
        cmocka_unit_test(an_adopted_one_is_like_ones_own),
        cmocka_unit_test(one_that_is_too_long_for_the_other_stays),
        cmocka_unit_test(another_goes_for_one_that_cannot),
        cmocka_unit_test(it_rests_before_it_moves_again),
        cmocka_unit_test(without_memory_it_fails_where_it_came_to),
        cmocka_unit_test(the_finish_is_expected_from_costs_and_company),
        cmocka_unit_test(a_wire_that_is_the_bottleneck_counts),
        cmocka_unit_test(a_prefix_that_is_here_shortens_the_wait),
        cmocka_unit_test(without_costs_the_sequences_are_counted),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
