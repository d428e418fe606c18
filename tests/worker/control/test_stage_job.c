/* One job after the other on the loop of a worker that has nothing else to do. */
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
        .activations = LH_ACTIVATION_Q8,
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stage_is_built_and_timed),
        cmocka_unit_test(test_weights_alone_are_fetched),
        cmocka_unit_test(test_a_stage_that_is_more_than_what_is_free_is_refused),
        cmocka_unit_test(test_what_goes_wrong_is_told),
        cmocka_unit_test(test_a_cancelled_one_ends_while_it_fetches),
        cmocka_unit_test(test_a_cancelled_one_ends_while_it_is_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
