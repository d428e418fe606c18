/* What is wanted, what is there, and the next thing to do about the difference.
 *
 *            assignment                   built
 *     EMPTY ------------> BUILDING ------------------> HELD
 *       ^  ^                 | failed, or not wanted     | another stage wanted, or none
 *       |  +-----------------+ (a failure waits first)   |
 *       +------------- TAKING AWAY <--------------------+
 *
 * The old stage goes before the new one is built: memory holds one, and so does the thread pool; unless the new one was
 * prepared beside it (assignment_reserve.h), and from EMPTY it is HELD at once. While a stage is being built the answers go
 * on; the route is set from the latest of them. */
#include "worker/assignment/assignment.h"

#include "common/log.h"
#include "worker/assignment/assignment_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* After a failure to build: the first pause, doubled up to the last. */
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS  30000
/* After a step failed: by then the gateway knows, too; and a thousand cancelled requests are not a thousand reports. */
#define TROUBLE_MS 30

/* So many reports in a row are not delivered to a gateway that has gone, rather than to one that is restarting: a worker
 * that leaves waits no longer for its word. */
#define FAILURES_OF_ONE_GONE 3

static void reconcile(lh_assignment_keeper *keeper);

static bool is_same_assignment(const lh_control_assignment *a, const lh_control_assignment *b) {
    return a->generation == b->generation && a->epoch == b->epoch && a->kv_epoch == b->kv_epoch &&
           strcmp(a->chain, b->chain) == 0 && lh_control_is_same_stage(a, b) && a->wire == b->wire &&
           a->next_is_gateway == b->next_is_gateway && a->next_tls == b->next_tls &&
           strcmp(a->next_name, b->next_name) == 0 && strcmp(a->next_address, b->next_address) == 0;
}

static void report_soon(lh_assignment_keeper *keeper) {
    if (!keeper->closing) {
        lh_control_renewal_hurry(keeper->renewal);
    }
}

/* ---- Failures ----------------------------------------------------------------------------------- */

static void note_failure(lh_assignment_keeper *keeper, const lh_error *failure) {
    bool is_new = keeper->failure.status == LH_OK || !is_same_assignment(&keeper->failed, &keeper->wanted);
    keeper->retry_pause_ms = is_new ? RETRY_FIRST_MS : keeper->retry_pause_ms * 2;
    keeper->retry_pause_ms = keeper->retry_pause_ms < RETRY_LAST_MS ? keeper->retry_pause_ms : RETRY_LAST_MS;
    keeper->retry_at_ms = uv_now(keeper->options.loop) + keeper->retry_pause_ms;
    keeper->failure = *failure;
    keeper->failed = keeper->wanted;
    lh_log(LH_LOG_ERROR, "assignment", "failed, trying again in %" PRIu64 " ms reason=\"%s\"",
           keeper->retry_pause_ms, failure->message);
    report_soon(keeper);
}

static void forget_failure(lh_assignment_keeper *keeper) {
    keeper->failure = (lh_error){.status = LH_OK};
}

/* Answers keep coming, so that the pause ends with the first one after it. */
static bool must_wait(const lh_assignment_keeper *keeper) {
    return keeper->failure.status != LH_OK && is_same_assignment(&keeper->failed, &keeper->wanted) &&
           uv_now(keeper->options.loop) < keeper->retry_at_ms;
}

/* ---- Building ----------------------------------------------------------------------------------- */

static void run_job(uv_work_t *work) {
    lh_assignment_keeper *keeper = work->data;
    keeper->job_status = lh_assignment_job_run(keeper->job, &keeper->job_error);
}

/* Gives the server the stage of keeper->held. */
static void hand_over(lh_assignment_keeper *keeper, lh_stage *stage, const lh_compute_profile *profile) {
    lh_error error;
    if (lh_server_install(keeper->options.server, stage, keeper->held.steps_max, profile, &error) != LH_OK) {
        lh_stage_destroy(stage);
        note_failure(keeper, &error);
        return;
    }
    keeper->stage = stage;
    keeper->state = LH_KEEPER_HELD;
    lh_log(LH_LOG_INFO, "assignment", "loaded layers=%u..%u model=%s weight_bytes=%zu kv_pages=%zu",
           keeper->held.first_layer, keeper->held.last_layer, keeper->held.model.name,
           lh_stage_weight_bytes(stage), lh_kv_cache_pages_total(lh_stage_kv(stage)));
}

static void finish_close(lh_assignment_keeper *keeper);

static void on_job_done(uv_work_t *work, int cancelled) {
    lh_assignment_keeper *keeper = work->data;
    assert(cancelled == 0);
    bool is_wanted =
        !keeper->closing && keeper->has_wanted && lh_control_is_same_stage(&keeper->wanted, &keeper->held);
    keeper->state = LH_KEEPER_EMPTY;
    if (is_wanted && keeper->job_status == LH_OK) {
        lh_compute_profile profile;
        lh_stage *stage = lh_assignment_job_take(keeper->job, &keeper->width, &profile);
        hand_over(keeper, stage, &profile);
    } else if (is_wanted) {
        note_failure(keeper, &keeper->job_error);
    }
    lh_assignment_job_destroy(keeper->job);
    keeper->job = NULL;
    if (keeper->closing) {
        finish_close(keeper);
    } else {
        reconcile(keeper);
        report_soon(keeper);
    }
}

static void build(lh_assignment_keeper *keeper) {
    lh_error error;
    lh_assignment_job_options job = keeper->options.job;
    job.gateway_url = keeper->options.gateway_url;
    job.is_urgent = keeper->is_urgent;
    if (lh_assignment_job_create(&job, &keeper->wanted, &keeper->job, &error) != LH_OK) {
        note_failure(keeper, &error);
        return;
    }
    if (uv_queue_work(keeper->options.loop, &keeper->work, run_job, on_job_done) != 0) {
        lh_assignment_job_destroy(keeper->job);
        keeper->job = NULL;
        lh_fail(&error, LH_ERR_INTERNAL, "the event loop takes no work");
        note_failure(keeper, &error);
        return;
    }
    keeper->state = LH_KEEPER_BUILDING;
    keeper->held = keeper->wanted;
    keeper->routed = false;
    lh_log(LH_LOG_INFO, "assignment", "assigned layers=%u..%u of=%u model=%s chain=%s epoch=%u",
           keeper->held.first_layer, keeper->held.last_layer, keeper->held.layers, keeper->held.model.name,
           keeper->held.chain, keeper->held.epoch);
    report_soon(keeper);
}

/* What was prepared for this. */
static void put_in_place(lh_assignment_keeper *keeper) {
    lh_compute_profile profile;
    lh_stage *stage = lh_reserve_take(keeper->reserve, &keeper->wanted, &keeper->width, &profile);
    if (stage == NULL) {
        return; /* it is still being loaded */
    }
    keeper->held = keeper->wanted;
    keeper->routed = false;
    hand_over(keeper, stage, &profile);
    reconcile(keeper);
}

/* ---- Holding ------------------------------------------------------------------------------------ */

static void on_removed(void *context) {
    lh_assignment_keeper *keeper = context;
    keeper->state = LH_KEEPER_EMPTY;
    if (keeper->closing) {
        finish_close(keeper);
    } else {
        reconcile(keeper);
        report_soon(keeper);
    }
}

static void take_away(lh_assignment_keeper *keeper) {
    lh_error error;
    if (lh_server_remove(keeper->options.server, on_removed, keeper, &error) != LH_OK) {
        lh_log(LH_LOG_ERROR, "assignment", "the stage cannot be taken away now reason=\"%s\"", error.message);
        return; /* the next answer tries again */
    }
    lh_log(LH_LOG_INFO, "assignment", "dropping layers=%u..%u model=%s", keeper->held.first_layer,
           keeper->held.last_layer, keeper->held.model.name);
    keeper->stage = NULL;
    keeper->routed = false;
    keeper->state = LH_KEEPER_TAKING_AWAY;
}

static void take_place(lh_assignment_keeper *keeper) {
    const lh_control_assignment *wanted = &keeper->wanted;
    const char *scheme_end = strstr(keeper->options.gateway_url, "://");
    lh_server_route route = {.chain = wanted->chain,
                             .epoch = wanted->epoch,
                             .width = keeper->width,
                             .is_first = wanted->first_layer == 0,
                             .is_last = wanted->last_layer == wanted->layers,
                             .wire = wanted->wire,
                             .steps_max = wanted->steps_max,
                             .kv_epoch = wanted->kv_epoch,
                             .next_name = wanted->next_name,
                             .next_address = wanted->next_address,
                             .next_tls = wanted->next_tls};
    if (wanted->next_is_gateway) {
        route.next_address = scheme_end + 3;
        route.next_tls = strncmp(keeper->options.gateway_url, "https", 5) == 0;
    }
    lh_error error;
    if (lh_server_set_route(keeper->options.server, &route, &error) != LH_OK) {
        keeper->routed = false;
        note_failure(keeper, &error);
        return;
    }
    keeper->held = *wanted;
    keeper->routed = true;
    forget_failure(keeper);
    lh_log(LH_LOG_INFO, "assignment", "ready chain=%s epoch=%u layers=%u..%u next=%s", wanted->chain,
           wanted->epoch, wanted->first_layer, wanted->last_layer,
           wanted->next_is_gateway ? "gateway" : wanted->next_name);
    report_soon(keeper);
}

static void reconcile(lh_assignment_keeper *keeper) {
    bool fits = keeper->has_wanted && lh_control_is_same_stage(&keeper->wanted, &keeper->held);
    if (!keeper->has_wanted) {
        forget_failure(keeper);
    }
    switch (keeper->state) {
    case LH_KEEPER_EMPTY:
        if (keeper->has_wanted && lh_reserve_is_for(keeper->reserve, &keeper->wanted)) {
            put_in_place(keeper);
        } else if (keeper->has_wanted && !must_wait(keeper)) {
            build(keeper);
        }
        break;
    case LH_KEEPER_BUILDING:
        if (!fits) {
            lh_assignment_job_cancel(keeper->job);
        }
        break;
    case LH_KEEPER_HELD:
        if (!fits) {
            take_away(keeper);
        } else if ((!keeper->routed || !is_same_assignment(&keeper->held, &keeper->wanted)) &&
                   !must_wait(keeper)) {
            take_place(keeper);
        }
        break;
    case LH_KEEPER_TAKING_AWAY:
        break;
    }
}

/* ---- The gateway's voice ------------------------------------------------------------------------ */

/* What was prepared for the assignment that is wanted now stays until it is in place. */
static void prepare(lh_assignment_keeper *keeper, const lh_control_answer *answer) {
    bool is_in_place = keeper->state == LH_KEEPER_HELD && keeper->has_wanted &&
                       lh_control_is_same_stage(&keeper->held, &keeper->wanted);
    if (answer->has_prepare) {
        lh_reserve_want(keeper->reserve, &answer->prepare, answer->prepare_holds);
    } else if (!keeper->has_wanted || is_in_place || !lh_reserve_is_for(keeper->reserve, &keeper->wanted)) {
        lh_reserve_want(keeper->reserve, NULL, false);
    }
}

static void release(lh_assignment_keeper *keeper) {
    void (*on_released)(void *) = keeper->on_released;
    keeper->on_released = NULL;
    if (on_released != NULL) {
        on_released(keeper->released_context);
    }
}

/* A gateway that does not know `leave` takes the assignment away instead. */
static void hear_of_leaving(lh_assignment_keeper *keeper, const lh_control_answer *answer) {
    bool may_go = answer->has_leave ? answer->may_go : answer->is_planned && !answer->has_assignment;
    if (answer->has_leave && strcmp(answer->leave_reason, keeper->leave_reason) != 0) {
        memcpy(keeper->leave_reason, answer->leave_reason, sizeof(keeper->leave_reason));
        lh_log(LH_LOG_INFO, "assignment", "leaving may_go=%d reason=\"%s\"", may_go, answer->leave_reason);
    }
    if (may_go) {
        release(keeper);
    }
}

static void on_answer(void *context, const lh_control_answer *answer) {
    lh_assignment_keeper *keeper = context;
    keeper->failures = 0;
    if (answer->is_planned) {
        keeper->has_wanted = answer->has_assignment;
        keeper->is_urgent = answer->is_urgent;
        keeper->wanted = answer->assignment;
    }
    reconcile(keeper);
    if (answer->is_planned) {
        prepare(keeper, answer);
    }
    if (keeper->leaving) {
        hear_of_leaving(keeper, answer);
    }
}

static void on_failure(void *context) {
    lh_assignment_keeper *keeper = context;
    keeper->failures++;
    if (keeper->leaving && (keeper->failures >= FAILURES_OF_ONE_GONE || !keeper->has_wanted)) {
        release(keeper);
    }
}

static void on_next_change(void *context) {
    report_soon(context);
}

/* Perhaps the chain is being formed again: then the answer says how. */
static void on_trouble(void *context) {
    lh_assignment_keeper *keeper = context;
    if (!keeper->closing) {
        lh_control_renewal_expedite(keeper->renewal, TROUBLE_MS);
    }
}

static void on_reserve_change(void *context) {
    reconcile(context);
    report_soon(context);
}

/* ---- Life --------------------------------------------------------------------------------------- */

static lh_status start(lh_assignment_keeper *keeper, lh_error *error) {
    static const lh_control_renewal_events events = {
        .fill_report = lh_assignment_fill_report, .on_answer = on_answer, .on_failure = on_failure};
    const lh_assignment_options *options = &keeper->options;
    lh_control_client *client = NULL;
    if (getrandom(&keeper->instance, sizeof(keeper->instance), 0) != sizeof(keeper->instance)) {
        return lh_fail(error, LH_ERR_IO, "the system gives no random numbers");
    }
    lh_status status =
        lh_control_client_create(options->gateway_url, options->name, options->job.tls, &client, error);
    if (status != LH_OK) {
        return status;
    }
    lh_assignment_job_options job = options->job;
    job.gateway_url = options->gateway_url;
    status = lh_reserve_create(options->loop, &job, on_reserve_change, keeper, &keeper->reserve, error);
    if (status == LH_OK) {
        status = lh_control_renewal_create(options->loop, client, &events, keeper, &keeper->renewal, error);
    }
    if (status != LH_OK) {
        lh_control_client_destroy(client);
        return status;
    }
    lh_server_watch(options->server, on_next_change, on_trouble, keeper);
    return LH_OK;
}

lh_status lh_assignment_create(const lh_assignment_options *options, lh_assignment_keeper **keeper,
                               lh_error *error) {
    lh_assignment_keeper *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "assignment: out of memory");
    }
    made->options = *options;
    made->work.data = made;
    lh_status status = start(made, error);
    if (status != LH_OK) {
        lh_reserve_destroy(made->reserve);
        free(made);
        return status;
    }
    *keeper = made;
    return LH_OK;
}

void lh_assignment_leave(lh_assignment_keeper *keeper, void (*on_released)(void *), void *context) {
    keeper->leaving = true;
    keeper->on_released = on_released;
    keeper->released_context = context;
    report_soon(keeper);
}

/* Nothing is left but what the pool and the server still do. */
static void finish_close(lh_assignment_keeper *keeper) {
    if (keeper->renewal != NULL || keeper->reserve != NULL || keeper->state == LH_KEEPER_BUILDING ||
        keeper->state == LH_KEEPER_TAKING_AWAY) {
        return;
    }
    void (*on_closed)(void *) = keeper->on_closed;
    void *context = keeper->closed_context;
    free(keeper);
    if (on_closed != NULL) {
        on_closed(context);
    }
}

static void on_renewal_closed(void *context) {
    lh_assignment_keeper *keeper = context;
    keeper->renewal = NULL;
    finish_close(keeper);
}

static void on_reserve_closed(void *context) {
    lh_assignment_keeper *keeper = context;
    keeper->reserve = NULL;
    finish_close(keeper);
}

void lh_assignment_close(lh_assignment_keeper *keeper, void (*on_closed)(void *), void *context) {
    keeper->closing = true;
    lh_server_watch(keeper->options.server, NULL, NULL, NULL);
    keeper->on_closed = on_closed;
    keeper->closed_context = context;
    if (keeper->job != NULL) {
        lh_assignment_job_cancel(keeper->job);
    }
    lh_reserve_close(keeper->reserve, on_reserve_closed, keeper);
    lh_control_renewal_close(keeper->renewal, on_renewal_closed, keeper);
}
