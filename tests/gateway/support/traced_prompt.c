/* The pipe is simulated in true time, and written down in each one's own clock. */
#include "tests/gateway/support/traced_prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 8u

/* When each part is free again. */
typedef struct pipe_state {
    int64_t a_free, wire_free, b_free;
} pipe_state;

static int64_t later(int64_t one, int64_t other) {
    return one > other ? one : other;
}

static uint32_t since(const lh_step_times *times, int64_t skew, int64_t moment) {
    return (uint32_t)(moment + skew - (int64_t)times->base_us);
}

/* One step from when it was submitted; its record without a holder's own memory. */
static void run_step(pipe_state *pipe, int64_t submitted, bool is_prefill, lh_trace_step *step,
                     lh_step_times *a, lh_step_times *b) {
    int64_t a_work = is_prefill ? 2000 : 200, b_work = is_prefill ? 3000 : 300,
            send = is_prefill ? 700 : 10;
    int64_t at_a = submitted + 100, a_begin = later(at_a + 10, pipe->a_free),
            a_end = a_begin + a_work;
    int64_t at_b = at_a + 5 + 1000;
    *a = (lh_step_times){
        .worker = "a", .base_us = (uint64_t)(at_a + TRACED_SKEW_A), .given_count = 2};
    *b = (lh_step_times){
        .worker = "b", .base_us = (uint64_t)(at_b + TRACED_SKEW_B), .taken_count = 2};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t emitted = a_end - (i == 0 ? a_work / 4 : 0), left = later(emitted, pipe->wire_free);
        pipe->wire_free = left + send;
        int64_t came = pipe->wire_free + 1000;
        a->given[i] = (lh_step_shard_given){
            .rows = ROWS, .first_column = i * 32, .columns = 32, .bytes = 1024};
        a->given[i].emitted_us = since(a, TRACED_SKEW_A, emitted);
        a->given[i].handed_us = since(a, TRACED_SKEW_A, emitted);
        a->given[i].left_us = since(a, TRACED_SKEW_A, pipe->wire_free);
        b->taken[i] = (lh_step_shard_taken){
            .rows = ROWS, .first_column = i * 32, .columns = 32, .bytes = 1008};
        b->taken[i].came_us = since(b, TRACED_SKEW_B, came);
        b->taken[i].accept_us = since(b, TRACED_SKEW_B, later(came, pipe->b_free));
        b->taken[i].accepted_us = b->taken[i].accept_us; /* takes no time */
        if (i == 1)
            pipe->b_free = later(came, pipe->b_free) + b_work;
    }
    int64_t b_end = pipe->b_free, results = b_end + 500, passed_b = results + 500,
            passed_a = passed_b + 1000;
    pipe->a_free = a_end;
    a->manifest_us = 0;
    a->begin_us = a->begun_us = a->finish_us = since(a, TRACED_SKEW_A, a_begin);
    a->finished_us = since(a, TRACED_SKEW_A, a_end);
    a->submitted_us = 5;
    a->passed_us = a->answered_us = since(a, TRACED_SKEW_A, passed_a);
    b->begin_us = b->begun_us = 1;
    b->finish_us = since(b, TRACED_SKEW_B, b_end - b_work);
    b->finished_us = b->submitted_us = since(b, TRACED_SKEW_B, b_end);
    b->passed_us = b->answered_us = since(b, TRACED_SKEW_B, passed_b);
    *step = (lh_trace_step){.epoch = 1,
                            .step_class = is_prefill ? LH_STEP_PREFILL : LH_STEP_DECODE,
                            .rows = is_prefill ? ROWS : 1,
                            .formed_us = submitted,
                            .submitted_us = submitted,
                            .results_us = results,
                            .answered_us = passed_a + 100,
                            .hop_count = 3};
}

/* What is told of the hops: forth and back, as the recorder would. */
static void note_hops(const lh_trace_step *step, const lh_step_times *a, const lh_step_times *b,
                      lh_clock_bounds *hops) {
    lh_clock_hop clocks[3] = {0};
    lh_clock_hop_forth(&clocks[0], step->submitted_us, (int64_t)a->base_us);
    lh_clock_hop_back(&clocks[0], (int64_t)a->base_us + a->answered_us, step->answered_us);
    lh_clock_hop_forth(&clocks[1], (int64_t)a->base_us + a->submitted_us, (int64_t)b->base_us);
    lh_clock_hop_back(&clocks[1], (int64_t)b->base_us + b->answered_us,
                      (int64_t)a->base_us + a->passed_us);
    lh_clock_hop_forth(&clocks[2], (int64_t)b->base_us + b->submitted_us, step->results_us);
    lh_clock_hop_back(&clocks[2], step->results_us, (int64_t)b->base_us + b->passed_us);
    int64_t near[3] = {step->submitted_us, (int64_t)a->base_us, (int64_t)b->base_us};
    for (uint32_t i = 0; i < 3; i++)
        assert_true(lh_clock_hop_at(&clocks[i], near[i], &hops[i]));
}

static void add_step(lh_trace *trace, pipe_state *pipe, int64_t submitted, bool is_prefill,
                     bool draws) {
    lh_step_times *times = calloc(2, sizeof *times);
    lh_clock_bounds hops[3];
    uint8_t frames[1024];
    size_t length = 0, one = 0;
    lh_trace_step step;
    assert_non_null(times);
    run_step(pipe, submitted, is_prefill, &step, &times[0], &times[1]);
    note_hops(&step, &times[0], &times[1], hops);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            lh_step_times_encode(&times[i], frames + length, sizeof frames - length, &one, NULL),
            LH_OK);
        length += one;
    }
    step.step = trace->entry_count + 1;
    step.hops = hops;
    step.frames = frames;
    step.frames_bytes = length;
    lh_trace_entry *entry = &trace->entries[trace->entry_count++];
    *entry = (lh_trace_entry){lh_trace_step_create(&step), 0, step.rows, draws, 0};
    assert_non_null(entry->step);
    free(times);
    if (!draws)
        return;
    trace->token_count++;
    trace->last_token_us = step.results_us;
    if (trace->first_token_us == 0)
        trace->first_token_us = step.results_us;
}

lh_trace *traced_prompt(uint32_t chunks, uint32_t decode) {
    lh_trace *trace = calloc(1, sizeof *trace);
    assert_non_null(trace);
    *trace = (lh_trace){.id = "cmpl-7",
                        .request_id = "req_7",
                        .received_us = TRACED_BEGIN,
                        .tokenized_us = TRACED_BEGIN + 50,
                        .admitted_us = TRACED_BEGIN + 100,
                        .prompt_tokens = chunks * ROWS,
                        .plan = "a plan",
                        .predicted_us = 12345};
    trace->entries = calloc(chunks + decode, sizeof *trace->entries);
    assert_non_null(trace->entries);
    pipe_state pipe = {0};
    for (uint32_t i = 0; i < chunks; i++)
        add_step(trace, &pipe, TRACED_BEGIN + 100, true, i + 1 == chunks);
    for (uint32_t i = 0; i < decode; i++)
        add_step(trace, &pipe, trace->last_token_us, false, true);
    trace->ended_us = trace->last_token_us + 1000;
    return trace;
}

static void replace(lh_trace *trace, uint32_t entry, const lh_trace_step *content) {
    lh_trace_step *step = lh_trace_step_create(content);
    assert_non_null(step);
    lh_trace_step_release(trace->entries[entry].step);
    trace->entries[entry].step = step;
}

void traced_prompt_believe(lh_trace *trace, uint32_t entry, double a_us, double b_us) {
    const double believed_us[] = {a_us, b_us};
    lh_trace_step content = *trace->entries[entry].step;
    content.believed_us = believed_us;
    content.believed_count = 2;
    replace(trace, entry, &content);
}

void traced_prompt_retell(lh_trace *trace, uint32_t entry, const uint8_t *frames, size_t length) {
    lh_trace_step content = *trace->entries[entry].step;
    content.frames = frames;
    content.frames_bytes = length;
    replace(trace, entry, &content);
}
