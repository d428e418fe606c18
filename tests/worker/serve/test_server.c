/* Workers over loopback: tokens come back bit for bit however the chain is cut, and each thing that
 * can go wrong is answered with the name of the worker where it did. */
#include "common/base/crc32c.h"
#include "common/protocol/step_times.h"
#include "tests/support/loop.h"
#include "tests/worker/support/raw_client.h"
#include "tests/worker/support/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 23u

/* Prefills sequence 5 in chunks that are all in flight at once, then generates; digests and tokens
 * in r->results. */
static void generate(ring *r, uint32_t chunk, uint32_t count) {
    ring_step steps[PROMPT] = {0};
    uint64_t number = 1;
    uint32_t pending = 0;
    for (uint32_t first = 0; first < PROMPT; first += chunk) {
        uint32_t rows = PROMPT - first < chunk ? PROMPT - first : chunk;
        lh_step_segment segment = ring_segment(5, first, rows);
        segment.ask.draws = first + rows == PROMPT;
        lh_step_manifest manifest = ring_manifest(r, number++, &segment, r->prompt + first);
        ring_submit(r, &manifest, &steps[pending++]);
    }
    for (uint32_t i = 0; i < pending; i++) {
        ring_run_until(r, &steps[i].done);
        assert_string_equal(steps[i].message, "");
        assert_int_equal(steps[i].status, LH_OK);
    }
    for (uint32_t i = 1; i < count; i++) {
        lh_step_segment segment = ring_segment(5, PROMPT + i - 1, 1);
        uint32_t token = r->results[r->result_count - 1].answer.token;
        lh_step_manifest manifest = ring_manifest(r, number++, &segment, &token);
        assert_int_equal(ring_run(r, &manifest, &steps[0]), LH_OK);
    }
    assert_int_equal(r->result_count, count);
}

#define GENERATED 6u

/* The results as bytes. */
typedef struct result_bytes {
    size_t length;
    uint8_t bytes[1024];
} result_bytes;

static void results_of(const ring_options *options, uint32_t chunk, result_bytes *told) {
    ring r;
    const lh_step_result *results = r.results;
    ring_open(&r, options);
    generate(&r, chunk, GENERATED);
    memset(told, 0, sizeof *told);
    assert_int_equal(lh_step_encode_results(results, GENERATED, told->bytes, sizeof told->bytes,
                                            &told->length, NULL),
                     LH_OK);
    for (uint32_t i = 0; i < GENERATED; i++) {
        assert_int_equal(results[i].sequence, 5);
        assert_int_equal(results[i].position, PROMPT + i);
        assert_int_equal(results[i].answer.top_count, 2);
        assert_int_equal(results[i].answer.top[0].token, results[i].answer.token);
        assert_true(results[i].answer.digest != 0);
    }
    ring_close(&r);
}

static void test_one_answer_bit_for_bit(void **state) {
    (void)state;
    result_bytes expected, got;
    ring_options options = ring_default_options(1);
    results_of(&options, PROMPT, &expected);
    struct {
        uint32_t workers, column_shards, threads, chunk, connections;
    } rows[] = {{1, 1, 2, 7, 1}, {2, 1, 1, PROMPT, 1}, {2, 4, 1, 7, 1}, {3, 5, 2, 4, 1},
                {4, 3, 1, 1, 1}, {2, 4, 1, 7, 2},      {3, 5, 2, 4, 4}, {4, 3, 1, 1, 3}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        options = ring_default_options(rows[i].workers);
        options.column_shards = rows[i].column_shards;
        options.threads = rows[i].threads;
        options.hop_connections = rows[i].connections;
        results_of(&options, rows[i].chunk, &got);
        assert_memory_equal(&got, &expected, sizeof expected);
    }
}

static void test_f16_depends_on_the_split_alone(void **state) {
    (void)state;
    result_bytes expected, got;
    ring_options options = ring_default_options(2);
    options.wire = LH_WIRE_F16;
    results_of(&options, PROMPT, &expected);
    options.column_shards = 4;
    results_of(&options, 5, &got);
    assert_memory_equal(&got, &expected, sizeof expected);
}

static void test_small_windows_and_queues_only_slow_down(void **state) {
    (void)state;
    result_bytes expected, got;
    ring_options options = ring_default_options(1);
    results_of(&options, PROMPT, &expected);
    options = ring_default_options(3);
    options.limits.window_bytes = 65535;
    options.column_shards = 5;
    options.inbox_bytes = 1;
    options.outbox_bytes = 1;
    options.steps_max = 2;
    results_of(&options, 3, &got);
    assert_memory_equal(&got, &expected, sizeof expected);
    options.hop_connections = 4;
    results_of(&options, 3, &got);
    assert_memory_equal(&got, &expected, sizeof expected);
}

/* worker: that tells it; NULL: whoever of them is first. */
static void expect_failure(ring *r, const lh_step_manifest *manifest, lh_status status,
                           const char *worker) {
    ring_step step;
    assert_int_equal(ring_run(r, manifest, &step), status);
    if (worker)
        assert_string_equal(step.worker, worker);
    else
        assert_int_equal(step.worker[0], 'w');
    assert_true(step.message[0] != '\0');
}

static void test_epochs(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 2);
    ring_set_epoch(&r, 4);
    for (int i = 0; i < 100 && !r.connected; i++)
        ring_run_for(&r, 10);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    manifest.epoch = 3;
    expect_failure(&r, &manifest, LH_ERR_STALE, "w1");
    manifest.epoch = 5;
    expect_failure(&r, &manifest, LH_ERR_UNAVAILABLE, "w1");
    manifest.epoch = 4;
    ring_step step;
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_true(ring_pages_free(&r, 0) < lh_kv_cache_pages_total(lh_stage_kv(r.workers[0].stage)));
    ring_set_epoch(&r, 5); /* the KV cache is empty again: the sequence begins at 0 */
    manifest = ring_manifest(&r, 1, &segment, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    ring_close(&r);
}

static void test_an_epoch_ends_the_steps_in_progress(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 2);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    ring_step step;
    ring_submit(&r, &manifest, &step);
    lh_server_status status = {0};
    while (status.steps_active == 0) {
        uv_run(&r.loop, UV_RUN_NOWAIT);
        lh_server_read_status(r.workers[0].server, &status);
    }
    ring_set_epoch(&r, 2);
    ring_run_until(&r, &step.done);
    assert_int_equal(step.status, LH_ERR_STALE);
    manifest.epoch = 2;
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    ring_close(&r);
}

static void count_trouble(void *context) {
    ++*(uint64_t *)context;
}

/* Of the first worker, once nothing is in progress there. */
static void expect_counts(ring *r, uint64_t done, uint64_t failed, uint64_t troubles) {
    lh_server_status status;
    lh_server_read_status(r->workers[0].server, &status);
    while (status.steps_active > 0) {
        uv_run(&r->loop, UV_RUN_NOWAIT);
        lh_server_read_status(r->workers[0].server, &status);
    }
    assert_int_equal(status.steps_done, done);
    assert_int_equal(status.steps_failed, failed);
    assert_int_equal(troubles, failed);
}

static void test_each_step_is_counted_once(void **state) {
    (void)state;
    ring r;
    uint64_t troubles = 0;
    ring_step step;
    ring_open_workers(&r, 2);
    lh_server_watch(r.workers[0].server, NULL, count_trouble, &troubles);
    lh_step_segment first = ring_segment(1, 0, PROMPT), second = ring_segment(2, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &first, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    expect_counts(&r, 1, 0, troubles);
    expect_failure(&r, &manifest, LH_ERR_STALE, "w1"); /* it has come before */
    expect_counts(&r, 1, 1, troubles);
    manifest = ring_manifest(&r, 2, &second, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    expect_counts(&r, 2, 1, troubles);
    ring_close(&r);
}

/* Points that the first worker's meter has after each of three further steps of so many rows: as
 * before, and one more after the last where that counts. */
static void expect_points(ring *r, uint64_t number, uint32_t rows, uint32_t before,
                          bool last_counts) {
    for (uint32_t i = 0; i < 3; i++) {
        ring_step step;
        lh_server_status status;
        lh_step_segment segment = ring_segment(number + i, 0, rows);
        lh_step_manifest manifest = ring_manifest(r, number + i, &segment, NULL);
        assert_int_equal(ring_run(r, &manifest, &step), LH_OK);
        lh_server_read_status(r->workers[0].server, &status);
        assert_int_equal(status.compute.point_count, before + (last_counts && i == 2));
    }
}

/* Two steps at a new place in a chain, two after a stop, and those beside a stage that is being
 * loaded say nothing of the stage; another one has more rows than any before. */
static void test_what_is_not_measured(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 2);
    expect_points(&r, 1, 1, 0, true);
    lh_server_note_stopped(r.workers[0].server);
    expect_points(&r, 4, 4, 1, true);
    lh_server_note_loading(r.workers[0].server, true);
    expect_points(&r, 7, 8, 2, false);
    ring_close(&r);
}

static void test_a_failure_further_on_names_its_worker(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 3);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    /* a token that is not in the vocabulary: only the last stage minds */
    segment.ask.sampling.bias_count = 1;
    lh_token_bias bias = {100000, 1};
    segment.ask.sampling.biases = &bias;
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    ring_step step;
    assert_true(ring_run(&r, &manifest, &step) == LH_ERR_LIMIT || step.status == LH_ERR_INVALID);
    assert_string_equal(step.worker, "w3");
    lh_step_truncation freed = {1,
                                /* the workers before it had finished their part and hold the
                                 * positions */
                                0};
    manifest =
        (lh_step_manifest){.epoch = 1, .step = 2, .truncation_count = 1, .truncations = &freed};
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    segment.ask.sampling.bias_count = 0;
    manifest = ring_manifest(&r, 3, &segment, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    segment = ring_segment(1, 5, 1);
    manifest = ring_manifest(&r, 4, &segment, NULL);
    expect_failure(&r, &manifest, LH_ERR_INVALID, NULL); /* does not continue the sequence */
    r.refuse_results = 409;
    segment = ring_segment(1, PROMPT, 1);
    manifest = ring_manifest(&r, 5, &segment, NULL);
    expect_failure(&r, &manifest, LH_ERR_STALE, ""); /* the gateway itself */
    ring_close(&r);
}

static void test_a_dead_hop_is_told_by_the_worker_before_it(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 2);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    ring_close_gateway(&r);
    expect_failure(&r, &manifest, LH_ERR_UNAVAILABLE, "w2");
    ring_close_worker(&r, 1);
    manifest.step++;
    expect_failure(&r, &manifest, LH_ERR_UNAVAILABLE, "w1");
    r.options.workers = 1; /* the second is closed */
    ring_close(&r);
}

/* And no step has failed: what its sender wants no more of is counted by itself. */
static void cancel_frees_everything(uint32_t connections) {
    ring r;
    ring_options options = ring_default_options(3);
    options.hop_connections = connections;
    ring_open(&r, &options);
    for (uint64_t round = 0; round < 8; round++) {
        ring_step steps[3];
        for (uint32_t i = 0; i < 3; i++) {
            lh_step_segment segment = ring_segment(round, i * 64, 64);
            lh_step_manifest manifest = ring_manifest(&r, round * 3 + i, &segment, NULL);
            ring_submit(&r, &manifest, &steps[i]);
        }
        ring_run_for(&r, (int)round * 2);
        for (uint32_t i = 0; i < 3; i++)
            if (steps[i].submission)
                lh_step_submission_cancel(steps[i].submission);
        for (uint32_t i = 0; i < 3; i++)
            ring_run_until(&r, &steps[i].done);
    }
    lh_step_truncation truncations[8] = {{0, 0}, {1, 0}, {2, 0}, {3, 0},
                                         {4, 0}, {5, 0}, {6, 0}, {7, 0}};
    lh_step_manifest manifest = {
        .epoch = 1, .step = 100, .truncation_count = 8, .truncations = truncations};
    ring_step step;
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    ring_run_for(&r, 100);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ring_pages_free(&r, i),
                         lh_kv_cache_pages_total(lh_stage_kv(r.workers[i].stage)));
        lh_server_status status;
        lh_server_read_status(r.workers[i].server, &status);
        assert_int_equal(status.steps_active, 0);
        assert_int_equal(status.steps_failed, 0);
        assert_true(i > 0 || status.steps_cancelled > 0);
    }
    ring_close(&r);
}

static void test_cancel_frees_everything(void **state) {
    (void)state;
    cancel_frees_everything(1);
    cancel_frees_everything(4);
}

static void test_drain_and_removal(void **state) {
    (void)state;
    ring r;
    ring_open_workers(&r, 1);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    ring_step step;
    ring_submit(&r, &manifest, &step);
    lh_server_status status = {0};
    while (status.steps_active == 0) {
        uv_run(&r.loop, UV_RUN_NOWAIT);
        lh_server_read_status(r.workers[0].server, &status);
    }
    bool idle = false, removed = false;
    lh_server_drain(r.workers[0].server, loop_set_flag, &idle);
    assert_false(idle);
    ring_run_until(&r, &step.done);
    assert_int_equal(step.status, LH_OK); /* what had begun is finished */
    ring_run_until(&r, &idle);
    manifest.step = 2;
    expect_failure(&r, &manifest, LH_ERR_UNAVAILABLE, "w1");
    assert_int_equal(lh_server_remove(r.workers[0].server, loop_set_flag, &removed, NULL), LH_OK);
    ring_run_until(&r, &removed);
    expect_failure(&r, &manifest, LH_ERR_NOT_FOUND, "w1");
    ring_close(&r);
}

/* ---- Trials of hops ---- */

static lh_chain_route route_to(const ring *r, uint32_t worker) {
    lh_chain_route route = {.chain = RING_CHAIN, .width = r->config.width, .steps_max = 8};
    snprintf(route.next.worker, sizeof route.next.worker, "%s", r->workers[worker].name);
    snprintf(route.next.address, sizeof route.next.address, "%s", r->workers[worker].address);
    return route;
}

static lh_server_status status_of(const ring *r, uint32_t worker) {
    lh_server_status status;
    lh_server_read_status(r->workers[worker].server, &status);
    return status;
}

static void await_trial(ring *r, lh_hop_trial_state state) {
    lh_hop_trial_report trial = status_of(r, 0).trial;
    for (int i = 0; i < 2000 && trial.state != state; i++) {
        ring_run_for(r, 10);
        trial = status_of(r, 0).trial;
    }
    if (trial.state != state)
        fail_msg("%s: %s", lh_hop_trial_state_name(trial.state), trial.error);
}

/* It is told from the first worker. */
static void test_a_proven_hop_is_taken_over(void **state) {
    (void)state;
    for (uint32_t connections = 1; connections <= 3; connections += 2) {
        ring r;
        ring_step step;
        ring_options options = ring_default_options(3);
        options.hop_connections = connections;
        ring_open(&r, &options);
        lh_server *server = r.workers[0].server;
        lh_chain_route route = route_to(&r, 2);
        lh_server_try(server, &route);
        await_trial(&r, LH_HOP_TRIAL_PROVEN);
        assert_string_equal(status_of(&r, 0).trial.next, "w3");
        lh_step_segment segment = ring_segment(1, 0, PROMPT);
        lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
        assert_int_equal(ring_run(&r, &manifest, &step), LH_OK); /* meanwhile */
        route.epoch = 2;
        route.is_first = true;
        assert_int_equal(lh_server_set_route(server, &route, NULL), LH_OK);
        lh_server_status status = status_of(&r, 0);
        assert_true(status.next.connected && status.next.bytes_sent > 30000);
        assert_int_equal(status.trial.state, LH_HOP_TRIAL_NONE);
        route = route_to(&r, 1); /* of one that is not proven, another connection is made */
        lh_server_try(server, &route);
        assert_int_equal(status_of(&r, 0).trial.state, LH_HOP_TRIAL_RUNNING);
        ring_set_epoch(&r, 3);
        assert_false(status_of(&r, 0).next.connected);
        await_trial(&r, LH_HOP_TRIAL_PROVEN); /* of the present hop, as of any other */
        while (!status_of(&r, 0).next.connected)
            uv_run(&r.loop, UV_RUN_ONCE);
        lh_server_try(server, NULL);
        assert_int_equal(status_of(&r, 0).trial.state, LH_HOP_TRIAL_NONE);
        manifest.epoch = 3;
        assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
        lh_server_try(server, &route); /* closed while it runs */
        ring_close(&r);
    }
}

static void count(void *context) {
    ++*(int *)context;
}

static void test_why_a_hop_cannot_be_used(void **state) {
    (void)state;
    ring r;
    int changes = 0;
    char expected[400];
    bool idle = false;
    ring_open_workers(&r, 2);
    lh_server *server = r.workers[0].server;
    lh_server_watch(server, count, NULL, &changes);
    lh_chain_route route = route_to(&r, 1);
    route.next.tls = true;
    lh_server_try(server, &route);
    lh_hop_trial_report trial = status_of(&r, 0).trial;
    assert_int_equal(trial.state, LH_HOP_TRIAL_FAILED);
    assert_string_equal(trial.address, r.workers[1].address);
    assert_non_null(strstr(trial.error, "takes TLS: give --tls-cert"));
    assert_int_equal(changes, 1);
    lh_server_try(server, &route);
    assert_int_equal(changes, 1);
    route.next.tls = false;
    lh_server_drain(r.workers[1].server, loop_set_flag, &idle);
    ring_run_until(&r, &idle);
    lh_server_try(server, &route);
    await_trial(&r, LH_HOP_TRIAL_FAILED);
    snprintf(expected, sizeof expected,
             "%s: worker 'w2' refuses a step of the trial: this worker is leaving",
             route.next.address);
    assert_string_equal(status_of(&r, 0).trial.error, expected);
    assert_int_equal(changes, 3); /* begun, failed */
    assert_string_equal(status_of(&r, 0).next_error, "");
    ring_close_worker(&r, 1);
    while (status_of(&r, 0).next.connected)
        uv_run(&r.loop, UV_RUN_ONCE);
    assert_non_null(strstr(status_of(&r, 0).next_error, route.next.address));
    ring_close(&r);
}

/* ---- Raw requests ---- */

static void test_paths_and_methods(void **state) {
    (void)state;
    ring r;
    raw_client q;
    ring_open_workers(&r, 1);
    raw_client_open(&q, &r.loop, r.workers[0].address);
    assert_int_equal(raw_client_request(&q, "GET", "/health", NULL, 0), 200);
    assert_int_equal(raw_client_request(&q, "GET", "/status", NULL, 0), 200);
    assert_non_null(strstr(q.body, "\"chain\":\"ring\""));
    assert_int_equal(raw_client_request(&q, "GET", "/", NULL, 0), 404);
    assert_int_equal(raw_client_request(&q, "GET", "/chains/ring/steps/1", NULL, 0), 405);
    assert_int_equal(raw_client_request(&q, "POST", "/chains/other/steps/1", NULL, 0), 404);
    assert_non_null(strstr(q.body, "\"worker\":\"w1\",\"status\":\"LH_ERR_NOT_FOUND\""));
    const char *bad[] = {"/chains/ring/steps/", "/chains/ring/steps/01", "/chains/ring/steps/-1",
                         "/chains/ring/steps/1/2", "/chains/ring/steps/99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(raw_client_request(&q, "POST", bad[i], NULL, 0), 400);
    assert_int_equal(raw_client_request(&q, "POST", "/chains//steps/1", NULL, 0), 404);
    assert_int_equal(raw_client_request(&q, "POST", "/chains/other/trials/5", NULL, 0), 400);
    assert_non_null(strstr(q.body, "the step ends before its manifest"));
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/trials/65537", NULL, 0), 400);
    assert_non_null(strstr(q.body, "LH_ERR_LIMIT"));
    /* no manifest */
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/1", NULL, 0), 400);
    assert_int_equal(
        raw_client_request(&q, "POST", "/chains/ring/steps/1", "nonsense, and long enough", 25),
        400);
    assert_non_null(strstr(q.body, "LH_ERR_CORRUPT"));
    raw_client_close(&q);
    ring_close(&r);
}

/* A step for the second worker, whose shards are ours. */
static size_t second_hop_body(const ring *r, uint64_t step, uint8_t *body, size_t capacity) {
    lh_step_segment segment = ring_segment(9, 0, 2);
    lh_step_manifest manifest = ring_manifest(r, step, &segment, NULL);
    size_t length = 0, more = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, body, capacity, &length, NULL), LH_OK);
    float values[2 * 160];
    for (int i = 0; i < 2 * 160; i++)
        values[i] = (float)(i % 17) - 8;
    assert_int_equal(lh_step_encode_shard(LH_WIRE_F32, 0, 2, 0, 160, values, body + length,
                                          capacity - length, &more, NULL),
                     LH_OK);
    return length + more;
}

static void test_a_corrupt_shard_is_refused(void **state) {
    (void)state;
    ring r;
    raw_client q;
    ring_open_workers(&r, 2);
    raw_client_open(&q, &r.loop, r.workers[1].address);
    uint8_t body[8192];
    size_t length = second_hop_body(&r, 7, body, sizeof(body));
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/8", body, length),
                     400); /* another step's path */
    body[length - 5] ^= 16;
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/7", body, length), 400);
    assert_non_null(strstr(q.body, "\"worker\":\"w2\",\"status\":\"LH_ERR_CORRUPT\""));
    second_hop_body(&r, 8, body, sizeof(body));
    /* cut */
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/8", body, length - 1), 400);
    ring_run_for(&r, 50);
    assert_int_equal(ring_pages_free(&r, 1),
                     lh_kv_cache_pages_total(lh_stage_kv(r.workers[1].stage)));
    second_hop_body(&r, 9, body, sizeof(body));
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/9", body, length), 200);
    assert_string_equal(q.body, "{}");
    /* again */
    assert_int_equal(raw_client_request(&q, "POST", "/chains/ring/steps/9", body, length), 409);
    assert_non_null(strstr(q.body, "has come before"));
    raw_client_close(&q);
    ring_close(&r);
}

static bool has_left(void *stream) {
    return lh_h2_stream_queued_bytes(stream) == 0;
}

/* With a window of one frame, which the refused bytes have filled. */
static void test_who_goes_on_after_a_refusal_does_not_wait(void **state) {
    (void)state;
    enum { REST = 100000 };
    ring r;
    raw_client q;
    ring_options options = ring_default_options(2);
    options.limits.window_bytes = 16 << 10;
    ring_open(&r, &options);
    raw_client_open(&q, &r.loop, r.workers[1].address);
    uint8_t *body = calloc(1, REST);
    assert_non_null(body);
    second_hop_body(&r, 7, body, REST);
    /* another step's path */
    lh_h2_stream *stream = raw_client_begin(&q, "POST", "/chains/ring/steps/8");
    assert_int_equal(lh_h2_stream_write_owned(stream, body, REST), LH_OK);
    assert_true(loop_run_until(&r.loop, has_left, stream, 20000));
    assert_int_equal(q.http_status, 400);
    lh_h2_stream_end(stream);
    loop_run_until_set(&r.loop, &q.closed);
    raw_client_close(&q);
    ring_close(&r);
}

static void test_a_lost_connection_cancels_its_steps(void **state) {
    (void)state;
    ring r;
    raw_client q;
    ring_open_workers(&r, 2);
    raw_client_open(&q, &r.loop, r.workers[1].address);
    uint8_t body[8192];
    size_t length = second_hop_body(&r, 7, body, sizeof(body));
    lh_h2_stream_write(raw_client_begin(&q, "POST", "/chains/ring/steps/7"), body, length / 2);
    size_t total = lh_kv_cache_pages_total(lh_stage_kv(r.workers[1].stage));
    while (ring_pages_free(&r, 1) == total)
        ring_run_for(&r, 5);
    raw_client_close(&q);
    for (int i = 0; i < 200 && ring_pages_free(&r, 1) != total; i++)
        ring_run_for(&r, 5);
    assert_int_equal(ring_pages_free(&r, 1), total);
    ring_close(&r);
}

/* Moments of one worker, in an order that cannot be another. */
static void expect_order(const uint32_t *moments, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_true(moments[i] != LH_STEP_TIMES_NEVER);
        assert_true(i == 0 || moments[i - 1] <= moments[i]);
    }
}

static void expect_own_times(const lh_step_times *t, bool is_first, bool is_last) {
    expect_order((uint32_t[]){t->manifest_us, t->begin_us, t->begun_us, t->finish_us,
                              t->finished_us, t->passed_us, t->answered_us},
                 7);
    expect_order((uint32_t[]){t->manifest_us, t->submitted_us, t->sent_us, t->passed_us}, 4);
    assert_int_equal(t->taken_count, is_first ? 0 : 3);
    assert_int_equal(t->given_count, is_last ? 0 : 3);
    for (uint32_t i = 0; i < t->taken_count; i++) {
        const lh_step_shard_taken *shard = &t->taken[i];
        assert_int_equal(shard->rows, PROMPT);
        assert_int_equal(shard->bytes, 24 + PROMPT * shard->columns * 4);
        expect_order(
            (uint32_t[]){shard->came_us, shard->accept_us, shard->accepted_us, t->finish_us}, 4);
    }
    for (uint32_t i = 0; i < t->given_count; i++) {
        const lh_step_shard_given *shard = &t->given[i];
        expect_order((uint32_t[]){t->finish_us, shard->emitted_us, shard->handed_us, shard->left_us,
                                  t->sent_us},
                     5);
    }
}

/* All run on one machine, so that their clocks are one. */
static void expect_hop(const lh_step_times *from, const lh_step_times *to) {
    assert_true(from->base_us + from->submitted_us <= to->base_us);
    assert_true(to->base_us + to->answered_us <= from->base_us + from->passed_us);
    for (uint32_t i = 0; i < to->taken_count; i++) {
        assert_int_equal(from->given[i].first_column, to->taken[i].first_column);
        assert_int_equal(from->given[i].bytes, to->taken[i].bytes + 16);
        assert_true(from->base_us + from->given[i].handed_us <= to->base_us + to->taken[i].came_us);
    }
}

static void test_times(void **state) {
    (void)state;
    static ring r;
    static lh_step_times times[3];
    ring_step step;
    ring_options options = ring_default_options(3);
    options.column_shards = 3;
    ring_open(&r, &options);
    lh_step_segment segment = ring_segment(5, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    manifest.timed = true;
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    size_t offset = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(lh_step_times_read(r.times, r.times_length, &offset, &times[i], NULL),
                         LH_OK);
        assert_string_equal(times[i].worker, r.workers[i].name);
        expect_own_times(&times[i], i == 0, i == 2);
    }
    assert_int_equal(offset, r.times_length);
    expect_hop(&times[0], &times[1]);
    expect_hop(&times[1], &times[2]);
    r.times_length = 0;
    segment = ring_segment(5, PROMPT, 1);
    manifest = ring_manifest(&r, 2, &segment, &r.results[0].answer.token);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_int_equal(r.times_length, 0); /* where it was not asked for, nothing comes */
    ring_close(&r);
}

static uint32_t kv_epoch_of(const ring *r, uint32_t worker) {
    lh_server_status status;
    lh_server_read_status(r->workers[worker].server, &status);
    return status.kv_epoch;
}

static lh_step_manifest resync_of(const ring *r, const lh_step_truncation *resync, uint32_t count) {
    lh_step_manifest manifest = ring_manifest(r, 1, &(lh_step_segment){0}, NULL);
    manifest.rows = manifest.segment_count = 0;
    manifest.step_class = LH_STEP_DECODE;
    manifest.resyncs = true;
    manifest.truncation_count = count;
    manifest.truncations = resync;
    return manifest;
}

/* The next epoch goes on from what this one has left, once the KV resync is called, with the very
 * token. */
static void test_a_kept_cache_goes_on(void **state) {
    (void)state;
    ring r;
    ring_step step;
    ring_open_workers(&r, 3);
    lh_step_segment whole = ring_segment(1, 0, PROMPT), half = ring_segment(2, 0, PROMPT / 2),
                    rest = ring_segment(2, PROMPT / 2, PROMPT - PROMPT / 2);
    lh_step_manifest manifest = ring_manifest(&r, 1, &whole, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    manifest = ring_manifest(&r, 2, &half, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_int_equal(kv_epoch_of(&r, 0), 1);
    r.kv_epoch = 1;
    ring_set_epoch(&r, 2);
    assert_int_equal(kv_epoch_of(&r, 2), 1);
    const lh_step_truncation resync[] = {{2, PROMPT / 2}};
    manifest = resync_of(&r, resync, 1);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    size_t free_pages = ring_pages_free(&r, 1);
    uint32_t count = r.result_count;
    rest.ask.sampling = whole.ask.sampling;
    rest.ask.draws = true;
    manifest = ring_manifest(&r, 2, &rest, r.prompt + PROMPT / 2);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_int_equal(r.result_count, count + 1);
    assert_int_equal(r.results[count].answer.token, r.results[0].answer.token);
    assert_int_equal(ring_pages_free(&r, 1), free_pages); /* that of sequence 1 is free */
    manifest = ring_manifest(&r, 3, &whole, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK); /* it is forgotten: begins anew */
    ring_close(&r);
}

static void test_a_kept_cache_asks_for_a_kv_resync(void **state) {
    (void)state;
    ring r;
    ring_step step;
    ring_open_workers(&r, 2);
    lh_step_segment segment = ring_segment(1, 0, PROMPT);
    lh_step_manifest manifest = ring_manifest(&r, 1, &segment, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    r.kv_epoch = 1;
    ring_set_epoch(&r, 2);
    manifest = ring_manifest(&r, 1, &segment, NULL);
    expect_failure(&r, &manifest, LH_ERR_INVALID, NULL); /* no KV resync */
    manifest = resync_of(&r, NULL, 0);
    manifest.step = 2;
    expect_failure(&r, &manifest, LH_ERR_INVALID, NULL); /* too late */
    ring_set_epoch(&r, 3);
    const lh_step_truncation resync[] = {{1, PROMPT + 1}};
    manifest = resync_of(&r, resync, 1);
    expect_failure(&r, &manifest, LH_ERR_INVALID, NULL); /* more than there is */
    ring_set_epoch(&r, 4);
    manifest = resync_of(&r, NULL, 0);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_int_equal(ring_pages_free(&r, 1),
                     lh_kv_cache_pages_total(lh_stage_kv(r.workers[1].stage)));
    r.kv_epoch = 4; /* it was last emptied with 1, as far as anybody was told */
    ring_set_epoch(&r, 5);
    assert_int_equal(kv_epoch_of(&r, 0), 5);
    manifest = resync_of(&r, NULL, 0);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK); /* passed on */
    ring_close(&r);
}

/* The last worker has kept its cache, those before it get the history again, in steps that end
 * there; then all go on, with the very token. */
static void test_a_step_may_end_before_the_ring(void **state) {
    (void)state;
    ring r;
    ring_step step;
    ring_open_workers(&r, 3);
    lh_step_segment whole = ring_segment(1, 0, PROMPT), half = ring_segment(2, 0, PROMPT / 2),
                    rest = ring_segment(2, PROMPT / 2, PROMPT - PROMPT / 2);
    half.ask.draws = false;
    lh_step_manifest manifest = ring_manifest(&r, 1, &whole, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    manifest = ring_manifest(&r, 2, &half, NULL);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    r.kv_epoch = 1;
    r.kv_from = 2;
    ring_set_epoch(&r, 2);
    const lh_step_truncation resync[] = {{2, PROMPT / 2}};
    manifest = resync_of(&r, resync, 1);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    lh_server_status before, after;
    lh_server_read_status(r.workers[2].server, &before);
    manifest = ring_manifest(&r, 2, &half, NULL);
    manifest.hop_limit = 2;
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    lh_server_read_status(r.workers[2].server, &after);
    assert_int_equal(after.steps_done, before.steps_done);
    uint32_t count = r.result_count;
    manifest = ring_manifest(&r, 3, &rest, r.prompt + PROMPT / 2);
    assert_int_equal(ring_run(&r, &manifest, &step), LH_OK);
    assert_int_equal(r.result_count, count + 1);
    assert_int_equal(r.results[count].answer.token, r.results[0].answer.token);
    manifest = ring_manifest(&r, 4, &half, NULL); /* beyond what they have */
    manifest.hop_limit = 1;
    expect_failure(&r, &manifest, LH_ERR_INVALID, "w1");
    ring_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_one_answer_bit_for_bit),
        cmocka_unit_test(test_f16_depends_on_the_split_alone),
        cmocka_unit_test(test_small_windows_and_queues_only_slow_down),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_an_epoch_ends_the_steps_in_progress),
        cmocka_unit_test(test_each_step_is_counted_once),
        cmocka_unit_test(test_what_is_not_measured),
        cmocka_unit_test(test_a_failure_further_on_names_its_worker),
        cmocka_unit_test(test_a_dead_hop_is_told_by_the_worker_before_it),
        cmocka_unit_test(test_cancel_frees_everything),
        cmocka_unit_test(test_drain_and_removal),
        cmocka_unit_test(test_a_proven_hop_is_taken_over),
        cmocka_unit_test(test_why_a_hop_cannot_be_used),
        cmocka_unit_test(test_paths_and_methods),
        cmocka_unit_test(test_a_corrupt_shard_is_refused),
        cmocka_unit_test(test_who_goes_on_after_a_refusal_does_not_wait),
        cmocka_unit_test(test_a_lost_connection_cancels_its_steps),
        cmocka_unit_test(test_a_kept_cache_goes_on),
        cmocka_unit_test(test_a_kept_cache_asks_for_a_kv_resync),
        cmocka_unit_test(test_a_step_may_end_before_the_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
