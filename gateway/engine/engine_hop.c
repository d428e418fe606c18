/* The first hop, over worker_client. */
#include "gateway/engine/engine_hop.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct open_step open_step;
struct open_step {
    open_step *previous, *next;
    lh_step_submission *submission;
    uint32_t epoch;
    uint64_t step;
};

/* One connection. The hop moves on to another one while the old one still closes. */
typedef struct first_worker {
    lh_engine_hop *hop;
    lh_worker_client *client;
    open_step *steps; /* the last one first */
} first_worker;

struct lh_engine_hop {
    uv_loop_t *loop;
    const char *chain;
    const lh_tls_options *tls;
    lh_h2_limits limits;
    lh_engine_hop_events events;
    first_worker *current; /* NULL: none yet */
    uint32_t open_count;   /* connections that have not closed */
    bool is_closing;
    uv_timer_t closer; /* so that on_closed comes from the loop also where nothing is open */
    void (*on_closed)(void *);
    void *closed_context;
};

lh_status lh_engine_hop_create(uv_loop_t *loop, const char *chain, const lh_tls_options *tls,
                               const lh_h2_limits *limits, const lh_engine_hop_events *events,
                               lh_engine_hop **hop, lh_error *error) {
    lh_engine_hop *h = calloc(1, sizeof *h);
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
    lh_engine_hop *hop = handle->data;
    if (hop->on_closed)
        hop->on_closed(hop->closed_context);
    free(hop);
}

static void close_if_last(lh_engine_hop *hop) {
    if (hop->is_closing && hop->open_count == 0)
        uv_close((uv_handle_t *)&hop->closer, on_closer_closed);
}

static void on_client_closed(void *context) {
    first_worker *worker = context;
    lh_engine_hop *hop = worker->hop;
    free(worker);
    hop->open_count--;
    close_if_last(hop);
}

static void leave_current(lh_engine_hop *hop) {
    first_worker *worker = hop->current;
    hop->current = NULL;
    if (worker)
        lh_worker_client_close(worker->client, on_client_closed, worker);
}

void lh_engine_hop_close(lh_engine_hop *hop, void (*on_closed)(void *), void *context) {
    hop->on_closed = on_closed;
    hop->closed_context = context;
    hop->is_closing = true;
    leave_current(hop);
    close_if_last(hop);
}

/* ---- Events of the client ---------------------------------------------------------------------------------------- */

static void on_state(void *context, bool connected, const char *reason) {
    first_worker *worker = context;
    lh_engine_hop *hop = worker->hop;
    if (worker == hop->current)
        hop->events.on_state(hop->events.context, connected, reason);
}

static void unlink_step(first_worker *worker, open_step *step) {
    if (step->previous)
        step->previous->next = step->next;
    else
        worker->steps = step->next;
    if (step->next)
        step->next->previous = step->previous;
}

static void on_done(void *context, void *step_context, lh_status status, const char *blamed,
                    const char *message) {
    first_worker *worker = context;
    lh_engine_hop *hop = worker->hop;
    open_step *step = step_context;
    open_step ended = *step;
    char text[LH_ERROR_MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s%s%s", blamed, blamed[0] ? ": " : "", message);
    unlink_step(worker, step);
    free(step);
    if (!hop->is_closing)
        hop->events.on_done(hop->events.context, ended.epoch, ended.step, status, text);
}

static void on_times(void *context, void *step_context, const uint8_t *frames, size_t length) {
    first_worker *worker = context;
    lh_engine_hop *hop = worker->hop;
    const open_step *step = step_context;
    if (!hop->is_closing)
        hop->events.on_times(hop->events.context, step->epoch, step->step, frames, length);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

lh_status lh_engine_hop_connect(lh_engine_hop *hop, const char *address, bool over_tls, lh_error *error) {
    static const lh_worker_client_events events = {
        .on_state = on_state, .on_done = on_done, .on_times = on_times};
    leave_current(hop);
    first_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a connection to %s", address);
    worker->hop = hop;
    lh_status status = lh_worker_client_create(hop->loop, address, hop->chain, over_tls ? hop->tls : NULL,
                                               &hop->limits, &events, worker, &worker->client, error);
    if (status != LH_OK) {
        free(worker);
        return status;
    }
    hop->open_count++;
    hop->current = worker;
    return LH_OK;
}

lh_status lh_engine_hop_submit(lh_engine_hop *hop, const lh_step_manifest *manifest, lh_error *error) {
    first_worker *worker = hop->current;
    if (!worker)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "there is no first worker");
    open_step *step = calloc(1, sizeof *step);
    if (!step)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a step");
    lh_status status = lh_worker_client_submit(worker->client, manifest, step, &step->submission, error);
    if (status != LH_OK) {
        free(step);
        return status;
    }
    step->epoch = manifest->epoch;
    step->step = manifest->step;
    step->next = worker->steps;
    if (step->next)
        step->next->previous = step;
    worker->steps = step;
    lh_step_submission_end(step->submission);
    return LH_OK;
}

void lh_engine_hop_cancel(lh_engine_hop *hop, uint64_t number) {
    for (open_step *step = hop->current ? hop->current->steps : NULL; step; step = step->next)
        if (step->step == number)
            lh_step_submission_cancel(step->submission);
}

/* The last one first, so that no worker sees a gap. */
void lh_engine_hop_cancel_all(lh_engine_hop *hop) {
    for (open_step *step = hop->current ? hop->current->steps : NULL; step; step = step->next)
        lh_step_submission_cancel(step->submission);
}

void lh_engine_hop_read_profile(const lh_engine_hop *hop, lh_hop_profile *profile) {
    *profile = (lh_hop_profile){0};
    if (hop->current)
        lh_worker_client_read_profile(hop->current->client, profile);
}
