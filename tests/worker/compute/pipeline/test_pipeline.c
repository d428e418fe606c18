/* The pipeline's order of work, failures and truncations, on a scripted stage; two real threads. */
#include "tests/worker/support/scripted_stage.h"
#include "worker/compute/pipeline/pipeline.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The I/O thread's side ---- */

typedef struct bench {
    lh_pipeline *pipeline;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool wake;
    char ends[1024]; /* "1 LH_OK, " */
    uint32_t tokens[64];
    size_t consumed_bytes, dropped_bytes, frame_bytes;
    int removed, ended;
    bool begins_when_removed;
    char work[256]; /* "1b 1a 1e 1f ": whose and what, as it was told */
} bench;

static void wake(void *context) {
    bench *b = context;
    pthread_mutex_lock(&b->lock);
    b->wake = true;
    pthread_cond_signal(&b->woken);
    pthread_mutex_unlock(&b->lock);
}

static void on_consumed(void *context, void *step_context, size_t bytes) {
    bench *b = context;
    b->consumed_bytes += step_context != NULL ? bytes : 0;
    b->dropped_bytes += !step_context ? bytes : 0;
}

static void on_frame(void *context, void *step_context, void *bytes, size_t length) {
    bench *b = context;
    (void)step_context;
    b->frame_bytes += length;
    free(bytes);
}

static void on_ended(void *context, void *step_context, lh_status status, const char *message,
                     const lh_step_result *results, uint32_t result_count) {
    bench *b = context;
    size_t length = strlen(b->ends);
    uint32_t name = (uint32_t)(uintptr_t)step_context;
    snprintf(b->ends + length, sizeof(b->ends) - length, "%u %s, ", name, lh_status_name(status));
    assert_true(status == LH_OK || message[0] != '\0');
    for (uint32_t i = 0; i < result_count; i++) {
        b->tokens[name] = results[i].answer.token;
        assert_int_equal(results[i].position, 1);
    }
    b->ended++;
}

/* By its name. */
static bool is_timed(uint32_t name) {
    return name % 2 == 1;
}

static void on_worked(void *context, void *step_context, const lh_pipeline_span *span) {
    bench *b = context;
    size_t length = strlen(b->work);
    const bool tells_gathers =
        is_timed((uint32_t)(uintptr_t)step_context) && span->work == LH_PIPELINE_FINISH;
    assert_true(span->begin_us > 0 && span->begin_us <= span->end_us);
    assert_int_equal(span->gather_count, tells_gathers ? 2 : 0);
    if (tells_gathers)
        assert_int_equal(span->gathers[1].bytes, 20);
    snprintf(b->work + length, sizeof(b->work) - length, "%u%c ", (uint32_t)(uintptr_t)step_context,
             "baef"[span->work]);
}

static lh_status encode(lh_wire_type wire, const lh_stage_shard *shard, void **bytes,
                        size_t *length, lh_error *error) {
    assert_int_equal(wire, LH_WIRE_Q8);
    *length = shard->columns;
    *bytes = malloc(*length);
    return *bytes ? LH_OK : lh_fail(error, LH_ERR_NO_MEMORY, "encode: out of memory");
}

static void on_removed(void *context);

/* state: how many steps the stage takes at once; then the bench. */
static int open_bench(void **state) {
    static bench opened;
    bench *b = &opened;
    uint32_t steps_max = (uint32_t)(uintptr_t)*state;
    memset(b, 0, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->woken, NULL);
    scripted_stage_reset();
    lh_pipeline_options options = {
        .inbox_bytes = 1000,
        .outbox_bytes = 100,
        .encode = encode,
        .wake = wake,
        .events = {on_consumed, on_frame, on_ended, on_removed, on_worked},
        .context = b};
    assert_int_equal(lh_pipeline_create(&options, &b->pipeline, NULL), LH_OK);
    assert_int_equal(lh_pipeline_install(b->pipeline, scripted_stage_make(), steps_max, NULL),
                     LH_OK);
    *state = b;
    return 0;
}

static int close_bench(void **state) {
    bench *b = *state;
    lh_pipeline_destroy(b->pipeline);
    pthread_cond_destroy(&b->woken);
    pthread_mutex_destroy(&b->lock);
    return 0;
}

static void wait_for(bench *b, const int *counter, int value) {
    while (lh_pipeline_poll(b->pipeline), *counter < value) {
        pthread_mutex_lock(&b->lock);
        while (!b->wake)
            pthread_cond_wait(&b->woken, &b->lock);
        b->wake = false;
        pthread_mutex_unlock(&b->lock);
    }
}

/* One row of each sequence, the step's name as the token. */
static lh_pipeline_step *begin_segment(bench *b, uint32_t name, bool decode,
                                       lh_step_segment segment, lh_step_truncation truncation) {
    uint64_t sequence = segment.sequence;
    lh_pipeline_begin_options options = {.batch = {.rows = sequence != 0,
                                                   .tokens = &name,
                                                   .segment_count = sequence != 0,
                                                   .segments = &segment},
                                         .decode = decode,
                                         .timed = is_timed(name),
                                         .wire = LH_WIRE_Q8,
                                         .truncation_count = truncation.sequence != 0,
                                         .truncations = &truncation,
                                         .step_context = (void *)(uintptr_t)name};
    lh_pipeline_step *step = NULL;
    assert_int_equal(lh_pipeline_begin(b->pipeline, &options, &step, NULL), LH_OK);
    return step;
}

static lh_pipeline_step *begin(bench *b, uint32_t name, bool decode, uint64_t sequence,
                               uint64_t freed) {
    return begin_segment(b, name, decode,
                         (lh_step_segment){.sequence = sequence, .rows = 1, .ask.draws = true},
                         (lh_step_truncation){.sequence = freed});
}

/* A step of a new sequence that shares a page with another one. */
static lh_pipeline_step *begin_fork(bench *b, uint32_t name, uint64_t sequence, uint64_t source) {
    return begin_segment(
        b, name, false,
        (lh_step_segment){
            .sequence = sequence, .first_position = 64, .rows = 1, .forks = true, .source = source},
        (lh_step_truncation){0});
}

static void on_removed(void *context) {
    bench *b = context;
    size_t length = strlen(b->ends);
    snprintf(b->ends + length, sizeof(b->ends) - length, "removed, ");
    b->removed++;
    if (b->begins_when_removed) {
        assert_int_equal(lh_pipeline_install(b->pipeline, scripted_stage_make(), 4, NULL), LH_OK);
        begin(b, 9, false, 1, 0);
    }
}

static void shard(lh_pipeline_step *step) {
    float values[32] = {0};
    lh_stage_shard one = {.rows = 1, .columns = 32, .values = values};
    assert_int_equal(lh_pipeline_accept(step, &one, NULL), LH_OK);
}

/* Whether `parts` stand in the log in this order. */
static bool log_has_in_order(const char *const *parts) {
    const char *at = scripted_stage_log();
    for (; *parts; parts++) {
        at = strstr(at, *parts);
        if (!at) {
            fprintf(stderr, "no '%s' in place in: %s\n", *parts, scripted_stage_log());
            return false;
        }
    }
    return true;
}

#define IN_ORDER(...) log_has_in_order((const char *const[]){__VA_ARGS__, NULL})

/* ---- Tests ---- */

/* The caller's may be gone as soon as the step has begun. */
static void test_a_step_has_its_own_copy_of_what_it_samples_with(void **state) {
    bench *b = *state;
    lh_token_bias biases[] = {{77, 1}, {78, 1}};
    lh_step_segment segment = {.sequence = 11, .rows = 1, .ask.draws = true};
    segment.ask.sampling = (lh_sampling){.biases = biases, .bias_count = 2};
    scripted_stage_hold(true);
    begin_segment(b, 1, false, segment, (lh_step_truncation){0});
    biases[0].token = 5;
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 1);
    assert_int_equal(b->tokens[1], 77);
}

static void test_decode_goes_first(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    begin(b, 1, false, 11, 0);
    scripted_stage_wait_held();
    begin(b, 2, false, 12, 0);
    begin(b, 3, true, 13, 0);
    begin(b, 4, true, 14, 0);
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 4);
    assert_string_equal(b->ends, "1 LH_OK, 3 LH_OK, 4 LH_OK, 2 LH_OK, ");
    assert_int_equal(b->tokens[3], 1003);
    assert_string_equal(b->work, "1b 1f 3b 3f 4b 4f 2b 2f ");
}

/* Decode steps that never end do not keep a prompt out. */
static void test_prefill_has_its_turn(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    begin(b, 1, true, 11, 0);
    scripted_stage_wait_held();
    begin(b, 2, false, 12, 0);
    begin(b, 3, false, 13, 0);
    for (uint32_t i = 4; i < 13; i++)
        begin(b, i, true, 10 + i, 0);
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 12);
    assert_true(IN_ORDER("finish 7", "finish 2", "finish 8"));
    assert_true(IN_ORDER("finish 11", "finish 3", "finish 12"));
}

/* The next stage waits for it. */
static void test_what_is_complete_goes_before_what_came_later(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    scripted_stage_hold(true);
    shard(begin(b, 1, false, 11, 0));
    scripted_stage_wait_held();
    shard(begin(b, 2, false, 12, 0));
    shard(begin(b, 3, false, 13, 0));
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 3);
    assert_true(IN_ORDER("finish 1", "accept 2", "finish 2", "accept 3", "finish 3"));
}

static void test_steps_of_one_sequence_keep_their_order(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    begin(b, 1, false, 11, 0);
    scripted_stage_wait_held();
    begin(b, 2, false, 12, 0);
    begin(b, 3, true, 12, 0);
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 3);
    assert_string_equal(b->ends, "1 LH_OK, 2 LH_OK, 3 LH_OK, ");
    assert_true(IN_ORDER("begin 2", "begin 3"));
}

static void test_missing_shards_hold_up_nobody_else(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(2);
    lh_pipeline_step *first = begin(b, 1, false, 11, 0);
    shard(first);
    lh_pipeline_step *second = begin(b, 2, true, 12, 0);
    shard(second);
    shard(second);
    wait_for(b, &b->ended, 1);
    assert_string_equal(b->ends, "2 LH_OK, ");
    shard(first);
    wait_for(b, &b->ended, 2);
    assert_int_equal(b->consumed_bytes, 4 * 32 * sizeof(float));
    assert_non_null(strstr(b->work, "2a 2b 2f "));
    assert_string_equal(b->work + strlen(b->work) - 9, "1a 1b 1f ");
    assert_false(lh_pipeline_is_full(b->pipeline));
}

static void test_inbox_says_when_it_is_full(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    begin(b, 1, false, 11, 0);
    scripted_stage_wait_held();
    scripted_stage_need_shards(10);
    lh_pipeline_step *step = begin(b, 2, true, 12, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(lh_pipeline_is_full(b->pipeline), i >= 8); /* 8 * 128 bytes > 1000 */
        shard(step);
    }
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 2);
    assert_false(lh_pipeline_is_full(b->pipeline));
}

static void test_full_outbox_stops_prefill_alone(void **state) {
    bench *b = *state;
    scripted_stage_emit(4); /* 128 bytes: over the bound of 100 */
    begin(b, 1, false, 11, 0);
    wait_for(b, &b->ended, 1);
    begin(b, 2, false, 12, 0);
    begin(b, 3, true, 13, 0);
    wait_for(b, &b->ended, 2);
    assert_string_equal(b->ends, "1 LH_OK, 3 LH_OK, ");
    assert_null(strstr(scripted_stage_log(), "finish 2"));
    lh_pipeline_frame_gone(b->pipeline, 256);
    wait_for(b, &b->ended, 3);
    assert_int_equal(b->frame_bytes, 3 * 128);
    lh_pipeline_frame_gone(b->pipeline, 128);
}

static void test_shards_leave_while_the_next_are_computed(void **state) {
    bench *b = *state;
    scripted_stage_emit(4);
    scripted_stage_hold_after_first_shard(true);
    begin(b, 1, false, 11, 0);
    while (b->frame_bytes == 0)
        lh_pipeline_poll(b->pipeline);
    /* the first is here; the stage is at work on the second */
    assert_int_equal(b->frame_bytes, 32);
    assert_int_equal(b->ended, 0);
    scripted_stage_hold_after_first_shard(false);
    wait_for(b, &b->ended, 1);
    assert_int_equal(b->frame_bytes, 4 * 32);
    lh_pipeline_frame_gone(b->pipeline, b->frame_bytes);
}

static void test_a_failure_takes_later_steps_of_its_sequences_along(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    scripted_stage_fail("finish", 1, LH_ERR_INTERNAL);
    scripted_stage_need_shards(1);
    lh_pipeline_step *first = begin(b, 1, false, 11, 0);
    begin(b, 2, false, 11, 0);
    begin(b, 3, false, 12, 0);
    begin(b, 4, false, 11, 0);
    shard(first);
    scripted_stage_wait_held();
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 3);
    assert_string_equal(b->ends, "4 LH_ERR_INVALID, 2 LH_ERR_INVALID, 1 LH_ERR_INTERNAL, ");
    assert_true(IN_ORDER("finish 1", "end 4", "end 2", "end 1"));
    assert_null(strstr(scripted_stage_log(), "end 3"));
}

static void test_a_step_that_cannot_begin_fails_alone(void **state) {
    bench *b = *state;
    scripted_stage_fail("begin", 1, LH_ERR_BUSY);
    begin(b, 1, false, 11, 0);
    begin(b, 2, false, 12, 0);
    wait_for(b, &b->ended, 2);
    assert_string_equal(b->ends, "1 LH_ERR_BUSY, 2 LH_OK, ");
}

static void test_a_shard_that_is_refused_fails_the_step(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(2);
    scripted_stage_fail("accept", 1, LH_ERR_INVALID);
    lh_pipeline_step *step = begin(b, 1, false, 11, 0);
    shard(step);
    shard(step);
    wait_for(b, &b->ended, 1);
    assert_string_equal(b->ends, "1 LH_ERR_INVALID, ");
}

static void test_cancel_while_waiting_and_while_working(void **state) {
    bench *b = *state;
    scripted_stage_hold(true);
    lh_pipeline_step *first = begin(b, 1, false, 11, 0);
    scripted_stage_wait_held();
    lh_pipeline_step *second = begin(b, 2, false, 12, 0);
    lh_pipeline_cancel(first);
    lh_pipeline_cancel(second);
    shard(second); /* comes late: dropped, but counted */
    scripted_stage_hold(false);
    wait_for(b, &b->ended, 2);
    assert_string_equal(b->ends, "1 LH_ERR_CANCELLED, 2 LH_ERR_CANCELLED, ");
    assert_null(strstr(scripted_stage_log(), "finish 2"));
    begin(b, 3, true, 13, 0);
    wait_for(b, &b->ended, 3);
    assert_int_equal(b->consumed_bytes + b->dropped_bytes, 128);
}

static void test_shards_after_the_end_are_counted_and_dropped(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    scripted_stage_fail("begin", 1, LH_ERR_BUSY);
    lh_pipeline_step *step = begin(b, 1, false, 11, 0);
    while (!strstr(scripted_stage_log(), "begin 1")) {
    }
    shard(step); /* the end is not polled yet */
    shard(step);
    begin(b, 2, true, 12, 0);
    wait_for(b, &b->ended, 1);
    lh_pipeline_step *third = begin(b, 3, true, 13, 0);
    (void)third;
    while (b->consumed_bytes + b->dropped_bytes < 256)
        lh_pipeline_poll(b->pipeline);
}

static void test_release_waits_for_earlier_steps(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    lh_pipeline_step *slow = begin(b, 1, false, 11, 0);
    begin(b, 2, true, 0, 11); /* overtakes, but sequence 11 is still at work */
    begin(b, 3, true, 0, 12);
    wait_for(b, &b->ended, 2);
    shard(slow);
    wait_for(b, &b->ended, 3);
    begin(b, 4, true, 0, 13);
    wait_for(b, &b->ended, 4);
    while (!strstr(scripted_stage_log(), "free 13")) {
    }
    assert_true(IN_ORDER("free 12", "finish 1", "end 1", "free 11"));
}

/* It begins when what it takes is written; the source's later rows do not wait for it. */
static void test_a_fork_waits_for_what_it_takes(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    lh_pipeline_step *first = begin(b, 1, false, 11, 0);
    lh_pipeline_step *fork = begin_fork(b, 2, 12, 11);
    lh_pipeline_step *own = begin_segment(
        b, 3, true, (lh_step_segment){.sequence = 11, .first_position = 64, .rows = 1},
        (lh_step_truncation){0});
    shard(fork);
    shard(first);
    wait_for(b, &b->ended, 1);
    shard(own);
    wait_for(b, &b->ended, 3);
    assert_true(IN_ORDER("begin 1", "end 1", "begin 2", "finish 2"));
    assert_true(IN_ORDER("begin 3", "begin 2"));
}

static void test_a_truncation_waits_for_forks(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    lh_pipeline_step *fork = begin_fork(b, 1, 12, 11);
    begin_segment(b, 2, false, (lh_step_segment){0}, (lh_step_truncation){11, 128});
    begin(b, 3, true, 0, 13);
    wait_for(b, &b->ended, 1);
    shard(fork);
    wait_for(b, &b->ended, 3);
    while (!strstr(scripted_stage_log(), "truncate 11 to 128")) {
    }
    assert_true(IN_ORDER("free 13", "end 1", "truncate 11 to 128"));
}

static void test_releases_of_a_failed_step_are_done(void **state) {
    bench *b = *state;
    scripted_stage_fail("begin", 1, LH_ERR_BUSY);
    begin(b, 1, false, 11, 12);
    wait_for(b, &b->ended, 1);
    while (!strstr(scripted_stage_log(), "free 12")) {
    }
}

static void test_prefill_leaves_a_buffer_to_decode(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    begin(b, 1, false, 11, 0);
    begin(b, 2, false, 12, 0);
    lh_pipeline_step *step = begin(b, 3, true, 13, 0);
    shard(step);
    wait_for(b, &b->ended, 1);
    assert_string_equal(b->ends, "3 LH_OK, ");
    assert_null(strstr(scripted_stage_log(), "begin 2"));
}

static void test_reset_and_removal_end_all(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    begin(b, 1, false, 11, 0);
    begin(b, 2, false, 11, 0);
    assert_int_equal(lh_pipeline_reset(b->pipeline, false, NULL), LH_OK);
    wait_for(b, &b->ended, 2);
    assert_string_equal(b->ends, "2 LH_ERR_STALE, 1 LH_ERR_STALE, ");
    begin(b, 3, false, 11, 0);
    assert_int_equal(lh_pipeline_remove(b->pipeline, NULL), LH_OK);
    wait_for(b, &b->removed, 1);
    assert_int_equal(b->ended, 3);
    assert_true(IN_ORDER("reset", "destroy"));
    begin(b, 4, true, 11, 0);
    wait_for(b, &b->ended, 4);
    assert_non_null(strstr(b->ends, "4 LH_ERR_UNAVAILABLE"));
    assert_int_equal(lh_pipeline_install(b->pipeline, scripted_stage_make(), 4, NULL), LH_OK);
    scripted_stage_need_shards(0);
    begin(b, 5, true, 11, 0);
    wait_for(b, &b->ended, 5);
    assert_non_null(strstr(b->ends, "5 LH_OK"));
}

static void test_destroy_with_work_in_hand(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(2);
    scripted_stage_emit(3);
    for (uint32_t i = 1; i < 20; i++) {
        lh_pipeline_step *step = begin(b, i, i % 3 == 0, i, i);
        shard(step);
        shard(step);
    }
}

static void test_removal_comes_in_its_turn(void **state) {
    bench *b = *state;
    b->begins_when_removed = true;
    begin(b, 1, false, 1, 0);
    assert_int_equal(lh_pipeline_remove(b->pipeline, NULL), LH_OK);
    begin(b, 2, false, 1, 0);
    wait_for(b, &b->ended, 3);
    assert_non_null(strstr(b->ends, "removed, 2 LH_ERR_UNAVAILABLE, 9 LH_OK, "));
    assert_int_equal(strncmp(b->ends, "1 ", 2), 0);
}

/* A test with a stage that takes so many steps at once. */
#define WITH_STEPS(test, steps_max)                                                                \
    cmocka_unit_test_prestate_setup_teardown(test, open_bench, close_bench,                        \
                                             (void *)(uintptr_t)(steps_max))

/* A cache that is kept is not emptied; the KV resync is called before anything else begins,
 * whatever class has its turn. */
static void test_a_kv_resync_comes_first(void **state) {
    bench *b = *state;
    begin(b, 1, false, 11, 0);
    wait_for(b, &b->ended, 1);
    assert_int_equal(lh_pipeline_reset(b->pipeline, true, NULL), LH_OK);
    const lh_step_truncation resync[] = {{11, 5}};
    const lh_pipeline_begin_options options = {.decode = true,
                                               .resyncs = true,
                                               .truncation_count = 1,
                                               .truncations = resync,
                                               .step_context = NULL};
    lh_pipeline_step *step;
    assert_int_equal(lh_pipeline_begin(b->pipeline, &options, &step, NULL), LH_OK);
    begin(b, 2, false, 11, 0);
    wait_for(b, &b->ended, 3);
    assert_true(IN_ORDER("begin 1", "name 11 at 5", "begin 2"));
    assert_null(strstr(scripted_stage_log(), "reset"));
    assert_null(strstr(scripted_stage_log(), "free 11"));
}

static void test_a_kv_resync_that_cannot_be_fails(void **state) {
    bench *b = *state;
    scripted_stage_fail("roll", 0, LH_ERR_INVALID);
    const lh_pipeline_begin_options options = {.resyncs = true};
    lh_pipeline_step *step;
    assert_int_equal(lh_pipeline_begin(b->pipeline, &options, &step, NULL), LH_OK);
    wait_for(b, &b->ended, 1);
    assert_non_null(strstr(b->ends, "LH_ERR_INVALID"));
}

static void begin_with_masks(bench *b, bool decode, uint64_t number) {
    uint64_t dropped = number - 1;
    uint8_t code[3] = {42};
    const lh_step_mask mask = {.number = number, .code_bytes = sizeof code, .code = code};
    const lh_pipeline_begin_options options = {
        .decode = decode, .masks = {.drop_count = 1, .count = 1, .drops = &dropped, .list = &mask}};
    lh_pipeline_step *step;
    assert_int_equal(lh_pipeline_begin(b->pipeline, &options, &step, NULL), LH_OK);
    memset(code, 0, sizeof code); /* it has its own copy */
}

/* In the order in which they come, though a step that is held has still to be computed. */
static void test_masks_are_taken_when_they_come(void **state) {
    bench *b = *state;
    scripted_stage_need_shards(1);
    begin(b, 1, false, 11, 0);
    begin_with_masks(b, false, 7);
    begin_with_masks(b, true, 8);
    wait_for(b, &b->ended, 1);
    /* a step may begin in between */
    assert_true(IN_ORDER("drop mask 6, keep mask 7: 42, ", "drop mask 7, keep mask 8: 42, "));
    assert_null(strstr(scripted_stage_log(), "finish 1"));
}

static void test_an_epoch_begins_without_masks(void **state) {
    bench *b = *state;
    begin_with_masks(b, true, 7);
    wait_for(b, &b->ended, 1);
    assert_int_equal(lh_pipeline_reset(b->pipeline, true, NULL), LH_OK);
    begin_with_masks(b, true, 9);
    wait_for(b, &b->ended, 2);
    assert_true(IN_ORDER("keep mask 7", "drop all masks", "keep mask 9"));
    assert_null(strstr(scripted_stage_log(), "reset"));
}

static void test_a_mask_that_is_refused_fails_the_step(void **state) {
    bench *b = *state;
    scripted_stage_fail("mask", 0, LH_ERR_LIMIT);
    begin_with_masks(b, true, 7);
    wait_for(b, &b->ended, 1);
    assert_non_null(strstr(b->ends, "LH_ERR_LIMIT"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STEPS(test_a_step_has_its_own_copy_of_what_it_samples_with, 4),
        WITH_STEPS(test_masks_are_taken_when_they_come, 4),
        WITH_STEPS(test_an_epoch_begins_without_masks, 4),
        WITH_STEPS(test_a_mask_that_is_refused_fails_the_step, 4),
        WITH_STEPS(test_decode_goes_first, 4),
        WITH_STEPS(test_prefill_has_its_turn, 4),
        WITH_STEPS(test_what_is_complete_goes_before_what_came_later, 4),
        WITH_STEPS(test_steps_of_one_sequence_keep_their_order, 4),
        WITH_STEPS(test_missing_shards_hold_up_nobody_else, 4),
        WITH_STEPS(test_inbox_says_when_it_is_full, 2),
        WITH_STEPS(test_full_outbox_stops_prefill_alone, 4),
        WITH_STEPS(test_shards_leave_while_the_next_are_computed, 4),
        WITH_STEPS(test_a_failure_takes_later_steps_of_its_sequences_along, 8),
        WITH_STEPS(test_a_step_that_cannot_begin_fails_alone, 4),
        WITH_STEPS(test_a_shard_that_is_refused_fails_the_step, 4),
        WITH_STEPS(test_cancel_while_waiting_and_while_working, 4),
        WITH_STEPS(test_shards_after_the_end_are_counted_and_dropped, 4),
        WITH_STEPS(test_release_waits_for_earlier_steps, 4),
        WITH_STEPS(test_a_fork_waits_for_what_it_takes, 4),
        WITH_STEPS(test_a_truncation_waits_for_forks, 4),
        WITH_STEPS(test_releases_of_a_failed_step_are_done, 4),
        WITH_STEPS(test_prefill_leaves_a_buffer_to_decode, 2),
        WITH_STEPS(test_reset_and_removal_end_all, 4),
        WITH_STEPS(test_removal_comes_in_its_turn, 4),
        WITH_STEPS(test_destroy_with_work_in_hand, 4),
        WITH_STEPS(test_a_kv_resync_comes_first, 4),
        WITH_STEPS(test_a_kv_resync_that_cannot_be_fails, 4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
