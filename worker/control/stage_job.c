/* Weights, hyper-parameters, repacking, calibration: in this order, on a thread that may wait. */
#include "worker/control/stage_job.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "worker/compute/stage/stage_memory.h"
#include "worker/control/stage_trials.h"
#include "worker/weights/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOG_EVERY_US 1000000
/* Arithmetic between a loaded stage and one that is said to be ready; and where sequences wait for
 * it, whose steps will tell the rest. */
#define CALIBRATION_US        700000.0
#define URGENT_CALIBRATION_US 60000.0

/* How nice a job is to the stage that computes beside it: the kernel gives it a third of that one's
 * share where both want a core. */
#define BESIDE_NICENESS 5

struct lh_stage_job {
    lh_stage_job_options options;
    lh_control_assignment assignment;
    uv_work_t work;
    void (*on_done)(void *context, const lh_error *failure);
    void *context;
    _Atomic bool cancelled;
    atomic_bool loading;
    _Atomic uint64_t done_bytes, total_bytes;
    bool is_done;
    /* The work's, until it is done. */
    int64_t logged_us;
    lh_built_stage built;
    lh_thread_pool *pool; /* that it works with */
    lh_status status;
    lh_error error;
};

/* ---- The work ---- */

/* One line a second at most. */
static void on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes) {
    lh_stage_job *job = context;
    atomic_store(&job->done_bytes, done_bytes);
    atomic_store(&job->total_bytes, total_bytes);
    int64_t now_us = lh_clock_us();
    if (now_us - job->logged_us >= LOG_EVERY_US) {
        job->logged_us = now_us;
        lh_log(LH_LOG_INFO, "assignment", "%s percent=%d done_bytes=%llu total_bytes=%llu",
               atomic_load(&job->loading) ? "loading" : "fetching",
               total_bytes > 0 ? (int)((double)done_bytes / (double)total_bytes * 100) : 100,
               (unsigned long long)done_bytes, (unsigned long long)total_bytes);
    }
}

static lh_status open_weights(lh_stage_job *job, lh_weights **weights, lh_error *error) {
    const lh_stage_job_options *options = &job->options;
    const lh_control_model *model = &job->assignment.model;
    lh_weights_options weights_options = {.header_sha256 = model->header_sha256,
                                          .header_bytes = model->header_bytes,
                                          .file_bytes = model->file_bytes,
                                          .weights_url = model->weights_url,
                                          .tensors_url = model->tensors_url,
                                          .fleet_url = options->gateway_url,
                                          .cache = options->cache,
                                          .pool = job->pool,
                                          .model_path = options->model_path,
                                          .cancelled = &job->cancelled};
    if (options->tls)
        weights_options.certificates = (lh_weight_certificates){
            options->tls->certificate_file, options->tls->key_file, options->tls->ca_file};
    return lh_weights_open(&weights_options, weights, error);
}

/* A stage that could not be timed is as good as another: the steps to come will tell. */
static lh_status calibrate(lh_stage_job *job, lh_error *error) {
    lh_compute_profile *profile = &job->built.profile;
    int64_t begin_us = lh_clock_us();
    lh_status status =
        lh_stage_trials_run(job->built.stage, job->assignment.wire,
                            job->options.is_urgent ? URGENT_CALIBRATION_US : CALIBRATION_US,
                            &job->cancelled, profile, error);
    if (status == LH_ERR_CANCELLED)
        return status;
    if (status != LH_OK)
        lh_log(LH_LOG_WARN, "assignment", "calibration ends early reason=\"%s\"", error->message);
    if (profile->point_count > 0) {
        const lh_compute_point *first = &profile->points[0],
                               *last = &profile->points[profile->point_count - 1];
        lh_log(LH_LOG_INFO, "assignment",
               "calibrated points=%u rows_min=%u min_us=%.0f rows_max=%u max_us=%.0f took_ms=%lld",
               profile->point_count, first->rows, first->us, last->rows, last->us,
               (long long)((lh_clock_us() - begin_us) / 1000));
    }
    return LH_OK;
}

/* The header is what its digest says, so what is wrong with it stays wrong. */
static lh_status read_config(const lh_weights *weights, lh_model_config *config, lh_error *error) {
    lh_error cause;
    lh_status status = lh_model_config_read(lh_weights_gguf(weights), config, &cause);
    if (status == LH_OK)
        return LH_OK;
    if (status != LH_ERR_NO_MEMORY)
        status = LH_ERR_UNSUPPORTED;
    return lh_fail(error, status, "%s", cause.message);
}

/* Before anything is fetched for it: memory that is promised and not there would end the worker
 * later, in the middle of a request. */
static lh_status check_memory(const lh_stage_job *job, const lh_weights *weights,
                              const lh_model_config *config, const lh_stage_options *options,
                              lh_error *error) {
    lh_stage_memory memory;
    if (job->assignment.weights_only)
        return LH_OK;
    lh_status status = lh_stage_memory_count(lh_weights_gguf(weights), config, options,
                                             lh_thread_pool_size(job->pool), &memory, error);
    int64_t free_bytes = options->device ? options->device->free_bytes(options->device)
                                         : lh_memory_gauge_free(job->options.memory);
    return status == LH_OK ? lh_stage_memory_check(&memory, options->range, free_bytes, error)
                           : status;
}

static lh_status build(lh_stage_job *job, lh_weights *weights, lh_error *error) {
    const lh_control_assignment *assignment = &job->assignment;
    lh_layer_range range = {assignment->first_layer, assignment->last_layer};
    lh_model_config config;
    lh_status status = read_config(weights, &config, error);
    if (status != LH_OK)
        return status;
    if (config.layers != assignment->layers) {
        return lh_fail(error, LH_ERR_INVALID,
                       "the assignment speaks of %u layers, the model has %u", assignment->layers,
                       config.layers);
    }
    const lh_stage_options options = {.range = range,
                                      .kv_bytes = job->options.kv_bytes,
                                      .kv_type = assignment->kv_type,
                                      .context = assignment->context,
                                      .rows_max = assignment->rows_max,
                                      .steps_max = assignment->steps_max,
                                      .activations = assignment->activations,
                                      .kernels = job->options.kernels,
                                      .pool = job->pool,
                                      .device = job->options.device};
    status = check_memory(job, weights, &config, &options, error);
    if (status == LH_OK)
        status = lh_weights_ensure(weights, &config, range, on_progress, job, error);
    if (status != LH_OK)
        return status;
    lh_log(LH_LOG_INFO, "assignment",
           "weights are here layers=%u-%u fetched_bytes=%" PRIu64 " needed_bytes=%" PRIu64,
           assignment->first_layer, assignment->last_layer - 1, lh_weights_fetched_bytes(weights),
           atomic_load(&job->total_bytes));
    if (assignment->weights_only)
        return LH_OK;
    atomic_store(&job->loading, true);
    on_progress(job, 0, atomic_load(&job->total_bytes)); /* the same bytes again */
    lh_weight_source source = lh_weights_source(weights);
    status = lh_stage_create(lh_weights_gguf(weights), &config, &source, &options, on_progress, job,
                             &job->built.stage, error);
    return status == LH_OK ? calibrate(job, error) : status;
}

static lh_status run(lh_stage_job *job, lh_error *error) {
    lh_weights *weights = NULL;
    job->logged_us = lh_clock_us();
    lh_status status = open_weights(job, &weights, error);
    if (status != LH_OK)
        return status;
    status = build(job, weights, error);
    lh_weights_close(weights);
    return status;
}

/* A thread's niceness is its own, on Linux, and that of the threads that it starts; without
 * privileges it cannot be taken back. So the job gets a thread of its own. */
static void *run_beside(void *argument) {
    lh_stage_job *job = argument;
    lh_thread_pool *own = job->options.pool;
    setpriority(PRIO_PROCESS, (id_t)gettid(), BESIDE_NICENESS);
    job->status = lh_thread_pool_create(lh_thread_pool_size(own), &job->pool, &job->error);
    if (job->status != LH_OK)
        return NULL;
    lh_slowdown_set(lh_thread_pool_slowdown(job->pool),
                    lh_slowdown_factor(lh_thread_pool_slowdown(own)));
    job->status = run(job, &job->error);
    if (job->built.stage)
        lh_stage_use_pool(job->built.stage, own);
    lh_thread_pool_destroy(job->pool);
    return NULL;
}

static void do_work(uv_work_t *work) {
    lh_stage_job *job = work->data;
    pthread_t thread;
    job->pool = job->options.pool;
    if (!job->options.is_beside)
        job->status = run(job, &job->error);
    else if (pthread_create(&thread, NULL, run_beside, job) == 0)
        pthread_join(thread, NULL);
    else
        job->status =
            lh_fail(&job->error, LH_ERR_IO, "a thread to prepare a stage could not be started");
}

/* ---- For the loop ---- */

static void on_worked(uv_work_t *work, int cancelled) {
    lh_stage_job *job = work->data;
    assert(cancelled == 0 && !job->is_done);
    job->is_done = true;
    job->on_done(job->context, job->status == LH_OK ? NULL : &job->error);
}

lh_status lh_stage_job_start(uv_loop_t *loop, const lh_stage_job_options *options,
                             const lh_control_assignment *assignment,
                             void (*on_done)(void *context, const lh_error *failure), void *context,
                             lh_stage_job **job, lh_error *error) {
    lh_stage_job *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "assignment: out of memory");
    made->options = *options;
    made->assignment = *assignment;
    made->on_done = on_done;
    made->context = context;
    made->work.data = made;
    uv_queue_work(loop, &made->work, do_work, on_worked); /* which cannot fail */
    *job = made;
    return LH_OK;
}

void lh_stage_job_destroy(lh_stage_job *job) {
    assert(job->is_done);
    lh_stage_destroy(job->built.stage);
    free(job);
}

lh_built_stage lh_stage_job_take(lh_stage_job *job) {
    assert(job->is_done && job->status == LH_OK);
    lh_built_stage built = job->built;
    job->built.stage = NULL;
    return built;
}

void lh_stage_job_cancel(lh_stage_job *job) {
    atomic_store(&job->cancelled, true);
}

lh_worker_stage_state lh_stage_job_progress(const lh_stage_job *job, uint64_t *done_bytes,
                                            uint64_t *total_bytes) {
    *done_bytes = atomic_load(&job->done_bytes);
    *total_bytes = atomic_load(&job->total_bytes);
    return atomic_load(&job->loading) ? LH_WORKER_LOADING : LH_WORKER_FETCHING;
}
