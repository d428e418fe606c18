/* One stage from its assignment: fetches the weights, builds the stage and times it. The work waits
 * and computes, so it runs on libuv's pool. The thread pool must be idle meanwhile, since a stage
 * packs its weights with it; or else the job works beside it, with threads of its own that leave
 * the pool's most of the machine.
 *
 * Thread: the loop's. */
#pragma once

#include "common/net/tls_channel.h"
#include "common/protocol/measurements.h"
#include "worker/compute/stage/stage.h"
#include "worker/control/control_json.h"
#include "worker/weights/weight_cache.h"

#include <uv.h>

typedef struct lh_stage_job lh_stage_job;

typedef struct lh_stage_job_options {
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
} lh_stage_job_options;

typedef struct lh_stage_job_progress {
    bool loading; /* fetching is over */
    uint64_t done_bytes, total_bytes;
} lh_stage_job_progress;

/* Starts the work. on_done comes once, from the loop, also after a cancel; *failure (NULL: it went
 * well) is one of lh_weights_open, lh_model_config_read, lh_weights_ensure or lh_stage_create, or
 * LH_ERR_INVALID: the model has another number of layers than the assignment says. All pointers of
 * the options outlive the job; the assignment is copied. LH_ERR_NO_MEMORY, LH_ERR_INTERNAL (the
 * loop takes no work). */
lh_status lh_stage_job_start(uv_loop_t *loop, const lh_stage_job_options *options,
                             const lh_control_assignment *assignment,
                             void (*on_done)(void *context, const lh_error *failure), void *context,
                             lh_stage_job **job, lh_error *error);
/* Once on_done has come; destroys a stage that was not taken. */
void lh_stage_job_destroy(lh_stage_job *job);

/* The stage, the width of its activations and what its steps cost (which may not have been found
 * out), where on_done brought no failure; the stage is the caller's from now on. NULL: the job was
 * only to fetch. */
lh_stage *lh_stage_job_take(lh_stage_job *job, uint32_t *width, lh_compute_profile *profile);

void lh_stage_job_cancel(lh_stage_job *job);
void lh_stage_job_read_progress(const lh_stage_job *job, lh_stage_job_progress *progress);
