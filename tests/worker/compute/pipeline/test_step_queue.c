/* What waits for what, and whose turn it is, without threads: steps are put into states by hand. */
#include "worker/compute/pipeline/step_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 8 };

static lh_step_queue queue;
static lh_pipeline_step steps[STEPS];
static lh_step_segment segments[STEPS];
static uint32_t count;

static int set_up(void **state) {
    (void)state;
    lh_step_queue_init(&queue);
    queue.begun_max = 4;
    memset(steps, 0, sizeof steps);
    count = 0;
    return 0;
}

/* A step of one row. */
static lh_pipeline_step *add(bool decode, uint64_t sequence) {
    lh_pipeline_step *step = &steps[count];
    segments[count] = (lh_step_segment){.sequence = sequence, .rows = 1};
    step->decode = decode;
    step->batch = (lh_batch){.rows = 1, .segment_count = 1, .segments = &segments[count]};
    TAILQ_INSERT_TAIL(&queue.steps, step, links);
    count++;
    return step;
}

/* Any address does: the queue only asks whether there is one. */
static void begin(lh_pipeline_step *step) {
    step->stage_step = (lh_stage_step *)(void *)&steps;
}

static void end(lh_pipeline_step *step) {
    step->stage_step = NULL;
    step->ended = true;
}

static void steps_begin_in_order_within_a_class(void **state) {
    (void)state;
    lh_pipeline_step *first = add(false, 1), *second = add(false, 2), *decode = add(true, 3);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), first);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, true), decode);
    begin(first);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), second);
}

static void a_decode_step_waits_for_its_sequence(void **state) {
    (void)state;
    lh_pipeline_step *prefill = add(false, 1), *decode = add(true, 1);
    assert_null(lh_step_queue_next_to_begin(&queue, true));
    begin(prefill);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, true), decode);
}

/* Not for the begin alone, as a step of the same sequence does. */
static void a_fork_waits_for_the_end_of_what_writes_its_source(void **state) {
    (void)state;
    lh_pipeline_step *writes = add(false, 1), *forks = add(false, 2);
    segments[1].forks = true;
    segments[1].source = 1;
    segments[1].first_position = 64;
    begin(writes);
    assert_null(lh_step_queue_next_to_begin(&queue, false));
    segments[0].first_position = 64; /* beyond what is forked */
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), forks);
    segments[0].first_position = 0;
    end(writes);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), forks);
}

static void prefill_leaves_decode_a_buffer_but_gets_one_itself(void **state) {
    (void)state;
    queue.begun_max = 2;
    lh_pipeline_step *first = add(false, 1), *second = add(false, 2), *decode = add(true, 3);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), first);
    begin(first);
    assert_null(lh_step_queue_next_to_begin(&queue, false));
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, true), decode);
    end(first);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), second);
    begin(decode);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, false), second);
}

static void prefill_has_its_turn_after_four_decode_steps(void **state) {
    (void)state;
    queue.begun_max = 2;
    lh_pipeline_step *prefill = add(false, 1), *decode = add(true, 2);
    for (int i = 0; i < 4; i++) {
        assert_false(lh_step_queue_is_prefills_turn(&queue));
        lh_step_queue_count_overtakes(&queue, decode);
    }
    assert_true(lh_step_queue_is_prefills_turn(&queue));
    begin(decode);
    add(true, 3);
    assert_null(lh_step_queue_next_to_begin(&queue, true)); /* the last buffer is prefill's */
    end(decode);
    begin(prefill);
    assert_ptr_equal(lh_step_queue_next_to_begin(&queue, true), &steps[2]); /* it has one now */
    lh_step_queue_count_overtakes(&queue, prefill);
    assert_false(lh_step_queue_is_prefills_turn(&queue));
    end(prefill);
    lh_step_queue_count_overtakes(&queue, &steps[2]); /* overtakes nobody */
    assert_int_equal(queue.overtakes, 0);
}

static void shards_are_accepted_by_steps_that_have_begun(void **state) {
    (void)state;
    lh_message shard;
    lh_pipeline_step *first = add(false, 1), *second = add(false, 2);
    first->shards = second->shards = &shard;
    assert_null(lh_step_queue_next_to_accept(&queue, false));
    begin(second);
    assert_ptr_equal(lh_step_queue_next_to_accept(&queue, false), second);
    begin(first);
    assert_ptr_equal(lh_step_queue_next_to_accept(&queue, false), first);
    assert_null(lh_step_queue_next_to_accept(&queue, true));
}

/* Steps without rows are complete at once. */
static void steps_finish_in_order_within_a_class(void **state) {
    (void)state;
    lh_pipeline_step *first = add(false, 1), *second = add(false, 2), *decode = add(true, 1);
    second->batch.rows = decode->batch.rows = 0;
    assert_null(lh_step_queue_next_to_finish(&queue, false));
    assert_null(lh_step_queue_next_to_finish(&queue, true)); /* its sequence is the first's */
    segments[2].sequence = 3;
    assert_ptr_equal(lh_step_queue_next_to_finish(&queue, true), decode);
    end(first);
    assert_ptr_equal(lh_step_queue_next_to_finish(&queue, false), second);
}

static void a_sequence_is_in_use_until_earlier_steps_have_ended(void **state) {
    (void)state;
    lh_pipeline_step *first = add(false, 1), *forks = add(false, 2), *last = add(false, 3);
    segments[1].forks = true;
    segments[1].source = 7;
    assert_true(lh_step_queue_is_in_use_before(&queue, last, 1));
    assert_true(lh_step_queue_is_in_use_before(&queue, last, 7));
    assert_false(lh_step_queue_is_in_use_before(&queue, last, 3));
    assert_false(lh_step_queue_is_in_use_before(&queue, first, 1));
    end(first);
    assert_false(lh_step_queue_is_in_use_before(&queue, last, 1));
    end(forks);
    assert_false(lh_step_queue_is_in_use_before(&queue, last, 7));
}

/* Through each other too; what has not begun is left to the stage to refuse. */
static void doom_takes_later_steps_of_its_sequences_along(void **state) {
    (void)state;
    lh_pipeline_step *failed = add(false, 1), *other = add(false, 5), *both = add(false, 1);
    lh_pipeline_step *through = add(false, 2), *waits = add(false, 1);
    const lh_step_segment two[] = {{.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 1}};
    both->batch.segments = two;
    both->batch.segment_count = 2;
    begin(other);
    begin(both);
    begin(through);
    lh_fail(&failed->failure, LH_ERR_CANCELLED, "cancelled");
    lh_step_queue_doom(&queue, failed);
    assert_ptr_equal(lh_step_queue_take_doomed(&queue), through);
    assert_ptr_equal(lh_step_queue_take_doomed(&queue), both);
    assert_ptr_equal(lh_step_queue_take_doomed(&queue), failed);
    assert_null(lh_step_queue_take_doomed(&queue));
    assert_int_equal(through->failure.status, LH_ERR_INVALID);
    assert_non_null(strstr(through->failure.message, "cancelled"));
    assert_int_equal(other->failure.status, LH_OK);
    assert_int_equal(waits->failure.status, LH_OK);
}

static void only_what_is_through_with_everything_is_removed(void **state) {
    (void)state;
    lh_pipeline_step *step = add(false, 1);
    add(false, 2);
    step->forgotten = step->truncated = true;
    assert_null(lh_step_queue_remove_done(&queue));
    end(step);
    step->truncated = false;
    assert_null(lh_step_queue_remove_done(&queue));
    step->truncated = true;
    step->forgotten = false;
    assert_null(lh_step_queue_remove_done(&queue));
    step->forgotten = true;
    assert_ptr_equal(lh_step_queue_remove_done(&queue), step);
    assert_null(lh_step_queue_remove_done(&queue));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(steps_begin_in_order_within_a_class),
        TEST(a_decode_step_waits_for_its_sequence),
        TEST(a_fork_waits_for_the_end_of_what_writes_its_source),
        TEST(prefill_leaves_decode_a_buffer_but_gets_one_itself),
        TEST(prefill_has_its_turn_after_four_decode_steps),
        TEST(shards_are_accepted_by_steps_that_have_begun),
        TEST(steps_finish_in_order_within_a_class),
        TEST(a_sequence_is_in_use_until_earlier_steps_have_ended),
        TEST(doom_takes_later_steps_of_its_sequences_along),
        TEST(only_what_is_through_with_everything_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
