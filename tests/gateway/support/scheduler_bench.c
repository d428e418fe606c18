#include "tests/gateway/support/scheduler_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

heard ears[8];

static void on_event(void *context, uint64_t handle, const lh_sequence_event *event) {
    (void)context;
    heard *h = &ears[handle];
    assert_false(h->is_finished || h->is_failed);
    if (event->kind == LH_SEQUENCE_TOKEN) {
        h->tokens[h->count++] = event->token;
        h->position = event->position;
    }
    h->is_finished = event->kind == LH_SEQUENCE_FINISHED;
    h->is_failed = event->kind == LH_SEQUENCE_FAILED;
    h->reason = event->reason;
    h->status = event->status;
    snprintf(h->message, sizeof h->message, "%s", event->message ? event->message : "");
    h->chain = event->chain;
    h->epoch = event->epoch;
}

lh_scheduler_options options_of(uint32_t chunk_rows) {
    return (lh_scheduler_options){.chain_name = "main",
                                  .sequences_max = 4,
                                  .queue_max = 2,
                                  .overlap = {LH_OVERLAP_MANUAL, chunk_rows, 1},
                                  .rows_max = 64,
                                  .vocabulary = 1000,
                                  .step_timeout_us = 30000 * MS,
                                  .replay_timeout_us = 5000 * MS,
                                  .takeover_timeout_us = 60000 * MS};
}

const lh_scheduler_sink bench_sink = {NULL, on_event};

lh_scheduler *create_by(const lh_scheduler_options *options) {
    lh_scheduler *scheduler;
    memset(ears, 0, sizeof ears);
    assert_int_equal(lh_scheduler_create(options, &bench_sink, &scheduler, NULL), LH_OK);
    return scheduler;
}

lh_scheduler *create_scheduler(uint32_t chunk_rows) {
    const lh_scheduler_options options = options_of(chunk_rows);
    return create_by(&options);
}

uint64_t blocks_held(const lh_scheduler *scheduler) {
    const lh_kv_ledger *ledger = lh_scheduler_ledger(scheduler);
    return ledger->blocks_total - lh_kv_ledger_blocks_free(ledger);
}

static const lh_kv_ledger two_stages = {.stage_count = 2, .stages = {{16, 100}, {16, 100}}};

void bring_chain_up(lh_scheduler *scheduler, uint32_t epoch, int64_t now_us) {
    lh_scheduler_chain_up(scheduler, epoch, &two_stages, now_us);
}

void bring_chain_back(lh_scheduler *scheduler, uint32_t epoch, uint32_t lost_stages) {
    lh_scheduler_chain_back(scheduler, epoch, &two_stages, lost_stages, 0);
}

lh_cost_chain costs_of_chain(void) {
    const lh_cost_hop hop = {.bytes_per_us = 1000, .delay_us = 500};
    return (lh_cost_chain){.stage_count = 2,
                           .width = 64,
                           .stages = {{.point_count = 2, .points = {{1, 500}, {64, 32000}}},
                                      {.point_count = 2, .points = {{1, 1000}, {64, 64000}}}},
                           .hops = {hop, hop, hop}};
}

lh_sequence_request request_of(uint32_t prompt_tokens, uint32_t max_tokens) {
    static uint32_t prompt[200];
    for (uint32_t i = 0; i < 200; i++)
        prompt[i] = i % 50;
    return (lh_sequence_request){.prompt = prompt,
                                 .prompt_tokens = prompt_tokens,
                                 .max_tokens = max_tokens,
                                 .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

lh_status submit_request(lh_scheduler *scheduler, const lh_sequence_request *request,
                         uint64_t handle, int64_t now_us) {
    lh_sequence *sequence;
    lh_error error;
    assert_int_equal(lh_sequence_create(request, handle, 1000, &sequence, NULL), LH_OK);
    return lh_scheduler_submit(scheduler, sequence, now_us, &error);
}

lh_scheduler *create_ready(uint32_t chunk_rows) {
    lh_scheduler *scheduler = create_scheduler(chunk_rows);
    bring_chain_up(scheduler, 7, 0);
    return scheduler;
}

lh_scheduler *create_sharing(uint32_t chunk_rows) {
    lh_scheduler_options options = options_of(chunk_rows);
    options.prefix_cache = true;
    lh_scheduler *scheduler = create_by(&options);
    bring_chain_up(scheduler, 7, 0);
    return scheduler;
}

lh_scheduler *create_with_prompt(uint32_t chunk_rows, uint32_t prompt_tokens, uint32_t max_tokens) {
    lh_scheduler *scheduler = create_ready(chunk_rows);
    lh_sequence_request request = request_of(prompt_tokens, max_tokens);
    assert_int_equal(submit_request(scheduler, &request, 0, 0), LH_OK);
    return scheduler;
}

lh_step_manifest next_step(lh_scheduler *scheduler) {
    lh_step_manifest manifest;
    assert_true(lh_scheduler_next_step(scheduler, 0, &manifest));
    return manifest;
}

void assert_no_step(lh_scheduler *scheduler) {
    lh_step_manifest manifest;
    assert_false(lh_scheduler_next_step(scheduler, 0, &manifest));
}

lh_status bring_token(lh_scheduler *scheduler, uint32_t epoch, uint64_t step, uint64_t sequence,
                      uint32_t position, uint32_t token) {
    lh_step_result result = {.sequence = sequence, .position = position, .answer.token = token};
    lh_error error;
    return lh_scheduler_results(scheduler, epoch, step, &result, 1, 0, &error);
}

void answer_step(lh_scheduler *scheduler, uint64_t step) {
    lh_scheduler_step_done(scheduler, 7, step, LH_OK, "", 0);
}
