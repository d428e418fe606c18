/* A timer, one PUT at a time on libuv's pool, and its answer. */
#include "worker/control/control_renewal.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/protocol/control/report_fields.h"
#include "worker/control/gateway_absence.h"
#include "worker/control/gateway_inquiry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Before the first answer, and while there is none. */
#define RENEW_MS_DEFAULT 1000
/* Where another process has the name: perhaps the one before this, of which the gateway does not
 * know yet that it has gone. */
#define NAME_RETRY_MS 200
/* Between reports of who is revoked; each pause is twice the one before. A gateway that was put
 * back from a backup may take it again. */
#define REVOKED_MS_MAX 60000

struct lh_control_renewal {
    lh_control_client *client;
    char gateway_url[LH_CONTROL_URL_BYTES];
    lh_control_renewal_events events;
    void *context;
    uv_timer_t timer;
    uv_work_t work;
    bool putting; /* work is in progress */
    bool closing;
    bool registered;        /* the gateway has answered once */
    lh_status known_status; /* of the last one */
    lh_gateway_absence absence;
    bool may_tell;              /* of this PUT, if it fails: it is time */
    int64_t renew_ms, pause_ms; /* as the gateway says; until the next report */
    int64_t within_ms;          /* after the PUT in progress the next one is due, or sooner */
    void (*on_closed)(void *);
    void *closed_context;
    /* The PUT's: the pool's thread writes them. */
    char *body;
    lh_assignment_reply answer;
    lh_status status;
    lh_error error;
    char addresses[LH_GATEWAY_ADDRESSES_BYTES]; /* where it may tell */
};

static void put_on_pool(uv_work_t *work) {
    lh_control_renewal *renewal = work->data;
    const char *text;
    size_t length;
    renewal->status =
        lh_control_client_put(renewal->client, renewal->body, &text, &length, &renewal->error);
    if (renewal->status == LH_OK)
        renewal->status =
            lh_assignment_reply_parse(text, length, &renewal->answer, &renewal->error);
    if (renewal->status != LH_OK && renewal->may_tell)
        lh_gateway_inquiry_resolve(renewal->gateway_url, renewal->addresses);
}

static bool is_refusal(lh_status status) {
    return status == LH_ERR_INVALID || status == LH_ERR_EXISTS || status == LH_ERR_CANCELLED;
}

/* Who is revoked stays so until somebody joins it again, so that one line is enough. */
static bool is_to_be_told(const lh_control_renewal *renewal) {
    bool is_another = renewal->status != renewal->known_status;
    return (is_refusal(renewal->status) && is_another) ||
           (renewal->may_tell && renewal->status != LH_ERR_CANCELLED);
}

/* The gateway does not answer, or refuses this worker. */
static void note_absence(lh_control_renewal *renewal, int64_t now_us) {
    bool is_told = is_to_be_told(renewal);
    lh_gateway_absence_note(&renewal->absence, is_told, now_us);
    if (is_told)
        lh_log(LH_LOG_WARN, "control",
               "%s, trying on tried=%s addresses=\"%s\" for_s=%lld reason=\"%s\"",
               is_refusal(renewal->status) ? "the gateway refuses this worker"
                                           : "no answer of the gateway",
               renewal->gateway_url, renewal->may_tell ? renewal->addresses : "",
               (long long)((now_us - renewal->absence.since_us) / 1000000), renewal->error.message);
}

/* A line when the gateway goes, or refuses this worker, and again with growing pauses; one when it
 * is back. */
static void note_reachability(lh_control_renewal *renewal) {
    if (renewal->status != LH_OK)
        note_absence(renewal, lh_clock_us());
    else if (lh_gateway_absence_end(&renewal->absence))
        lh_log(LH_LOG_INFO, "control", "the gateway answers again");
    else if (!renewal->registered)
        lh_log(LH_LOG_INFO, "control", "registered with the gateway");
    renewal->registered |= renewal->status == LH_OK;
    renewal->known_status = renewal->status;
}

static void take_answer(lh_control_renewal *renewal) {
    note_reachability(renewal);
    renewal->pause_ms = renewal->status == LH_ERR_CANCELLED
                            ? lh_min_i64(2 * renewal->pause_ms, REVOKED_MS_MAX)
                            : renewal->renew_ms;
    if (renewal->status == LH_ERR_EXISTS)
        renewal->within_ms = lh_min_i64(renewal->within_ms, NAME_RETRY_MS);
    if (renewal->status != LH_OK) {
        renewal->events.on_failure(renewal->context);
        return;
    }
    renewal->renew_ms = renewal->pause_ms = renewal->answer.renew_ms;
    renewal->events.on_answer(renewal->context, &renewal->answer);
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_control_renewal *renewal = handle->data;
    void (*on_closed)(void *) = renewal->on_closed;
    void *context = renewal->closed_context;
    lh_control_client_destroy(renewal->client);
    free(renewal);
    on_closed(context);
}

static void put_now(uv_timer_t *timer);

/* The callbacks may hurry or close: `putting` holds until they are through, so that both are only
 * noted. */
static void on_put_done(uv_work_t *work, int cancelled) {
    lh_control_renewal *renewal = work->data;
    assert(cancelled == 0 && renewal->putting);
    if (!renewal->closing)
        take_answer(renewal);
    renewal->putting = false;
    if (renewal->closing)
        uv_close((uv_handle_t *)&renewal->timer, on_timer_closed);
    else
        uv_timer_start(&renewal->timer, put_now,
                       (uint64_t)lh_min_i64(renewal->within_ms, renewal->pause_ms), 0);
}

static void put_now(uv_timer_t *timer) {
    lh_control_renewal *renewal = timer->data;
    assert(!renewal->putting && !renewal->closing);
    lh_worker_report report = {0};
    renewal->events.fill_report(renewal->context, &report);
    renewal->body = lh_worker_report_render(&report);
    renewal->within_ms = INT64_MAX;
    renewal->may_tell = lh_gateway_absence_is_due(&renewal->absence, lh_clock_us());
    renewal->putting = true;
    uv_queue_work(timer->loop, &renewal->work, put_on_pool, on_put_done); /* which cannot fail */
}

lh_status lh_control_renewal_create(uv_loop_t *loop, const char *gateway_url,
                                    const char *worker_name, const lh_tls_options *tls,
                                    const lh_control_renewal_events *events, void *context,
                                    lh_control_renewal **renewal, lh_error *error) {
    lh_control_renewal *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "renewal: out of memory");
    lh_status status =
        lh_control_client_create(gateway_url, worker_name, tls, &made->client, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    snprintf(made->gateway_url, sizeof made->gateway_url, "%s", gateway_url);
    made->events = *events;
    made->context = context;
    made->renew_ms = made->pause_ms = RENEW_MS_DEFAULT;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    made->work.data = made;
    uv_timer_start(&made->timer, put_now, 0, 0);
    *renewal = made;
    return LH_OK;
}

void lh_control_renewal_hurry(lh_control_renewal *renewal, int64_t within_ms) {
    if (renewal->putting)
        renewal->within_ms = lh_min_i64(renewal->within_ms, within_ms);
    else if (!renewal->closing && uv_timer_get_due_in(&renewal->timer) > (uint64_t)within_ms)
        uv_timer_start(&renewal->timer, put_now, (uint64_t)within_ms, 0);
}

bool lh_control_renewal_is_under_way(const lh_control_renewal *renewal) {
    return renewal->putting;
}

void lh_control_renewal_close(lh_control_renewal *renewal, void (*on_closed)(void *),
                              void *context) {
    assert(!renewal->closing);
    renewal->closing = true;
    renewal->on_closed = on_closed;
    renewal->closed_context = context;
    uv_timer_stop(&renewal->timer);
    if (!renewal->putting)
        uv_close((uv_handle_t *)&renewal->timer, on_timer_closed);
}
