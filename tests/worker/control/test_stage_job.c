/* One job after the other on the loop of a worker that has nothing else to do. */
#include "common/net/listener.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"
#include "tests/worker/support/reconciler_bench.h"
#include "worker/control/stage_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct bench {
    reconciler_bench worker;
    lh_stage_job_options options;
    lh_control_assignment assignment;
    lh_stage_job *job;
    bool done;
    lh_status status;
    char message[LH_ERROR_MESSAGE_BYTES];
} bench;

static void bench_open(bench *b) {
    reconciler_bench_open(&b->worker);
    b->options = (lh_stage_job_options){.gateway_url = b->worker.gateway.url,
                                        .cache = b->worker.cache,
                                        .pool = b->worker.pool,
                                        .kv_bytes = 4u << 20};
    assert_int_equal(lh_kernels_select(NULL, &b->options.kernels, NULL), LH_OK);
    lh_control_assignment *a = &b->assignment;
    *a = (lh_control_assignment){
        .last_layer = 4,
        .layers = 4,
        .context = 256,
        .rows_max = 64,
        .steps_max = 4,
        .activations = "q8",
        .kv_type = "f32",
        .model = {.file_bytes = b->worker.model_bytes, .header_bytes = b->worker.header_bytes}};
    const char *files = range_server_url(b->worker.files);
    strcpy(a->model.header_sha256, b->worker.header_sha256);
    snprintf(a->model.weights_url, sizeof a->model.weights_url, "%s/weights", files);
    snprintf(a->model.tensors_url, sizeof a->model.tensors_url, "%s/tensors", files);
}

static void on_done(void *context, const lh_error *failure) {
    bench *b = context;
    assert_false(b->done);
    b->done = true;
    b->status = failure ? failure->status : LH_OK;
    snprintf(b->message, sizeof b->message, "%s", failure ? failure->message : "");
}

static void start(bench *b) {
    b->done = false;
    assert_int_equal(
        lh_stage_job_start(&b->worker.loop, &b->options, &b->assignment, on_done, b, &b->job, NULL),
        LH_OK);
}

static lh_status finish(bench *b) {
    loop_run_until_set(&b->worker.loop, &b->done);
    return b->status;
}

static void bench_close(bench *b) {
    reconciler_bench_close(&b->worker);
}

static void test_a_stage_is_built_and_timed(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    for (int beside = 0; beside < 2; beside++) {
        b.options.is_beside = beside;
        start(&b);
        assert_int_equal(finish(&b), LH_OK);
        uint64_t done, total;
        assert_int_equal(lh_stage_job_progress(b.job, &done, &total), LH_WORKER_LOADING);
        assert_true(done == total && total > 0);
        lh_built_stage built = lh_stage_job_take(b.job);
        lh_stage_job_destroy(b.job);
        assert_non_null(built.stage);
        assert_int_equal(built.profile.points[0].rows, 1);
        assert_true(built.profile.point_count > 1);
        /* whichever threads built it: it computes on the worker's */
        assert_ptr_equal(lh_stage_made_with(built.stage)->pool, b.worker.pool);
        assert_int_equal(lh_stage_made_with(built.stage)->context, 256);
        lh_stage_destroy(built.stage);
    }
    bench_close(&b);
}

/* What has come, also of a stage that is not to be built. */
static void test_what_is_cached_is_listed(void **state) {
    (void)state;
    bench b;
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
    char layers[LH_CACHED_TEXT_BYTES];
    bench_open(&b);
    assert_int_equal(lh_weight_inventory_create(b.worker.folder, NULL, &b.options.inventory, NULL),
                     LH_OK);
    b.assignment.weights_only = true;
    b.assignment.first_layer = 1;
    b.assignment.last_layer = 3;
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    lh_stage_job_destroy(b.job);
    assert_int_equal(lh_weight_inventory_read(b.options.inventory, models), 1);
    assert_string_equal(models[0].model, b.worker.header_sha256);
    lh_cached_layers_render(&models[0], layers);
    assert_string_equal(layers, "1-2");
    b.assignment.first_layer = 0; /* with the embedding, which is the head as well */
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    lh_stage_job_destroy(b.job);
    assert_int_equal(lh_weight_inventory_read(b.options.inventory, models), 1);
    lh_cached_layers_render(&models[0], layers);
    assert_string_equal(layers, "0-2");
    lh_weight_inventory_destroy(b.options.inventory);
    bench_close(&b);
}

static void test_weights_alone_are_fetched(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    b.assignment.weights_only = true;
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    uint64_t done, total;
    assert_int_equal(lh_stage_job_progress(b.job, &done, &total), LH_WORKER_FETCHING);
    assert_true(done == total && total > 0);
    assert_null(lh_stage_job_take(b.job).stage);
    lh_stage_job_destroy(b.job);
    unsigned requests = range_server_requests(b.worker.files);
    b.assignment.weights_only = false;
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    lh_stage_job_destroy(b.job); /* with a stage that nobody took */
    assert_int_equal(range_server_requests(b.worker.files), requests + 1); /* the digests */
    bench_close(&b);
}

/* Nothing is fetched for a stage that would not fit; and when memory is free, it is built. */
static void test_a_stage_that_is_more_than_what_is_free_is_refused(void **state) {
    (void)state;
    bench b;
    char folder[] = "/tmp/longhaul-job-XXXXXX", path[64];
    bench_open(&b);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/meminfo", folder);
    FILE *meminfo = fopen(path, "w");
    fputs("MemTotal: 16384 kB\nMemAvailable: 1024 kB\n", meminfo);
    fflush(meminfo);
    lh_memory_gauge *gauge = lh_memory_gauge_open(folder, folder);
    b.options.memory = gauge;
    start(&b);
    assert_int_equal(finish(&b), LH_ERR_LIMIT);
    assert_non_null(strstr(b.message, "layers 0-3 need 0.0"));
    assert_non_null(strstr(b.message, "and 0.00 GiB are free: lower --kv-bytes"));
    assert_int_equal(range_server_requests(b.worker.files), 2); /* the header, the digests */
    lh_stage_job_destroy(b.job);
    b.assignment.weights_only = true;
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    lh_stage_job_destroy(b.job);
    b.assignment.weights_only = false;
    rewind(meminfo);
    fputs("MemTotal: 16384 kB\nMemAvailable: 16000 kB\n", meminfo);
    fclose(meminfo);
    start(&b);
    assert_int_equal(finish(&b), LH_OK);
    lh_stage_job_destroy(b.job);
    lh_memory_gauge_close(gauge);
    unlink(path);
    rmdir(folder);
    bench_close(&b);
}

static void test_what_goes_wrong_is_told(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    b.assignment.layers = 5;
    start(&b);
    assert_int_equal(finish(&b), LH_ERR_INVALID);
    assert_string_equal(b.message, "the assignment speaks of 5 layers, the model has 4");
    lh_stage_job_destroy(b.job);
    b.assignment.layers = 4;
    b.assignment.context = 100000;
    for (int beside = 0; beside < 2; beside++) {
        b.options.is_beside = beside;
        start(&b);
        assert_int_equal(finish(&b), LH_ERR_INVALID);
        assert_non_null(strstr(b.message, "100000"));
        lh_stage_job_destroy(b.job);
    }
    range_server_fail_whole(b.worker.files, RANGE_404, 1);
    start(&b);
    assert_int_equal(finish(&b), LH_ERR_NOT_FOUND);
    lh_stage_job_destroy(b.job);
    failing_malloc_arm(1);
    assert_int_equal(
        lh_stage_job_start(&b.worker.loop, &b.options, &b.assignment, on_done, &b, &b.job, NULL),
        LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    bench_close(&b);
}

static void test_a_cancelled_one_ends_while_it_fetches(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    range_server_fail(b.worker.files, RANGE_SILENT, 100); /* longer than anybody waits */
    start(&b);
    unsigned requests = range_server_requests(b.worker.files);
    while (range_server_requests(b.worker.files) == requests)
        loop_run_for(&b.worker.loop, 1);
    lh_stage_job_cancel(b.job);
    assert_int_equal(finish(&b), LH_ERR_CANCELLED);
    lh_stage_job_destroy(b.job);
    bench_close(&b);
}

/* On a machine that is played so slow that the trials of one take all of their time. */
static void test_a_cancelled_one_ends_while_it_is_timed(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    lh_slowdown_set(lh_thread_pool_slowdown(b.worker.pool), LH_SLOWDOWN_MAX);
    start(&b);
    uint64_t done = 0, total = 1;
    while (lh_stage_job_progress(b.job, &done, &total) != LH_WORKER_LOADING || done < total)
        loop_run_for(&b.worker.loop, 1);
    lh_stage_job_cancel(b.job);
    assert_int_equal(finish(&b), LH_ERR_CANCELLED);
    lh_stage_job_destroy(b.job);
    lh_slowdown_set(lh_thread_pool_slowdown(b.worker.pool), 1);
    bench_close(&b);
}

/* ---- Teams, prepared ---- */

/* Two machines on one loop: the bench's, and another one that has what that has, but for a pool and
 * a listener. */
typedef struct pair {
    bench first, second;
    int listeners[2];
    lh_thread_pool *pool;
} pair;

static void on_team_failed(void *context) {
    (void)context;
}

static void pair_open(pair *p) {
    bench_open(&p->first);
    p->second = (bench){.options = p->first.options, .assignment = p->first.assignment};
    assert_int_equal(lh_thread_pool_create(1, &p->pool, NULL), LH_OK);
    p->second.options.pool = p->pool;
    for (uint32_t i = 0; i < 2; i++) {
        bench *b = i == 0 ? &p->first : &p->second;
        lh_control_team *team = &b->assignment.team;
        uint16_t port;
        assert_int_equal(lh_listener_open("127.0.0.1:0", &p->listeners[i], &port, NULL), LH_OK);
        b->options.member_listener = p->listeners[i];
        b->options.on_team_failed = on_team_failed;
        b->options.is_beside = true;
        strcpy(b->assignment.chain, "c");
        *team = (lh_control_team){
            .count = 2, .own = i, .epoch = 7, .members = {{.weight = 1}, {.weight = 1}}};
        snprintf(p->first.assignment.team.members[i].address, LH_ADDRESS_BYTES, "127.0.0.1:%u",
                 port);
    }
    memcpy(p->second.assignment.team.members, p->first.assignment.team.members,
           sizeof p->first.assignment.team.members);
}

static void start_second(pair *p) {
    p->second.done = false;
    assert_int_equal(lh_stage_job_start(&p->first.worker.loop, &p->second.options,
                                        &p->second.assignment, on_done, &p->second, &p->second.job,
                                        NULL),
                     LH_OK);
}

static lh_status finish_second(pair *p) {
    loop_run_until_set(&p->first.worker.loop, &p->second.done);
    return p->second.status;
}

/* It waits for the other one, or they are being timed. */
static void await_loaded(pair *p, const lh_stage_job *job) {
    uint64_t done = 0, total = 1;
    while (lh_stage_job_progress(job, &done, &total) != LH_WORKER_LOADING || done < total)
        loop_run_for(&p->first.worker.loop, 1);
}

static void pair_close(pair *p) {
    close(p->listeners[0]);
    close(p->listeners[1]);
    lh_thread_pool_destroy(p->pool);
    bench_close(&p->first);
}

/* What it has computed meanwhile is forgotten, and both begin when they are needed. */
static void test_a_team_is_prepared_and_rests(void **state) {
    (void)state;
    pair p;
    pair_open(&p);
    start(&p.first);
    start_second(&p);
    assert_int_equal(finish(&p.first), LH_OK);
    assert_int_equal(finish_second(&p), LH_OK);
    lh_built_stage built[] = {lh_stage_job_take(p.first.job), lh_stage_job_take(p.second.job)};
    lh_stage_job_destroy(p.first.job);
    lh_stage_job_destroy(p.second.job);
    assert_true(built[0].profile.point_count > 1 && built[1].profile.point_count == 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lh_kv_cache_sequences(lh_stage_kv(built[i].stage)), 0);
        assert_int_equal(lh_team_begin(built[i].team, NULL), LH_OK);
    }
    lh_stage_reset(built[0].stage);
    assert_int_equal(lh_team_failure(built[0].team, NULL), LH_OK);
    lh_built_stage_destroy(&built[0]);
    lh_built_stage_destroy(&built[1]);
    pair_close(&p);
}

/* The first one waits for another; that is given up, too, while it does what the first one says. */
static void test_a_team_that_is_not_wanted_ends_at_once(void **state) {
    (void)state;
    pair p;
    pair_open(&p);
    lh_slowdown_set(lh_thread_pool_slowdown(p.first.worker.pool), LH_SLOWDOWN_MAX);
    start(&p.first);
    start_second(&p);
    await_loaded(&p, p.second.job);
    lh_stage_job_cancel(p.second.job);
    assert_int_equal(finish_second(&p), LH_ERR_CANCELLED);
    assert_false(p.first.done);
    lh_stage_job_destroy(p.second.job);
    start_second(&p); /* it comes back */
    loop_run_for(&p.first.worker.loop, 100);
    lh_stage_job_cancel(p.first.job);
    assert_int_equal(finish(&p.first), LH_ERR_CANCELLED);
    lh_stage_job_cancel(p.second.job);
    assert_int_equal(finish_second(&p), LH_ERR_CANCELLED);
    lh_stage_job_destroy(p.first.job);
    lh_stage_job_destroy(p.second.job);
    lh_slowdown_set(lh_thread_pool_slowdown(p.first.worker.pool), 1);
    pair_close(&p);
}

/* One that is lost in the trials is awaited, and they begin anew. */
static void test_a_team_forms_again_before_it_is_needed(void **state) {
    (void)state;
    pair p;
    pair_open(&p);
    lh_slowdown_set(lh_thread_pool_slowdown(p.first.worker.pool), LH_SLOWDOWN_MAX);
    start(&p.first);
    start_second(&p);
    await_loaded(&p, p.first.job);
    await_loaded(&p, p.second.job);
    loop_run_for(&p.first.worker.loop, 300); /* of trials that take longer */
    lh_stage_job_cancel(p.second.job);
    assert_int_equal(finish_second(&p), LH_ERR_CANCELLED);
    lh_stage_job_destroy(p.second.job);
    start_second(&p);
    assert_int_equal(finish_second(&p), LH_OK);
    assert_int_equal(finish(&p.first), LH_OK);
    lh_stage_job_destroy(p.second.job);
    lh_stage_job_destroy(p.first.job);
    lh_slowdown_set(lh_thread_pool_slowdown(p.first.worker.pool), 1);
    pair_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_is_built_and_timed),
        cmocka_unit_test(test_what_is_cached_is_listed),
        cmocka_unit_test(test_weights_alone_are_fetched),
        cmocka_unit_test(test_a_stage_that_is_more_than_what_is_free_is_refused),
        cmocka_unit_test(test_what_goes_wrong_is_told),
        cmocka_unit_test(test_a_cancelled_one_ends_while_it_fetches),
        cmocka_unit_test(test_a_cancelled_one_ends_while_it_is_timed),
        cmocka_unit_test(test_a_team_is_prepared_and_rests),
        cmocka_unit_test(test_a_team_that_is_not_wanted_ends_at_once),
        cmocka_unit_test(test_a_team_forms_again_before_it_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
