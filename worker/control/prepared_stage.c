/* One job at a time on libuv's pool, and what comes of it. */
#include "worker/control/prepared_stage.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdlib.h>

typedef enum prepared_state { EMPTY, BUILDING, HELD, FAILED } prepared_state;

struct lh_prepared_stage {
    uv_loop_t *loop;
    lh_stage_job_options job_options;
    void (*on_change)(void *context);
    void *context;

    bool has_wanted;
    lh_control_assignment wanted;
    prepared_state state;
    lh_control_assignment about; /* of what is being built, held or has failed */
    lh_built_stage built;        /* HELD, and it is loaded */
    lh_error failure;            /* FAILED */

    lh_stage_job *job; /* BUILDING */

    bool closing;
    void (*on_closed)(void *);
    void *closed_context;
};

static void reconcile(lh_prepared_stage *prepared);

/* Every way but one leads over EMPTY. */
static void enter(lh_prepared_stage *prepared, prepared_state state) {
    assert((state == EMPTY) != (prepared->state == EMPTY));
    assert(!prepared->built.stage || state == HELD);
    prepared->state = state;
}

lh_status lh_prepared_stage_create(uv_loop_t *loop, const lh_stage_job_options *job,
                                   void (*on_change)(void *context), void *context,
                                   lh_prepared_stage **prepared, lh_error *error) {
    lh_prepared_stage *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "prepared stage: out of memory");
    made->loop = loop;
    made->job_options = *job;
    made->job_options.is_beside = true;
    made->on_change = on_change;
    made->context = context;
    *prepared = made;
    return LH_OK;
}

static bool is_wanted(const lh_prepared_stage *prepared) {
    return !prepared->closing && prepared->has_wanted &&
           prepared->wanted.weights_only == prepared->about.weights_only &&
           lh_control_is_same_stage(&prepared->wanted, &prepared->about);
}

/* ---- Dropping ---- */

typedef struct removal {
    uv_work_t work;
    lh_built_stage built;
} removal;

static void destroy_on_pool(uv_work_t *work) {
    removal *r = work->data;
    lh_built_stage_destroy(&r->built);
}

static void on_destroyed(uv_work_t *work, int cancelled) {
    (void)cancelled;
    free(work->data);
}

/* On libuv's pool, since it takes a while to give back a stage's memory. */
static void drop_stage(lh_prepared_stage *prepared) {
    removal *r = prepared->built.stage ? malloc(sizeof *r) : NULL;
    if (r) {
        r->work.data = r;
        r->built = prepared->built;
        uv_queue_work(prepared->loop, &r->work, destroy_on_pool, on_destroyed); /* cannot fail */
    } else {
        lh_built_stage_destroy(&prepared->built);
    }
    prepared->built = (lh_built_stage){0};
}

/* ---- Building ---- */

static void fail(lh_prepared_stage *prepared, const lh_error *failure) {
    enter(prepared, FAILED);
    prepared->failure = *failure;
    lh_log(LH_LOG_ERROR, "assignment", "a stage cannot be prepared layers=%u-%u reason=\"%s\"",
           prepared->about.first_layer, prepared->about.last_layer - 1, failure->message);
}

static void finish_close(lh_prepared_stage *prepared) {
    void (*on_closed)(void *) = prepared->on_closed;
    void *context = prepared->closed_context;
    drop_stage(prepared);
    free(prepared);
    if (on_closed)
        on_closed(context);
}

static void on_job_done(void *context, const lh_error *failure) {
    lh_prepared_stage *prepared = context;
    enter(prepared, EMPTY);
    /* A cancelled one may be wanted again: then it begins anew. */
    if (is_wanted(prepared) && !failure) {
        prepared->built = lh_stage_job_take(prepared->job);
        enter(prepared, HELD);
        lh_log(LH_LOG_INFO, "assignment", "prepared layers=%u-%u loaded=%d",
               prepared->about.first_layer, prepared->about.last_layer - 1,
               !prepared->about.weights_only);
    } else if (is_wanted(prepared) && failure->status != LH_ERR_CANCELLED) {
        fail(prepared, failure);
    }
    lh_stage_job_destroy(prepared->job);
    prepared->job = NULL;
    if (prepared->closing) {
        finish_close(prepared);
        return;
    }
    reconcile(prepared);
    prepared->on_change(prepared->context);
}

static void build(lh_prepared_stage *prepared) {
    lh_error error;
    prepared->about = prepared->wanted;
    if (lh_stage_job_start(prepared->loop, &prepared->job_options, &prepared->wanted, on_job_done,
                           prepared, &prepared->job, &error) != LH_OK) {
        fail(prepared, &error);
        return;
    }
    enter(prepared, BUILDING);
    lh_log(LH_LOG_INFO, "assignment", "preparing layers=%u-%u of=%u model=%s loads=%d",
           prepared->about.first_layer, prepared->about.last_layer - 1, prepared->about.layers,
           prepared->about.model.name, !prepared->about.weights_only);
}

static void reconcile(lh_prepared_stage *prepared) {
    bool fits = is_wanted(prepared);
    bool has_stage = prepared->state == HELD && !prepared->about.weights_only;
    assert(has_stage == (prepared->built.stage != NULL));
    if (prepared->state == BUILDING) {
        if (!fits)
            lh_stage_job_cancel(prepared->job);
        return;
    }
    if (!fits) {
        drop_stage(prepared);
        if (prepared->state != EMPTY)
            enter(prepared, EMPTY);
    }
    if (prepared->state == EMPTY && prepared->has_wanted)
        build(prepared);
}

/* ---- For the reconciler ---- */

void lh_prepared_stage_want(lh_prepared_stage *prepared, const lh_control_assignment *wanted) {
    prepared->has_wanted = wanted;
    if (wanted)
        prepared->wanted = *wanted;
    reconcile(prepared);
}

bool lh_prepared_stage_is_for(const lh_prepared_stage *prepared,
                              const lh_control_assignment *assignment) {
    return (prepared->state == BUILDING || prepared->state == HELD) &&
           !prepared->about.weights_only && is_wanted(prepared) &&
           lh_control_is_same_stage(&prepared->about, assignment);
}

bool lh_prepared_stage_take(lh_prepared_stage *prepared, const lh_control_assignment *assignment,
                            lh_built_stage *built) {
    if (prepared->state != HELD || !lh_prepared_stage_is_for(prepared, assignment))
        return false;
    *built = prepared->built;
    prepared->built = (lh_built_stage){0};
    enter(prepared, EMPTY);
    prepared->has_wanted = false;
    return true;
}

void lh_prepared_stage_report(const lh_prepared_stage *prepared, lh_worker_report *report) {
    if (!is_wanted(prepared) || prepared->state == EMPTY)
        return;
    report->prepared.first_layer = prepared->about.first_layer;
    report->prepared.last_layer = prepared->about.last_layer;
    report->prepared.team_epoch = prepared->about.team.epoch;
    report->prepared.holds = !prepared->about.weights_only;
    if (prepared->state == FAILED) {
        report->prepared.state = LH_WORKER_FAILED;
        report->prepared.is_final = prepared->failure.status == LH_ERR_UNSUPPORTED;
        lh_worker_report_copy_error(report->prepared.error, prepared->failure.message);
    } else if (prepared->state == HELD) {
        report->prepared.state = LH_WORKER_READY;
    } else {
        report->prepared.state = lh_stage_job_progress(prepared->job, &report->prepared.done_bytes,
                                                       &report->prepared.total_bytes);
        report->prepared.is_joining = lh_stage_job_is_joining(prepared->job);
    }
}

bool lh_prepared_stage_is_loading(const lh_prepared_stage *prepared) {
    uint64_t done_bytes, total_bytes;
    return prepared->state == BUILDING &&
           lh_stage_job_progress(prepared->job, &done_bytes, &total_bytes) == LH_WORKER_LOADING;
}

void lh_prepared_stage_close(lh_prepared_stage *prepared, void (*on_closed)(void *),
                             void *context) {
    prepared->closing = true;
    prepared->on_closed = on_closed;
    prepared->closed_context = context;
    if (prepared->job)
        lh_stage_job_cancel(prepared->job);
    else
        finish_close(prepared);
}
