/* How long a stage that was loaded may be timed: less where sequences wait for it. */
#include "tests/support/loop.h"
#include "tests/worker/support/reconciler_bench.h"
#include "tests/worker/support/scripted_trials.h"
#include "worker/control/stage_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool is_done;

static void on_done(void *context, const lh_error *failure) {
    (void)context;
    assert_null(failure);
    is_done = true;
}

static lh_control_assignment whole_model(const reconciler_bench *b) {
    lh_control_assignment a = {
        .last_layer = 4,
        .layers = 4,
        .context = 256,
        .rows_max = 64,
        .steps_max = 4,
        .activations = "q8",
        .kv_type = "f32",
        .model = {.file_bytes = b->model_bytes, .header_bytes = b->header_bytes}};
    const char *files = range_server_url(b->files);
    strcpy(a.model.header_sha256, b->header_sha256);
    snprintf(a.model.weights_url, sizeof a.model.weights_url, "%s/weights", files);
    snprintf(a.model.tensors_url, sizeof a.model.tensors_url, "%s/tensors", files);
    return a;
}

static void an_urgent_one_is_timed_less(void **state) {
    (void)state;
    for (int urgent = 0; urgent < 2; urgent++) {
        reconciler_bench b;
        lh_stage_job *job;
        reconciler_bench_open(&b);
        lh_stage_job_options options = {.gateway_url = b.gateway.url,
                                        .cache = b.cache,
                                        .pool = b.pool,
                                        .kv_bytes = 4u << 20,
                                        .is_urgent = urgent};
        const lh_control_assignment assignment = whole_model(&b);
        assert_int_equal(lh_kernels_select(NULL, &options.kernels, NULL), LH_OK);
        is_done = false;
        scripted_trials_budget_us = 0;
        assert_int_equal(
            lh_stage_job_start(&b.loop, &options, &assignment, on_done, NULL, &job, NULL), LH_OK);
        loop_run_until_set(&b.loop, &is_done);
        assert_true(scripted_trials_budget_us == (urgent ? 60000 : 700000));
        lh_stage_job_destroy(job);
        reconciler_bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_urgent_one_is_timed_less)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
