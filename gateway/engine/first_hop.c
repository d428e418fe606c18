/* One connection at a time, by worker_client; a new one is made while the old one still closes. */
#include "gateway/engine/first_hop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

typedef struct inflight_step {
    LIST_ENTRY(inflight_step) others;
    lh_step_submission *submission;
    uint32_t epoch;
    uint64_t step;
} inflight_step;

/* One connection. */
typedef struct first_worker {
    lh_first_hop *hop;
    lh_worker_client *client;
    /* The last one first. */
    LIST_HEAD(, inflight_step) steps;
} first_worker;

struct lh_first_hop {
    uv_loop_t *loop;
    const char *chain;
    const lh_tls_options *tls;
    lh_h2_limits limits;
    lh_first_hop_events events;
    /* NULL: none yet. */
    first_worker *current;
    /* Connections that have not closed. */
    uint32_t open_count;
    bool is_closing;
    /* Makes on_closed come from the loop also where no connection is open. */
    uv_timer_t closer;
    void (*on_closed)(void *);
    void *closed_context;
};

lh_status lh_first_hop_create(uv_loop_t *loop, const char *chain, const lh_tls_options *tls,
                              const lh_h2_limits *limits, const lh_first_hop_events *events,
                              lh_first_hop **hop, lh_error *error) {
    lh_first_hop *h = calloc(1, sizeof *h);
    if (!h)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the first hop");
    h->loop = loop;
    h->chain = chain;
    h->tls = tls;
    h->limits = *limits;
    h->limits.probe_bytes_max = LH_WORKER_CLIENT_SMALL_PROBE_BYTES;
    h->events = *events;
    uv_timer_init(loop, &h->closer);
    h->closer.data = h;
    *hop = h;
    return LH_OK;
}

static void on_closer_closed(uv_handle_t *handle) {
    lh_first_hop *hop = handle->data;
    if (hop->on_closed)
        hop->on_closed(hop->closed_context);
    free(hop);
}

static void close_if_last(lh_first_hop *hop) {
    if (hop->is_closing && hop->open_count == 0)
        uv_close((uv_handle_t *)&hop->closer, on_closer_closed);
}

static void on_client_closed(void *context) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    assert(worker != hop->current && LIST_EMPTY(&worker->steps) && hop->open_count > 0);
    free(worker);
    hop->open_count--;
    close_if_last(hop);
}

static void leave_current(lh_first_hop *hop) {
    first_worker *worker = hop->current;
    hop->current = NULL;
    if (worker)
        lh_worker_client_close(worker->client, on_client_closed, worker);
}

void lh_first_hop_close(lh_first_hop *hop, void (*on_closed)(void *), void *context) {
    assert(!hop->is_closing);
    hop->on_closed = on_closed;
    hop->closed_context = context;
    hop->is_closing = true;
    leave_current(hop);
    close_if_last(hop);
}

/* ---- Events of the client ---- */

static void on_state(void *context, bool connected, const char *reason) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    if (worker == hop->current)
        hop->events.on_state(hop->events.context, connected, reason);
}

static void on_done(void *context, void *step_context, lh_status status, const char *blamed,
                    const char *message) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    inflight_step *step = step_context;
    inflight_step ended = *step;
    char text[LH_ERROR_MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s%s%s", blamed, blamed[0] ? ": " : "", message);
    LIST_REMOVE(step, others);
    free(step);
    if (!hop->is_closing)
        hop->events.on_done(hop->events.context, ended.epoch, ended.step, status, text);
}

static void on_times(void *context, void *step_context, const uint8_t *frames, size_t length) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    const inflight_step *step = step_context;
    if (!hop->is_closing)
        hop->events.on_times(hop->events.context, step->epoch, step->step, frames, length);
}

/* ---- Steps ---- */

lh_status lh_first_hop_connect(lh_first_hop *hop, const char *address, bool over_tls,
                               lh_error *error) {
    static const lh_worker_client_events events = {
        .on_state = on_state, .on_done = on_done, .on_times = on_times};
    assert(!hop->is_closing);
    leave_current(hop);
    first_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a connection to %s", address);
    worker->hop = hop;
    lh_status status =
        lh_worker_client_create(hop->loop, address, hop->chain, over_tls ? hop->tls : NULL,
                                &hop->limits, &events, worker, &worker->client, error);
    if (status != LH_OK) {
        free(worker);
        return status;
    }
    hop->open_count++;
    hop->current = worker;
    return LH_OK;
}

lh_status lh_first_hop_submit(lh_first_hop *hop, const lh_step_manifest *manifest,
                              lh_error *error) {
    first_worker *worker = hop->current;
    assert(!hop->is_closing);
    if (!worker)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "there is no first worker");
    inflight_step *step = calloc(1, sizeof *step);
    if (!step)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a step");
    lh_status status =
        lh_worker_client_submit(worker->client, manifest, step, &step->submission, error);
    if (status != LH_OK) {
        free(step);
        return status;
    }
    step->epoch = manifest->epoch;
    step->step = manifest->step;
    LIST_INSERT_HEAD(&worker->steps, step, others);
    lh_step_submission_end(step->submission);
    return LH_OK;
}

/* The last one first, so that no worker sees a gap in the steps' numbers. */
void lh_first_hop_cancel(lh_first_hop *hop, uint64_t number) {
    inflight_step *step;
    if (!hop->current)
        return;
    LIST_FOREACH(step, &hop->current->steps, others) {
        if (number == 0 || step->step == number)
            lh_step_submission_cancel(step->submission);
    }
}

lh_hop_profile lh_first_hop_profile(const lh_first_hop *hop) {
    lh_hop_profile profile = {0};
    if (hop->current)
        lh_worker_client_read_profile(hop->current->client, &profile);
    return profile;
}
