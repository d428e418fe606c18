/* Fetches the weights of an assignment, builds its stage and times it: blocking work, for a thread that may
 * wait. The thread pool must be idle, since a stage packs its weights with it; or else the job works beside it, with
 * threads of its own that leave the pool's most of the machine.
 *
 * Thread: run is for one thread; cancel and progress may be called by any other meanwhile. */
#pragma once

#include "common/tls_channel.h"
#include "worker/api/measurements.h"
#include "worker/assignment/control_json.h"
#include "worker/stage/stage.h"
#include "worker/weights/weight_cache.h"

typedef struct lh_assignment_job lh_assignment_job;

typedef struct lh_assignment_job_options {
    const char *gateway_url;
    const lh_tls_options *tls; /* NULL: none */
    lh_weight_cache *cache;
    const char *model_path; /* a local GGUF file, or NULL */
    const lh_kernels *kernels;
    lh_thread_pool *pool;
    size_t kv_bytes;
    bool is_beside;    /* another stage computes on the pool meanwhile */
    bool is_urgent;    /* sequences wait: it is timed only as much as it needs to be */
    bool fetches_only; /* the weights into the cache; there will be no stage */
} lh_assignment_job_options;

typedef struct lh_assignment_progress {
    bool loading; /* fetching is over */
    uint64_t done_bytes, total_bytes;
} lh_assignment_progress;

/* All pointers of the options outlive the job; the assignment is copied. LH_ERR_NO_MEMORY. */
lh_status lh_assignment_job_create(const lh_assignment_job_options *options,
                                   const lh_control_assignment *assignment, lh_assignment_job **job,
                                   lh_error *error);
/* Destroys a stage that was not taken. */
void lh_assignment_job_destroy(lh_assignment_job *job);

/* Errors: those of lh_weights_open, lh_model_config_read, lh_weights_ensure, lh_stage_create; LH_ERR_INVALID:
 * the model has another number of layers than the assignment says. */
lh_status lh_assignment_job_run(lh_assignment_job *job, lh_error *error);
/* The stage, the width of its activations and what its steps cost (which may not have been found out), after
 * run gave LH_OK; the stage is the caller's from now on. NULL: it was only to fetch. */
lh_stage *lh_assignment_job_take(lh_assignment_job *job, uint32_t *width, lh_compute_profile *profile);

void lh_assignment_job_cancel(lh_assignment_job *job);
void lh_assignment_job_read_progress(const lh_assignment_job *job, lh_assignment_progress *progress);
