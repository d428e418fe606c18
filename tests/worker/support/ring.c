#include "tests/worker/support/ring.h"

#include "common/protocol/step_answer.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/mapped_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

ring_options ring_default_options(uint32_t workers) {
    return (ring_options){
        .workers = workers, .column_shards = 1, .threads = 1, .limits = lh_h2_default_limits()};
}

/* ---- The loop ---- */

void ring_run_until(ring *r, const bool *flag) {
    loop_run_until_set(&r->loop, flag);
}

void ring_run_for(ring *r, int duration_ms) {
    loop_run_for(&r->loop, (uint64_t)duration_ms);
}

/* ---- The gateway's port ---- */

typedef struct post {
    ring *ring;
    lh_step_reader *reader;
} post;

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)context;
    (void)error;
    assert_int_equal(manifest->rows, 0);
    return LH_OK;
}

static lh_status on_results(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error) {
    (void)error;
    ring *r = ((post *)context)->ring;
    assert_true(r->result_count + count <= RING_RESULTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const lh_row_answer *answer = &results[i].answer;
        lh_token_logprob *tops = r->tops[r->result_count];
        assert_true(answer->score_count == 0 && answer->pooled_count == 0);
        if (answer->top_count > 0)
            memcpy(tops, answer->top, answer->top_count * sizeof *tops);
        r->results[r->result_count] = results[i];
        r->results[r->result_count++].answer.top = tops;
    }
    return LH_OK;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_error error;
    assert_int_equal(lh_step_reader_feed(((post *)context)->reader, bytes, length, &error), LH_OK);
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    post *p = context;
    assert_int_equal(lh_step_reader_finish(p->reader, NULL), LH_OK);
    if (p->ring->refuse_results != 0) {
        char *body = lh_step_answer_render("", LH_ERR_STALE, "the gateway does not want it");
        lh_h2_stream_respond(stream, p->ring->refuse_results, body);
        free(body);
    } else {
        lh_h2_stream_respond(stream, 200, "{}");
    }
}

static void on_post_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    lh_step_reader_destroy(((post *)context)->reader);
    free(context);
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events post_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_post_closed};
    static const lh_step_reader_events reader_events = {.on_manifest = on_manifest,
                                                        .on_results = on_results};
    assert_string_equal(request->method, "POST");
    assert_int_equal(strncmp(request->path, "/chains/" RING_CHAIN "/steps/", 19), 0);
    (void)stream;
    post *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->ring = context;
    assert_int_equal(lh_step_reader_create(0, &reader_events, p, &p->reader, NULL), LH_OK);
    *events = &post_events;
    *stream_context = p;
}

/* ---- Workers ---- */

static uint32_t steps_max(const ring *r) {
    return r->options.steps_max > 0 ? r->options.steps_max : 8;
}

static void make_stage(ring *r, uint32_t index) {
    ring_worker *worker = &r->workers[index];
    const lh_weight_source source = mapped_weights(r->model);
    assert_int_equal(lh_thread_pool_create(r->options.threads, &worker->pool, NULL), LH_OK);
    lh_stage_options options = {.range = {r->config.layers * index / r->options.workers,
                                          r->config.layers * (index + 1) / r->options.workers},
                                .kv_bytes = 8u << 20,
                                .rows_max = 64,
                                .steps_max = steps_max(r),
                                .pool = worker->pool};
    lh_error error;
    assert_int_equal(lh_kernels_select(NULL, &options.kernels, &error), LH_OK);
    if (lh_stage_create(r->gguf, &r->config, &source, &options, NULL, NULL, &worker->stage,
                        &error) != LH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(lh_server_install(worker->server, worker->stage, steps_max(r),
                                       &(lh_compute_profile){0}, &error),
                     LH_OK);
}

static void open_worker(ring *r, uint32_t index) {
    ring_worker *worker = &r->workers[index];
    snprintf(worker->name, sizeof(worker->name), "w%u", index + 1);
    lh_server_options options = {
        .loop = &r->loop,
        .name = worker->name,
        .listen = "127.0.0.1:0",
        .limits = r->options.limits,
        .hop_connections = r->options.hop_connections,
        .inbox_bytes = r->options.inbox_bytes > 0 ? r->options.inbox_bytes : 64u << 20,
        .outbox_bytes = r->options.outbox_bytes > 0 ? r->options.outbox_bytes : 64u << 20};
    lh_error error;
    if (lh_server_create(&options, &worker->server, &error) != LH_OK)
        fail_msg("%s", error.message);
    snprintf(worker->address, sizeof(worker->address), "127.0.0.1:%d",
             lh_server_port(worker->server, false));
    make_stage(r, index);
}

void ring_set_epoch(ring *r, uint32_t epoch) {
    r->epoch = epoch;
    for (uint32_t i = 0; i < r->options.workers; i++) {
        bool is_last = i + 1 == r->options.workers;
        lh_chain_route route = {.chain = RING_CHAIN,
                                .epoch = epoch,
                                .kv_epoch = i >= r->kv_from ? r->kv_epoch : 0,
                                .width = r->config.width,
                                .is_first = i == 0,
                                .is_last = is_last,
                                .wire = r->options.wire,
                                .steps_max = steps_max(r)};
        snprintf(route.next.worker, sizeof route.next.worker, "%s",
                 is_last ? "" : r->workers[i + 1].name);
        snprintf(route.next.address, sizeof route.next.address, "%s",
                 is_last ? r->gateway_address : r->workers[i + 1].address);
        lh_error error;
        assert_int_equal(lh_server_set_route(r->workers[i].server, &route, &error), LH_OK);
    }
}

static bool all_connected(const ring *r) {
    bool all = r->connected;
    for (uint32_t i = 0; i < r->options.workers; i++) {
        lh_server_status status;
        lh_server_read_status(r->workers[i].server, &status);
        all = all && status.next.connected;
    }
    return all;
}

/* ---- The gateway's client ---- */

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((ring *)context)->connected = connected;
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    (void)context;
    ring_step *step = step_context;
    step->done = true;
    step->status = status;
    step->submission = NULL;
    snprintf(step->worker, sizeof(step->worker), "%s", worker);
    snprintf(step->message, sizeof(step->message), "%s", message);
}

static void on_times(void *context, void *step_context, const uint8_t *frames, size_t length) {
    (void)step_context;
    ring *r = context;
    assert_true(length <= sizeof(r->times));
    memcpy(r->times, frames, length);
    r->times_length = length;
}

lh_step_segment ring_segment(uint64_t sequence, uint32_t first, uint32_t rows) {
    return (lh_step_segment){.sequence = sequence,
                             .first_position = first,
                             .rows = rows,
                             .ask.draws = true,
                             .ask.sampling = {.top_p = 1,
                                              .repetition_penalty = 1,
                                              .want_digest = true,
                                              .want_logprob = true,
                                              .top_logprobs = 2}};
}

lh_step_manifest ring_manifest(const ring *r, uint64_t number, const lh_step_segment *segment,
                               const uint32_t *tokens) {
    return (lh_step_manifest){.epoch = r->epoch,
                              .step = number,
                              .step_class = segment->rows > 1 ? LH_STEP_PREFILL : LH_STEP_DECODE,
                              .rows = segment->rows,
                              .tokens = tokens ? tokens : r->prompt,
                              .segment_count = 1,
                              .segments = segment};
}

void ring_submit(ring *r, const lh_step_manifest *manifest, ring_step *step) {
    *step = (ring_step){.ring = r};
    lh_step_manifest cut = *manifest;
    if (cut.cut_count == 0) {
        cut.cut_count = r->options.workers - 1;
        cut.cuts = r->cuts;
    }
    lh_error error;
    if (lh_worker_client_submit(r->client, &cut, step, &step->submission, &error) != LH_OK)
        fail_msg("%s", error.message);
    lh_step_submission_end(step->submission);
}

lh_status ring_run(ring *r, const lh_step_manifest *manifest, ring_step *step) {
    ring_submit(r, manifest, step);
    ring_run_until(r, &step->done);
    return step->status;
}

/* ---- Life ---- */

static void load_model(ring *r) {
    tiny_llama model = tiny_llama_default();
    model.layers = 4;
    model.width = 160; /* five column blocks */
    model.heads = 10;
    model.kv_heads = 5;
    size_t length;
    r->model = tiny_llama_bytes(&model, &length);
    lh_error error;
    if (lh_gguf_parse(r->model, length, length, &r->gguf, &error) != LH_OK ||
        lh_model_config_read(r->gguf, &r->config, &error) != LH_OK) {
        fail_msg("%s", error.message);
    }
}

void ring_open(ring *r, const ring_options *options) {
    static const lh_worker_client_events events = {
        .on_state = on_state, .on_done = on_done, .on_times = on_times};
    memset(r, 0, sizeof *r);
    r->options = *options;
    uv_loop_init(&r->loop);
    load_model(r);
    for (uint32_t i = 0; i < RING_PROMPT_MAX; i++)
        r->prompt[i] = (i * 37u + 11u) % 256u;
    for (uint32_t i = 0; i < options->workers; i++)
        r->cuts[i] = lh_step_cut_evenly(r->config.width, options->column_shards);
    assert_int_equal(lh_h2_server_create(&r->loop, "127.0.0.1:0", NULL, &options->limits,
                                         on_request, r, &r->gateway, NULL),
                     LH_OK);
    snprintf(r->gateway_address, sizeof(r->gateway_address), "127.0.0.1:%d",
             lh_h2_server_port(r->gateway));
    for (uint32_t i = 0; i < options->workers; i++)
        open_worker(r, i);
    ring_set_epoch(r, 1);
    assert_int_equal(lh_worker_client_create(&r->loop, r->workers[0].address, RING_CHAIN, NULL,
                                             &options->limits, &events, r, &r->client, NULL),
                     LH_OK);
    for (int i = 0; i < 500 && !all_connected(r); i++)
        ring_run_for(r, 10);
    assert_true(all_connected(r));
}

void ring_open_workers(ring *r, uint32_t workers) {
    ring_options options = ring_default_options(workers);
    ring_open(r, &options);
}

static void on_closed(void *context) {
    ++*(int *)context;
}

static void await_closed(ring *r, int count) {
    while (r->closed < count)
        uv_run(&r->loop, UV_RUN_ONCE);
    r->closed = 0;
}

void ring_close_worker(ring *r, uint32_t index) {
    ring_worker *worker = &r->workers[index];
    lh_server_close(worker->server, on_closed, &r->closed);
    await_closed(r, 1);
    lh_thread_pool_destroy(worker->pool);
    worker->server = NULL;
    worker->stage = NULL;
}

void ring_close_gateway(ring *r) {
    lh_h2_server_close(r->gateway, on_closed, &r->closed);
    await_closed(r, 1);
    r->gateway = NULL;
}

void ring_close(ring *r) {
    for (uint32_t i = 0; i < r->options.workers; i++)
        if (r->workers[i].server)
            ring_close_worker(r, i);
    lh_worker_client_close(r->client, on_closed, &r->closed);
    await_closed(r, 1);
    if (r->gateway)
        ring_close_gateway(r);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    lh_gguf_destroy(r->gguf);
    free(r->model);
}

size_t ring_pages_free(const ring *r, uint32_t index) {
    return lh_kv_cache_pages_free(lh_stage_kv(r->workers[index].stage));
}
