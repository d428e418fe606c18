/* A timer, one PUT at a time on libuv's pool, and its answer. */
#include "worker/control/control_renewal.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdlib.h>

/* Before the first answer, and while there is none. */
#define RENEW_MS_DEFAULT 1000

struct lh_control_renewal {
    lh_control_client *client;
    lh_control_renewal_events events;
    void *context;
    uv_timer_t timer;
    uv_work_t work;
    bool putting; /* work is in progress */
    bool again;   /* hurry came while it was */
    bool closing;
    bool registered; /* the gateway has answered once */
    bool known_away;
    int64_t renew_ms;
    int64_t expedited_ms; /* the next PUT comes so long after the one in progress; -1: as always */
    void (*on_closed)(void *);
    void *closed_context;
    /* The PUT's: the pool's thread writes them. */
    char *body, *answer;
    size_t answer_bytes;
    lh_status status;
    lh_error error;
};

static void put_now(lh_control_renewal *renewal);

static void on_due(uv_timer_t *timer) {
    put_now(timer->data);
}

static void put_on_pool(uv_work_t *work) {
    lh_control_renewal *renewal = work->data;
    renewal->status = lh_control_client_put(renewal->client, renewal->body, &renewal->answer,
                                            &renewal->answer_bytes, &renewal->error);
}

/* One line when the gateway goes, one when it is back. */
static void note_reachability(lh_control_renewal *renewal, lh_status status) {
    if (status != LH_OK && !renewal->known_away) {
        lh_log(LH_LOG_WARN, "control", "no answer of the gateway, trying on reason=\"%s\"",
               renewal->error.message);
    } else if (status == LH_OK && renewal->known_away) {
        lh_log(LH_LOG_INFO, "control", "the gateway answers again");
    } else if (status == LH_OK && !renewal->registered) {
        lh_log(LH_LOG_INFO, "control", "registered with the gateway");
    }
    renewal->registered = renewal->registered || status == LH_OK;
    renewal->known_away = status != LH_OK;
}

static void take_answer(lh_control_renewal *renewal) {
    lh_control_answer *answer = NULL;
    lh_status status = renewal->status;
    if (status == LH_OK) {
        answer = malloc(sizeof *answer);
        status = !answer ? lh_fail(&renewal->error, LH_ERR_NO_MEMORY,
                                   "the gateway's answer: out of memory")
                         : lh_control_answer_parse(renewal->answer, renewal->answer_bytes, answer,
                                                   &renewal->error);
    }
    note_reachability(renewal, status);
    if (status == LH_OK) {
        renewal->renew_ms = answer->renew_ms;
        renewal->events.on_answer(renewal->context, answer);
    } else {
        renewal->events.on_failure(renewal->context);
    }
    free(answer);
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_control_renewal *renewal = handle->data;
    void (*on_closed)(void *) = renewal->on_closed;
    void *context = renewal->closed_context;
    lh_control_client_destroy(renewal->client);
    free(renewal);
    if (on_closed)
        on_closed(context);
}

/* The callbacks may hurry or close: `putting` holds until they are through, so that both are only
 * noted. */
static void on_put_done(uv_work_t *work, int cancelled) {
    lh_control_renewal *renewal = work->data;
    assert(cancelled == 0 && renewal->putting);
    if (!renewal->closing)
        take_answer(renewal);
    free(renewal->body);
    free(renewal->answer);
    renewal->body = renewal->answer = NULL;
    renewal->putting = false;
    if (renewal->closing) {
        uv_close((uv_handle_t *)&renewal->timer, on_timer_closed);
    } else if (renewal->again) {
        put_now(renewal);
    } else {
        bool is_expedited = renewal->expedited_ms >= 0 && renewal->expedited_ms < renewal->renew_ms;
        int64_t pause_ms = is_expedited ? renewal->expedited_ms : renewal->renew_ms;
        uv_timer_start(&renewal->timer, on_due, (uint64_t)pause_ms, 0);
    }
}

static void put_now(lh_control_renewal *renewal) {
    assert(!renewal->putting && !renewal->closing);
    lh_worker_report report = {0};
    renewal->events.fill_report(renewal->context, &report);
    renewal->body = lh_control_report_render(&report);
    renewal->again = false;
    renewal->expedited_ms = -1;
    if (!renewal->body ||
        uv_queue_work(renewal->timer.loop, &renewal->work, put_on_pool, on_put_done) != 0) {
        free(renewal->body);
        renewal->body = NULL;
        lh_log(LH_LOG_WARN, "control", "no report could be made: out of memory");
        uv_timer_start(&renewal->timer, on_due, (uint64_t)renewal->renew_ms, 0);
        return;
    }
    renewal->putting = true;
}

lh_status lh_control_renewal_create(uv_loop_t *loop, lh_control_client *client,
                                    const lh_control_renewal_events *events, void *context,
                                    lh_control_renewal **renewal, lh_error *error) {
    lh_control_renewal *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "renewal: out of memory");
    made->client = client;
    made->events = *events;
    made->context = context;
    made->renew_ms = RENEW_MS_DEFAULT;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    made->work.data = made;
    uv_timer_start(&made->timer, on_due, 0, 0);
    *renewal = made;
    return LH_OK;
}

void lh_control_renewal_hurry(lh_control_renewal *renewal) {
    if (renewal->putting)
        renewal->again = true;
    else if (!renewal->closing)
        uv_timer_start(&renewal->timer, on_due, 0, 0);
}

void lh_control_renewal_expedite(lh_control_renewal *renewal, int64_t within_ms) {
    if (renewal->putting)
        renewal->expedited_ms = within_ms;
    else if (!renewal->closing && uv_timer_get_due_in(&renewal->timer) > (uint64_t)within_ms)
        uv_timer_start(&renewal->timer, on_due, (uint64_t)within_ms, 0);
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
