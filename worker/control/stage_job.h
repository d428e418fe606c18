/* One stage from its assignment: fetches the weights, builds the stage, waits for those who compute
 * it together with this machine, and times it. The work waits and computes, so it runs on libuv's
 * pool. The thread pool must be idle meanwhile, since a stage
 * packs its weights with it; or else the job works beside it, with threads of its own that leave
 * the pool's most of the machine.
 *
 * Thread: the loop's. */
#pragma once

#include "common/base/memory_gauge.h"
#include "common/net/tls_channel.h"
#include "common/protocol/control/assignment_reply.h"
#include "common/protocol/measurements.h"
#include "worker/compute/stage/stage.h"
#include "worker/team/team.h"
#include "worker/weights/weight_cache.h"
#include "worker/weights/weight_inventory.h"

#include <uv.h>

typedef struct lh_stage_job lh_stage_job;

typedef struct lh_stage_job_options {
    const char *gateway_url;   /* "http://host:port" or "https://host:port" */
    const lh_tls_options *tls; /* NULL: none */
    lh_weight_cache *cache;
    lh_weight_inventory *inventory; /* of the cache; NULL: none is kept */
    const char *model_path;         /* a local GGUF file, or NULL */
    const lh_kernels *kernels;
    lh_thread_pool *pool;
    const lh_device *device; /* NULL: the processors */
    size_t kv_bytes;
    const lh_memory_gauge
        *memory; /* a stage that is more than what is free is refused; NULL: none */
    /* another stage computes on the pool meanwhile; a team rests when the job is done (team.h) */
    bool is_beside;
    bool is_urgent; /* sequences wait: it is timed only as much as it needs to be */
    /* where other members of a team connect: non-blocking; -1: it computes with nobody */
    int member_listener;
    void (*on_team_failed)(void *context); /* as of lh_team_options */
    void *team_context;
} lh_stage_job_options;

typedef struct lh_built_stage {
    lh_stage *stage;            /* NULL: the job was only to fetch */
    lh_team *team;              /* with whom it computes; NULL: alone */
    lh_compute_profile profile; /* what its steps cost; no points: that was not found out */
} lh_built_stage;

/* Stage and team, in the order in which they may go; both may be NULL. It takes a while. Thread:
 * any. */
void lh_built_stage_destroy(lh_built_stage *built);

/* Starts the work. on_done comes once, from the loop, also after a cancel; *failure (NULL: it went
 * well) is one of lh_weights_open, lh_weights_ensure or lh_stage_create, or LH_ERR_INVALID: the
 * model has another number of layers than the assignment says, or LH_ERR_UNSUPPORTED: this worker
 * can compute no stage of the model, now or later, or LH_ERR_LIMIT: it would take more memory than
 * is free now; or one of lh_team_form. All pointers of the options outlive the job; the assignment
 * is copied. LH_ERR_NO_MEMORY. */
lh_status lh_stage_job_start(uv_loop_t *loop, const lh_stage_job_options *options,
                             const lh_control_assignment *assignment,
                             void (*on_done)(void *context, const lh_error *failure), void *context,
                             lh_stage_job **job, lh_error *error);
/* Once on_done has come; destroys a stage that was not taken. */
void lh_stage_job_destroy(lh_stage_job *job);

/* What was built, where on_done brought no failure; the stage is the caller's from now on. */
lh_built_stage lh_stage_job_take(lh_stage_job *job);

void lh_stage_job_cancel(lh_stage_job *job);
/* LH_WORKER_FETCHING or LH_WORKER_LOADING, and how far it is with that. */
lh_worker_stage_state lh_stage_job_progress(const lh_stage_job *job, uint64_t *done_bytes,
                                            uint64_t *total_bytes);
/* Whether it has built its stage and waits for the others of its team. */
bool lh_stage_job_is_joining(const lh_stage_job *job);
