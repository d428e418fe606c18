/* One job at a time on libuv's pool, and what comes of it. */
#include "worker/assignment/assignment_reserve.h"

#include "common/log.h"

#include <assert.h>
#include <stdlib.h>

typedef enum reserve_state { EMPTY, BUILDING, HELD, FAILED } reserve_state;

/* A stage that nobody wants any more goes on libuv's pool: to give back its memory takes a while. */
typedef struct removal {
    uv_work_t work;
    lh_stage *stage;
} removal;

struct lh_reserve {
    uv_loop_t *loop;
    lh_assignment_job_options job_options;
    void (*on_change)(void *context);
    void *context;

    bool has_wanted, holds;
    lh_control_assignment wanted;
    reserve_state state;
    lh_control_assignment about; /* of what is being built, held or has failed */
    bool about_holds;
    lh_stage *stage; /* HELD, and it is loaded */
    uint32_t width;
    lh_compute_profile profile;
    lh_error failure; /* FAILED */

    lh_assignment_job *job;
    uv_work_t work;
    lh_status job_status;
    lh_error job_error;

    bool closing;
    void (*on_closed)(void *);
    void *closed_context;
};

static void reconcile(lh_reserve *reserve);

lh_status lh_reserve_create(uv_loop_t *loop, const lh_assignment_job_options *job,
                            void (*on_change)(void *context), void *context, lh_reserve **reserve,
                            lh_error *error) {
    lh_reserve *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "reserve: out of memory");
    }
    made->loop = loop;
    made->job_options = *job;
    made->job_options.is_beside = true;
    made->on_change = on_change;
    made->context = context;
    made->work.data = made;
    *reserve = made;
    return LH_OK;
}

void lh_reserve_destroy(lh_reserve *reserve) {
    free(reserve);
}

static bool is_wanted(const lh_reserve *reserve) {
    return !reserve->closing && reserve->has_wanted && reserve->holds == reserve->about_holds &&
           lh_control_is_same_stage(&reserve->wanted, &reserve->about);
}

/* ---- Dropping ----------------------------------------------------------------------------------- */

static void destroy_on_pool(uv_work_t *work) {
    lh_stage_destroy(((removal *)work->data)->stage);
}

static void on_destroyed(uv_work_t *work, int cancelled) {
    (void)cancelled;
    free(work->data);
}

static void drop_stage(lh_reserve *reserve) {
    lh_stage *stage = reserve->stage;
    reserve->stage = NULL;
    removal *gone = stage != NULL ? malloc(sizeof(*gone)) : NULL;
    if (gone == NULL) {
        lh_stage_destroy(stage);
        return;
    }
    *gone = (removal){.work.data = gone, .stage = stage};
    if (uv_queue_work(reserve->loop, &gone->work, destroy_on_pool, on_destroyed) != 0) {
        lh_stage_destroy(stage);
        free(gone);
    }
}

/* ---- Building ----------------------------------------------------------------------------------- */

static void run_job(uv_work_t *work) {
    lh_reserve *reserve = work->data;
    reserve->job_status = lh_assignment_job_run(reserve->job, &reserve->job_error);
}

static void fail(lh_reserve *reserve, const lh_error *failure) {
    reserve->state = FAILED;
    reserve->failure = *failure;
    lh_log(LH_LOG_ERROR, "assignment", "layers=%u..%u cannot be prepared reason=\"%s\"",
           reserve->about.first_layer, reserve->about.last_layer, failure->message);
}

static void finish_close(lh_reserve *reserve) {
    void (*on_closed)(void *) = reserve->on_closed;
    void *context = reserve->closed_context;
    drop_stage(reserve);
    free(reserve);
    on_closed(context);
}

static void on_job_done(uv_work_t *work, int cancelled) {
    lh_reserve *reserve = work->data;
    assert(cancelled == 0);
    reserve->state = EMPTY;
    /* A cancelled one may be wanted again: then it begins anew. */
    if (is_wanted(reserve) && reserve->job_status == LH_OK) {
        reserve->stage = lh_assignment_job_take(reserve->job, &reserve->width, &reserve->profile);
        reserve->state = HELD;
        lh_log(LH_LOG_INFO, "assignment", "prepared layers=%u..%u loaded=%d", reserve->about.first_layer,
               reserve->about.last_layer, reserve->about_holds);
    } else if (is_wanted(reserve) && reserve->job_status != LH_ERR_CANCELLED) {
        fail(reserve, &reserve->job_error);
    }
    lh_assignment_job_destroy(reserve->job);
    reserve->job = NULL;
    if (reserve->closing) {
        finish_close(reserve);
        return;
    }
    reconcile(reserve);
    reserve->on_change(reserve->context);
}

static void build(lh_reserve *reserve) {
    lh_error error;
    lh_assignment_job_options job = reserve->job_options;
    job.fetches_only = !reserve->holds;
    reserve->about = reserve->wanted;
    reserve->about_holds = reserve->holds;
    if (lh_assignment_job_create(&job, &reserve->wanted, &reserve->job, &error) != LH_OK) {
        fail(reserve, &error);
        return;
    }
    if (uv_queue_work(reserve->loop, &reserve->work, run_job, on_job_done) != 0) {
        lh_assignment_job_destroy(reserve->job);
        reserve->job = NULL;
        lh_fail(&error, LH_ERR_INTERNAL, "the event loop takes no work");
        fail(reserve, &error);
        return;
    }
    reserve->state = BUILDING;
    lh_log(LH_LOG_INFO, "assignment", "preparing layers=%u..%u of=%u model=%s loads=%d",
           reserve->about.first_layer, reserve->about.last_layer, reserve->about.layers,
           reserve->about.model.name, reserve->about_holds);
}

static void reconcile(lh_reserve *reserve) {
    bool fits = is_wanted(reserve);
    if (reserve->state == BUILDING) {
        if (!fits) {
            lh_assignment_job_cancel(reserve->job);
        }
        return;
    }
    if (!fits) {
        drop_stage(reserve);
        reserve->state = EMPTY;
    }
    if (reserve->state == EMPTY && reserve->has_wanted) {
        build(reserve);
    }
}

/* ---- For the keeper ----------------------------------------------------------------------------- */

void lh_reserve_want(lh_reserve *reserve, const lh_control_assignment *wanted, bool holds) {
    reserve->has_wanted = wanted != NULL;
    if (wanted != NULL) {
        reserve->wanted = *wanted;
        reserve->holds = holds;
    }
    reconcile(reserve);
}

bool lh_reserve_is_for(const lh_reserve *reserve, const lh_control_assignment *assignment) {
    return (reserve->state == BUILDING || reserve->state == HELD) && reserve->about_holds &&
           is_wanted(reserve) && lh_control_is_same_stage(&reserve->about, assignment);
}

lh_stage *lh_reserve_take(lh_reserve *reserve, const lh_control_assignment *assignment, uint32_t *width,
                          lh_compute_profile *profile) {
    if (reserve->state != HELD || !lh_reserve_is_for(reserve, assignment)) {
        return NULL;
    }
    lh_stage *stage = reserve->stage;
    reserve->stage = NULL;
    reserve->state = EMPTY;
    reserve->has_wanted = false;
    *width = reserve->width;
    *profile = reserve->profile;
    return stage;
}

void lh_reserve_report(const lh_reserve *reserve, lh_worker_report *report) {
    if (!reserve->has_wanted || !is_wanted(reserve) || reserve->state == EMPTY) {
        return;
    }
    report->prepared.first_layer = reserve->about.first_layer;
    report->prepared.last_layer = reserve->about.last_layer;
    report->prepared.holds = reserve->about_holds;
    if (reserve->state == FAILED) {
        report->prepared.state = LH_WORKER_FAILED;
        lh_worker_report_copy_error(report->prepared.error, reserve->failure.message);
    } else if (reserve->state == HELD) {
        report->prepared.state = LH_WORKER_READY;
    } else {
        lh_assignment_progress progress;
        lh_assignment_job_read_progress(reserve->job, &progress);
        report->prepared.state = progress.loading ? LH_WORKER_LOADING : LH_WORKER_FETCHING;
        report->prepared.done_bytes = progress.done_bytes;
        report->prepared.total_bytes = progress.total_bytes;
    }
}

void lh_reserve_close(lh_reserve *reserve, void (*on_closed)(void *), void *context) {
    reserve->closing = true;
    reserve->on_closed = on_closed;
    reserve->closed_context = context;
    if (reserve->job != NULL) {
        lh_assignment_job_cancel(reserve->job);
    } else {
        finish_close(reserve);
    }
}
