/* Steps as the recorder leaves them in the store: with the workers' times, with clocks that are
 * aligned, and without where an answer is broken or missing. */
#include "gateway/trace/step_recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SKEW 1000000 /* worker 1's clock is so far ahead, worker 2's twice */

typedef struct bench {
    lh_trace_store *store;
    lh_step_recorder *recorder;
    uint64_t trace;
} bench;

static bench open_bench(void) {
    bench b;
    assert_int_equal(lh_trace_store_create(4, 1 << 20, &b.store, NULL), LH_OK);
    assert_int_equal(lh_step_recorder_create(b.store, &b.recorder, NULL), LH_OK);
    b.trace = lh_trace_store_open(b.store, "cmpl-1", "req_1", 10);
    return b;
}

static void close_bench(bench *b) {
    lh_step_recorder_destroy(b->recorder);
    lh_trace_store_destroy(b->store);
}

static void submit(bench *b, uint32_t epoch, uint64_t step, int64_t now_us) {
    lh_step_manifest manifest = {.epoch = epoch, .step = step, .rows = 4, .timed = true};
    lh_trace_part part = {.trace = b->trace, .rows = 4, .draws = 1};
    lh_step_recorder_submit(b->recorder, &manifest, &part, 1, now_us - 5, now_us);
}

/* Two workers; each hop takes 100, each stage 1000; the answers take 100 for each hop. */
static size_t frames_of(int64_t submitted_us, uint8_t *frames, size_t capacity) {
    lh_step_times *times = calloc(1, sizeof *times);
    size_t length = 0, one = 0;
    for (uint32_t i = 0; i < 2; i++) {
        *times =
            (lh_step_times){.base_us = (uint64_t)(submitted_us + 100 + i * 1100 + SKEW * (i + 1)),
                            .submitted_us = 1000,
                            .passed_us = i == 0 ? 2400 : 1200,
                            .answered_us = i == 0 ? 2400 : 1200};
        snprintf(times->worker, sizeof times->worker, "w%u", i + 1);
        assert_int_equal(
            lh_step_times_encode(times, frames + length, capacity - length, &one, NULL), LH_OK);
        length += one;
    }
    free(times);
    return length;
}

static void test_a_whole_step(void **state) {
    (void)state;
    bench b = open_bench();
    uint8_t frames[512];
    static const double believed_us[LH_CLOCK_RING_MAX] = {700, 800};
    submit(&b, 3, 8, 5000);
    lh_step_recorder_believe(b.recorder, 3, 8, believed_us, 2);
    lh_step_recorder_believe(b.recorder, 3, 8, believed_us, LH_CLOCK_RING_MAX); /* no such ring */
    lh_step_recorder_believe(b.recorder, 3, 9, believed_us, 2);
    lh_step_recorder_results(b.recorder, 3, 9, 1); /* of another step */
    lh_step_recorder_results(b.recorder, 3, 8, 7300);
    lh_step_recorder_results(b.recorder, 3, 8, 7400); /* doubled */
    assert_false(lh_trace_store_is_settled(b.store, b.trace));
    lh_step_recorder_times(b.recorder, 3, 8, frames, frames_of(5000, frames, sizeof frames));
    lh_step_recorder_done(b.recorder, 3, 8, LH_OK, 7600);
    lh_step_recorder_done(b.recorder, 3, 8, LH_OK, 7600); /* known no more */
    assert_true(lh_trace_store_is_settled(b.store, b.trace));
    lh_trace *trace = lh_trace_store_get(b.store, b.trace);
    assert_int_equal(trace->entry_count, 1);
    assert_int_equal(trace->first_token_us, 7300);
    const lh_trace_step *step = trace->entries[0].step;
    assert_int_equal(step->formed_us, 4995);
    assert_int_equal(step->submitted_us, 5000);
    assert_int_equal(step->results_us, 7300);
    assert_int_equal(step->answered_us, 7600);
    assert_int_equal(step->hop_count, 3);
    assert_int_equal(step->believed_count, 2);
    assert_true(step->believed_us[0] == 700 && step->believed_us[1] == 800);
    for (uint32_t i = 0; i < 3; i++) {
        int64_t truth = i < 2 ? SKEW : -2 * SKEW;
        assert_true(step->hops[i].lowest_us <= truth && truth <= step->hops[i].highest_us);
        assert_true(step->hops[i].highest_us - step->hops[i].lowest_us <= 250);
    }
    lh_trace_destroy(trace);
    close_bench(&b);
}

static void test_answers_without_times(void **state) {
    (void)state;
    bench b = open_bench();
    uint8_t frames[512];
    size_t length = frames_of(5000, frames, sizeof frames);
    submit(&b, 3, 1, 5000); /* nothing came */
    lh_step_recorder_done(b.recorder, 3, 1, LH_ERR_UNAVAILABLE, 6000);
    submit(&b, 3, 2, 5000);
    lh_step_recorder_times(b.recorder, 3, 2, (const uint8_t *)"{}", 2);
    lh_step_recorder_done(b.recorder, 3, 2, LH_OK, 6000);
    submit(&b, 3, 3, 5000);
    lh_step_recorder_results(b.recorder, 3, 3, 7300);
    lh_step_recorder_times(b.recorder, 3, 3, frames, length);
    lh_step_recorder_done(b.recorder, 3, 3, LH_OK, 7600);
    submit(&b, 3, 4, 5000); /* the second worker's frame is broken: the ring is not closed */
    frames[length - 1] ^= 1;
    lh_step_recorder_times(b.recorder, 3, 4, frames, length);
    lh_step_recorder_done(b.recorder, 3, 4, LH_OK, 7600);
    submit(&b, 4, 1, 9000); /* still open when the recorder goes */
    lh_trace *trace = lh_trace_store_get(b.store, b.trace);
    static const uint32_t hops[] = {0, 0, 3, 0};
    assert_int_equal(trace->entry_count, 4);
    assert_int_equal(trace->open_steps, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(trace->entries[i].step->hop_count, hops[i]);
    assert_int_equal(trace->entries[0].step->status, LH_ERR_UNAVAILABLE);
    lh_trace_destroy(trace);
    close_bench(&b);
}

/* What the gateway sees of the ring's end is no time of the first worker's link to the second. */
static void test_a_first_step_that_was_cut_leaves_no_trace_in_the_clocks(void **state) {
    (void)state;
    bench b = open_bench();
    uint8_t frames[512];
    for (uint64_t number = 1; number <= 2; number++) {
        int64_t at_us = 5000 * (int64_t)number;
        submit(&b, 3, number, at_us);
        size_t length = frames_of(at_us, frames, sizeof frames);
        if (number == 1) /* the second worker's frame is broken */
            frames[length - 1] ^= 1;
        lh_step_recorder_results(b.recorder, 3, number, at_us + 2300);
        lh_step_recorder_times(b.recorder, 3, number, frames, length);
        lh_step_recorder_done(b.recorder, 3, number, LH_OK, at_us + 2600);
    }
    lh_trace *trace = lh_trace_store_get(b.store, b.trace);
    const lh_trace_step *step = trace->entries[1].step;
    assert_int_equal(step->hop_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        int64_t truth = i < 2 ? SKEW : -2 * SKEW;
        assert_true(step->hops[i].lowest_us <= truth && truth <= step->hops[i].highest_us);
    }
    lh_trace_destroy(trace);
    close_bench(&b);
}

/* In the next epoch the workers may be others, so their clocks are not known any more. */
static void test_clocks_are_of_an_epoch(void **state) {
    (void)state;
    bench b = open_bench();
    uint8_t frames[512];
    for (uint32_t epoch = 1; epoch <= 2; epoch++) {
        int64_t at_us = 5000 * epoch;
        submit(&b, epoch, 1, at_us);
        size_t length = frames_of(at_us, frames, sizeof frames);
        if (epoch == 2) { /* only one worker, with the second one's clock */
            lh_step_times *times = calloc(1, sizeof *times);
            *times = (lh_step_times){
                .worker = "w2", .base_us = (uint64_t)at_us + 2 * SKEW + 100, .answered_us = 50};
            assert_int_equal(lh_step_times_encode(times, frames, sizeof frames, &length, NULL),
                             LH_OK);
            free(times);
        }
        lh_step_recorder_times(b.recorder, epoch, 1, frames, length);
        lh_step_recorder_done(b.recorder, epoch, 1, LH_OK, at_us + (epoch == 2 ? 250 : 2600));
    }
    lh_trace *trace = lh_trace_store_get(b.store, b.trace);
    const lh_trace_step *second = trace->entries[1].step;
    assert_int_equal(second->hop_count, 2);
    assert_int_equal(second->hops[0].lowest_us, 2 * SKEW - 100);
    assert_int_equal(second->hops[0].highest_us, 2 * SKEW + 100);
    lh_trace_destroy(trace);
    close_bench(&b);
}

static void run_step(bench *b, lh_step_recorder *recorder, uint32_t epoch, uint64_t number,
                     bool has_results) {
    uint8_t frames[512];
    int64_t at_us = 5000 * (int64_t)number;
    bench chain = {.store = b->store, .recorder = recorder, .trace = b->trace};
    submit(&chain, epoch, number, at_us);
    if (has_results)
        lh_step_recorder_results(recorder, epoch, number, at_us + 2300);
    lh_step_recorder_times(recorder, epoch, number, frames,
                           frames_of(at_us, frames, sizeof frames));
    lh_step_recorder_done(recorder, epoch, number, LH_OK, at_us + 2600);
}

/* Each chain has epochs of its own: the steps of another one do not make it forget its clocks. */
static void test_two_chains_do_not_disturb_each_others_clocks(void **state) {
    (void)state;
    bench b = open_bench();
    lh_step_recorder *other;
    assert_int_equal(lh_step_recorder_create(b.store, &other, NULL), LH_OK);
    run_step(&b, b.recorder, 3, 1, true);
    run_step(&b, other, 7, 2, true);
    run_step(&b, b.recorder, 3, 3, false); /* of whose way home nothing is seen */
    lh_trace *trace = lh_trace_store_get(b.store, b.trace);
    const lh_clock_bounds *home = &trace->entries[2].step->hops[2];
    assert_true(home->lowest_us <= -2 * SKEW && -2 * SKEW <= home->highest_us);
    assert_true(home->highest_us - home->lowest_us <= 300);
    lh_trace_destroy(trace);
    lh_step_recorder_destroy(other);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_step),
        cmocka_unit_test(test_answers_without_times),
        cmocka_unit_test(test_a_first_step_that_was_cut_leaves_no_trace_in_the_clocks),
        cmocka_unit_test(test_two_chains_do_not_disturb_each_others_clocks),
        cmocka_unit_test(test_clocks_are_of_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
