/* From an assignment to a stage: weights, hyper-parameters, repacking, calibration. */
#include "worker/assignment/assignment_job.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/assignment/assignment_trial.h"
#include "worker/weights/weights.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOG_EVERY_US 1000000
/* Arithmetic between a loaded stage and one that is said to be ready; and where sequences wait for it, whose steps will
 * tell the rest. */
#define CALIBRATION_US        700000.0
#define URGENT_CALIBRATION_US 60000.0

/* How nice a job is to the stage that computes beside it: the kernel gives it a third of that one's share where both want
 * a core. */
#define BESIDE_NICENESS 5

struct lh_assignment_job {
    lh_assignment_job_options options;
    lh_control_assignment assignment;
    _Atomic bool cancelled;
    atomic_bool loading;
    _Atomic uint64_t done_bytes, total_bytes;
    int64_t logged_us;
    lh_stage *stage;
    uint32_t width;
    lh_compute_profile profile;
    lh_thread_pool *pool; /* that it works with */
    lh_status status;     /* of a run beside */
    lh_error *error;
};

lh_status lh_assignment_job_create(const lh_assignment_job_options *options,
                                   const lh_control_assignment *assignment, lh_assignment_job **job,
                                   lh_error *error) {
    lh_assignment_job *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "assignment: out of memory");
    }
    made->options = *options;
    made->assignment = *assignment;
    *job = made;
    return LH_OK;
}

void lh_assignment_job_destroy(lh_assignment_job *job) {
    if (job->stage != NULL) {
        lh_stage_destroy(job->stage);
    }
    free(job);
}

/* One line a second at most. */
static void on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes) {
    lh_assignment_job *job = context;
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

static void begin_phase(lh_assignment_job *job, bool loading) {
    atomic_store(&job->loading, loading);
    atomic_store(&job->done_bytes, 0);
    atomic_store(&job->total_bytes, 0);
    job->logged_us = lh_clock_us();
}

static lh_status open_weights(lh_assignment_job *job, lh_weights **weights, lh_error *error) {
    const lh_assignment_job_options *options = &job->options;
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
    if (options->tls != NULL) {
        weights_options.certificate_file = options->tls->certificate_file;
        weights_options.key_file = options->tls->key_file;
        weights_options.ca_file = options->tls->ca_file;
    }
    return lh_weights_open(&weights_options, weights, error);
}

/* A stage that could not be timed is as good as another: the steps to come will tell. */
static lh_status calibrate(lh_assignment_job *job, const lh_stage_options *stage,
                           const lh_model_config *config, lh_error *error) {
    const lh_trial_options options = {.stage = job->stage,
                                      .range = stage->range,
                                      .config = config,
                                      .context = stage->context,
                                      .rows_max = stage->rows_max,
                                      .wire = job->assignment.wire,
                                      .budget_us =
                                          job->options.is_urgent ? URGENT_CALIBRATION_US : CALIBRATION_US,
                                      .slowdown = lh_thread_pool_slowdown(stage->pool),
                                      .cancelled = &job->cancelled};
    const lh_compute_profile *profile = &job->profile;
    int64_t begin_us = lh_clock_us();
    lh_status status = lh_trial_run_all(&options, &job->profile, error);
    if (status == LH_ERR_CANCELLED) {
        return status;
    }
    if (status != LH_OK) {
        lh_log(LH_LOG_WARN, "assignment", "calibration ends early reason=\"%s\"", error->message);
    }
    if (profile->point_count > 0) {
        const lh_compute_point *first = &profile->points[0],
                               *last = &profile->points[profile->point_count - 1];
        lh_log(LH_LOG_INFO, "assignment", "calibrated points=%u rows_%u_us=%.0f rows_%u_us=%.0f took_ms=%lld",
               profile->point_count, first->rows, first->us, last->rows, last->us,
               (long long)((lh_clock_us() - begin_us) / 1000));
    }
    return LH_OK;
}

static lh_status build(lh_assignment_job *job, lh_weights *weights, lh_error *error) {
    const lh_control_assignment *assignment = &job->assignment;
    lh_layer_range range = {assignment->first_layer, assignment->last_layer};
    lh_model_config config;
    lh_status status = lh_model_config_read(lh_weights_gguf(weights), &config, error);
    if (status != LH_OK) {
        return status;
    }
    if (config.layers != assignment->layers) {
        return lh_fail(error, LH_ERR_INVALID, "the assignment speaks of %u layers, the model has %u",
                       assignment->layers, config.layers);
    }
    status = lh_weights_ensure(weights, &config, range, on_progress, job, error);
    if (status != LH_OK) {
        return status;
    }
    lh_log(LH_LOG_INFO, "assignment",
           "weights are here layers=%u..%u fetched_bytes=%" PRIu64 " needed_bytes=%" PRIu64,
           assignment->first_layer, assignment->last_layer, lh_weights_fetched_bytes(weights),
           atomic_load(&job->total_bytes));
    if (job->options.fetches_only) {
        return LH_OK;
    }
    begin_phase(job, true);
    lh_weight_source source = lh_weights_source(weights);
    lh_stage_options options = {.range = range,
                                .kv_bytes = job->options.kv_bytes,
                                .context = assignment->context,
                                .rows_max = assignment->rows_max,
                                .steps_max = assignment->steps_max,
                                .activations = assignment->activations,
                                .kernels = job->options.kernels,
                                .pool = job->pool};
    job->width = config.width;
    status = lh_stage_create(lh_weights_gguf(weights), &config, &source, &options, on_progress, job,
                             &job->stage, error);
    return status == LH_OK ? calibrate(job, &options, &config, error) : status;
}

static lh_status run(lh_assignment_job *job, lh_error *error) {
    lh_weights *weights = NULL;
    begin_phase(job, false);
    lh_status status = open_weights(job, &weights, error);
    if (status != LH_OK) {
        return status;
    }
    status = build(job, weights, error);
    lh_weights_close(weights);
    return status;
}

/* A thread's niceness is its own, on Linux, and that of the threads that it starts; it can be taken back by nobody
 * without rights. So this is a thread for this alone. */
static void *run_beside(void *argument) {
    lh_assignment_job *job = argument;
    lh_thread_pool *own = job->options.pool;
    setpriority(PRIO_PROCESS, (id_t)gettid(), BESIDE_NICENESS);
    job->status = lh_thread_pool_create(lh_thread_pool_size(own), &job->pool, job->error);
    if (job->status != LH_OK) {
        return NULL;
    }
    lh_slowdown_set(lh_thread_pool_slowdown(job->pool), lh_slowdown_factor(lh_thread_pool_slowdown(own)));
    job->status = run(job, job->error);
    if (job->stage != NULL) {
        lh_stage_use_pool(job->stage, own);
    }
    lh_thread_pool_destroy(job->pool);
    return NULL;
}

lh_status lh_assignment_job_run(lh_assignment_job *job, lh_error *error) {
    pthread_t thread;
    job->pool = job->options.pool;
    if (!job->options.is_beside) {
        return run(job, error);
    }
    job->error = error;
    if (pthread_create(&thread, NULL, run_beside, job) != 0) {
        return lh_fail(error, LH_ERR_IO, "a thread to prepare a stage could not be started");
    }
    pthread_join(thread, NULL);
    return job->status;
}

lh_stage *lh_assignment_job_take(lh_assignment_job *job, uint32_t *width, lh_compute_profile *profile) {
    lh_stage *stage = job->stage;
    job->stage = NULL;
    *width = job->width;
    *profile = job->profile;
    return stage;
}

void lh_assignment_job_cancel(lh_assignment_job *job) {
    atomic_store(&job->cancelled, true);
}

void lh_assignment_job_read_progress(const lh_assignment_job *job, lh_assignment_progress *progress) {
    *progress = (lh_assignment_progress){.loading = atomic_load(&job->loading),
                                         .done_bytes = atomic_load(&job->done_bytes),
                                         .total_bytes = atomic_load(&job->total_bytes)};
}
