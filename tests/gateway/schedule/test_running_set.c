/* The lists of those that run, and who is last in line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/running_set.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>

enum { LENGTH = 10, SEQUENCES = 8, SECOND_US = 1000000 };

static lh_kv_store *store;
static lh_wait_queue queue;
static lh_running_set set;
static lh_sequence *there[SEQUENCES];

static int set_up(void **state) {
    (void)state;
    const lh_kv_store_options options = {.cached_max = 10};
    const lh_kv_ledger chain = {.stage_count = 1, .stages = {{16, 100}}};
    assert_int_equal(lh_kv_store_create(&options, &store, NULL), LH_OK);
    lh_kv_store_reset(store, &chain);
    queue = (lh_wait_queue){0};
    assert_int_equal(lh_share_table_create(SEQUENCES, 100, NULL, &queue.shares, NULL), LH_OK);
    set = (lh_running_set){.queue = &queue};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_running_set_reset(&set);
    lh_wait_queue_reset(&queue);
    lh_share_table_destroy(queue.shares);
    lh_kv_store_destroy(store);
    return 0;
}

/* A sequence comes that may grow to so many positions. */
static lh_sequence *come(uint64_t id, uint64_t tenant, int32_t priority, uint32_t positions) {
    static const uint32_t prompt[LENGTH];
    const lh_sequence_request request = {.prompt = prompt,
                                         .prompt_tokens = LENGTH,
                                         .max_tokens = positions - LENGTH,
                                         .tenant = tenant,
                                         .priority = priority,
                                         .sampling = {.repetition_penalty = 1}};
    lh_sequence *sequence;
    assert_int_equal(lh_sequence_create(&request, id, 1000, &sequence, NULL), LH_OK);
    sequence->schedule.id = id;
    assert_int_equal(lh_wait_queue_push(&queue, sequence, 0), LH_OK);
    return sequence;
}

static lh_sequence *run(uint64_t id, uint64_t tenant, int32_t priority) {
    lh_sequence *sequence = come(id, tenant, priority, 20);
    assert_true(lh_sequence_kv_begin(&sequence->kv, store, id, (lh_prefix_scope){tenant, 0},
                                     sequence->history, LENGTH, true, 0));
    lh_running_set_enter(&set, sequence, LH_SEQUENCE_PREFILL);
    return sequence;
}

/* All of its history is sent. */
static void sample(lh_sequence *sequence) {
    lh_block_table *source = lh_sequence_kv_send(&sequence->kv, store, sequence->history,
                                                 lh_sequence_pending(sequence), LH_STEP_PREFILL);
    lh_kv_store_pass(sequence->kv.table, source, sequence->kv.computed, LH_STEP_PREFILL);
    lh_kv_store_land(sequence->kv.table, source, true, LH_STEP_PREFILL);
    lh_running_set_sample(&set, sequence, LH_STEP_PREFILL);
}

static void be_ready(lh_sequence *sequence) {
    sample(sequence);
    lh_sequence_append(sequence, 5);
    lh_running_set_move(&set, sequence, LH_SEQUENCE_READY);
}

static void each_is_in_the_list_of_its_state(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        there[i] = run(i + 1, 0, 0);
    sample(there[1]);
    be_ready(there[2]);
    be_ready(there[3]);
    lh_running_set_move(&set, there[3], LH_SEQUENCE_STALLED);
    assert_int_equal(lh_running_set_count(&set), 4);
    assert_int_equal(lh_running_set_decoding(&set), 2);
    const lh_sequence_state states[] = {LH_SEQUENCE_PREFILL, LH_SEQUENCE_SAMPLING,
                                        LH_SEQUENCE_READY, LH_SEQUENCE_STALLED};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(there[i]->schedule.state, states[i]);
        assert_ptr_equal(set.lists[states[i]].first, there[i]);
        assert_int_equal(set.lists[states[i]].count, 1);
    }
    const int walk[] = {0, 2, 1, 3};
    lh_sequence *at = NULL;
    for (int i = 0; i < 4; i++) {
        at = lh_running_set_next(&set, at);
        assert_ptr_equal(at, there[walk[i]]);
    }
    assert_null(lh_running_set_next(&set, at));
}

static void who_is_put_back_waits_and_who_ends_is_gone(void **state) {
    (void)state;
    there[0] = run(1, 0, 0);
    there[1] = run(2, 0, 0);
    there[0]->schedule.has_plan = true;
    lh_sequence_kv_leave(&there[0]->kv, store);
    lh_running_set_put_back(&set, there[0]);
    assert_int_equal(there[0]->schedule.state, LH_SEQUENCE_WAITING);
    assert_false(there[0]->schedule.has_plan);
    assert_int_equal(queue.all.count, 1);
    lh_running_set_end(&set, there[1]);
    assert_null(there[1]->schedule.share);
    lh_sequence_destroy(there[1]);
    assert_int_equal(lh_running_set_count(&set), 0);
    assert_null(lh_running_set_last_in_line(&set));
    assert_null(lh_running_set_next(&set, NULL));
}

/* The fewest places first; then priority, then arrival. */
static void the_line_is_by_places_then_priority_then_arrival(void **state) {
    (void)state;
    there[0] = run(1, 7, 0);
    there[1] = run(2, 8, 5);
    there[2] = run(3, 8, 0);
    there[3] = run(4, 8, 0);
    assert_ptr_equal(lh_running_set_last_in_line(&set), there[1]);
    lh_running_set_end(&set, there[1]);
    lh_sequence_destroy(there[1]);
    assert_ptr_equal(lh_running_set_last_in_line(&set), there[3]);
    assert_null(lh_running_set_first_stalled(&set));
    for (int i = 2; i < 4; i++) {
        be_ready(there[i]);
        lh_running_set_move(&set, there[i], LH_SEQUENCE_STALLED);
    }
    assert_ptr_equal(lh_running_set_first_stalled(&set), there[2]);
    there[4] = run(5, 8, -1); /* the last to stall, but before them in line */
    be_ready(there[4]);
    lh_running_set_move(&set, there[4], LH_SEQUENCE_STALLED);
    assert_ptr_equal(lh_running_set_first_stalled(&set), there[4]);
}

/* All but its first may go; the blocks of all but the first may be had. */
static void the_candidate_is_of_who_has_most(void **state) {
    (void)state;
    there[0] = run(1, 7, 0);
    assert_null(lh_running_set_preemption_candidate(&set, 0).sequence);
    assert_int_equal(lh_running_set_preemption_candidate(&set, 0).blocks, 0);
    for (uint64_t i = 1; i < 4; i++)
        there[i] = run(i + 1, 8, 0);
    lh_preemption_candidate candidate = lh_running_set_preemption_candidate(&set, 0);
    assert_ptr_equal(candidate.sequence, there[3]);
    assert_int_equal(candidate.blocks, 2);
}

static void who_was_preempted_stays_for_a_while(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        there[i] = run(i + 1, 8, 0);
    there[2]->schedule.preemptions = 1;
    there[2]->schedule.admitted_us = SECOND_US;
    assert_ptr_equal(lh_running_set_preemption_candidate(&set, 2 * SECOND_US).sequence, there[1]);
    assert_ptr_equal(lh_running_set_preemption_candidate(&set, 6 * SECOND_US - 1).sequence,
                     there[1]);
    assert_ptr_equal(lh_running_set_preemption_candidate(&set, 6 * SECOND_US).sequence, there[2]);
}

static void who_may_still_grow_is_counted(void **state) {
    (void)state;
    there[0] = run(1, 0, 0); /* to 20 positions: one block more */
    assert_int_equal(lh_running_set_growing(&set, lh_kv_store_ledger(store)), 1);
    lh_sequence *short_one = come(2, 0, 0, 16);
    assert_true(lh_sequence_kv_begin(&short_one->kv, store, 2, (lh_prefix_scope){0, 0},
                                     short_one->history, LENGTH, true, 0));
    lh_running_set_enter(&set, short_one, LH_SEQUENCE_PREFILL);
    assert_int_equal(lh_running_set_growing(&set, lh_kv_store_ledger(store)), 1);
    assert_true(lh_kv_store_grow(store, there[0]->kv.table, 17));
    assert_int_equal(lh_running_set_growing(&set, lh_kv_store_ledger(store)), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_in_the_list_of_its_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_put_back_waits_and_who_ends_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_line_is_by_places_then_priority_then_arrival, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_candidate_is_of_who_has_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_was_preempted_stays_for_a_while, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_may_still_grow_is_counted, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
