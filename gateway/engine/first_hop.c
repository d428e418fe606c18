/* One connection at a time, by worker_client, and one trial; a new one is made while the old one
 * still closes. */
#include "gateway/engine/first_hop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Which hop is tried. */
typedef struct tried_hop {
    bool is_set;
    lh_way way;
    uint32_t width;
} tried_hop;

struct lh_first_hop {
    uv_loop_t *loop;
    const char *chain;
    const lh_tls_options *tls;
    lh_h2_limits limits;
    lh_first_hop_events events;
    /* NULL: none yet. */
    first_worker *current;
    tried_hop tried;
    /* Of it; NULL: it could not begin, or there is none. */
    lh_hop_trial *trial;
    /* Where it could not begin: what is to be said of it. */
    lh_hop_trial_report stuck;
    /* Connections and trials that have not closed. */
    uint32_t open_count;
    bool is_closing;
    /* Tells from the loop what was found inside a call; on_closed comes from there, too. */
    uv_timer_t teller;
    bool must_tell_connected, must_tell_trial;
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
    uv_timer_init(loop, &h->teller);
    h->teller.data = h;
    *hop = h;
    return LH_OK;
}

static void on_teller_closed(uv_handle_t *handle) {
    lh_first_hop *hop = handle->data;
    if (hop->on_closed)
        hop->on_closed(hop->closed_context);
    free(hop);
}

static void close_if_last(lh_first_hop *hop) {
    if (hop->is_closing && hop->open_count == 0)
        uv_close((uv_handle_t *)&hop->teller, on_teller_closed);
}

static void on_part_closed(void *context) {
    lh_first_hop *hop = context;
    assert(hop->open_count > 0);
    hop->open_count--;
    close_if_last(hop);
}

static void on_client_closed(void *context) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    assert(worker != hop->current && LIST_EMPTY(&worker->steps));
    free(worker);
    on_part_closed(hop);
}

static void leave_current(lh_first_hop *hop) {
    first_worker *worker = hop->current;
    hop->current = NULL;
    hop->must_tell_connected = false;
    if (worker)
        lh_worker_client_close(worker->client, on_client_closed, worker);
}

static void end_trial(lh_first_hop *hop) {
    lh_hop_trial *trial = hop->trial;
    hop->trial = NULL;
    hop->tried.is_set = false;
    hop->must_tell_trial = false;
    if (trial)
        lh_hop_trial_close(trial, on_part_closed, hop);
}

void lh_first_hop_close(lh_first_hop *hop, void (*on_closed)(void *), void *context) {
    assert(!hop->is_closing);
    hop->on_closed = on_closed;
    hop->closed_context = context;
    hop->is_closing = true;
    leave_current(hop);
    end_trial(hop);
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
        hop->events.on_done(hop->events.context, ended.epoch, ended.step, status, blamed, text);
}

static void on_times(void *context, void *step_context, const uint8_t *frames, size_t length) {
    first_worker *worker = context;
    lh_first_hop *hop = worker->hop;
    const inflight_step *step = step_context;
    if (!hop->is_closing)
        hop->events.on_times(hop->events.context, step->epoch, step->step, frames, length);
}

static const lh_worker_client_events client_events = {
    .on_state = on_state, .on_done = on_done, .on_times = on_times};

static void on_trial_change(void *context) {
    lh_first_hop *hop = context;
    if (hop->events.on_trial)
        hop->events.on_trial(hop->events.context,
                             hop->trial ? lh_hop_trial_read(hop->trial) : &hop->stuck);
}

/* ---- What is told from the loop ---- */

static void on_telling(uv_timer_t *timer) {
    lh_first_hop *hop = timer->data;
    if (hop->must_tell_connected) {
        hop->must_tell_connected = false;
        if (lh_worker_client_is_connected(hop->current->client))
            hop->events.on_state(hop->events.context, true, "connected");
    }
    if (hop->must_tell_trial) {
        hop->must_tell_trial = false;
        on_trial_change(hop);
    }
}

static void tell_soon(lh_first_hop *hop) {
    uv_timer_start(&hop->teller, on_telling, 0, 0);
}

/* ---- The trial ---- */

static lh_status open_client(lh_first_hop *hop, const lh_way *way, void *context,
                             lh_worker_client **client, lh_error *error) {
    bool has_tls = way->tls && hop->tls;
    lh_tls_options tls = {0};
    if (has_tls)
        tls = lh_tls_options_for(hop->tls, lh_way_peer(way));
    lh_status status =
        lh_worker_client_create(hop->loop, way->address, hop->chain, has_tls ? &tls : NULL,
                                &hop->limits, &client_events, context, client, error);
    if (status == LH_OK && way->via[0] != '\0')
        lh_worker_client_set_relayed_to(*client, way->worker);
    return status;
}

static lh_status begin_trial(lh_first_hop *hop, lh_error *error) {
    const tried_hop *tried = &hop->tried;
    const lh_hop_trial_options options = {.next = tried->way.worker,
                                          .address = tried->way.address,
                                          .width = tried->width,
                                          .wire = LH_WIRE_F32, /* it carries no activation */
                                          .on_change = on_trial_change,
                                          .context = hop};
    lh_worker_client *client;
    lh_status status = open_client(hop, &tried->way, NULL, &client, error);
    if (status != LH_OK)
        return status;
    hop->open_count++;
    status = lh_hop_trial_create(hop->loop, client, &options, &hop->trial, error);
    if (status != LH_OK)
        lh_worker_client_close(client, on_part_closed, hop);
    return status;
}

static bool is_tried(const lh_first_hop *hop, const lh_way *way) {
    return hop->tried.is_set && lh_way_is_same(&hop->tried.way, way);
}

void lh_first_hop_try(lh_first_hop *hop, const lh_way *way, uint32_t width) {
    tried_hop *tried = &hop->tried;
    lh_error error;
    assert(!hop->is_closing);
    if (way && is_tried(hop, way) && tried->width == width) {
        hop->must_tell_trial = true;
        tell_soon(hop);
        return;
    }
    end_trial(hop);
    if (!way)
        return;
    *tried = (tried_hop){.is_set = true, .way = *way, .width = width};
    if (begin_trial(hop, &error) == LH_OK)
        return;
    hop->stuck = lh_hop_trial_stuck(way->worker, way->address, &error);
    hop->must_tell_trial = true;
    tell_soon(hop);
}

static bool has_proven(const lh_first_hop *hop, const lh_way *way) {
    return hop->trial && is_tried(hop, way) &&
           lh_hop_trial_read(hop->trial)->state == LH_HOP_TRIAL_PROVEN;
}

/* ---- Steps ---- */

static void take_proven(lh_first_hop *hop, first_worker *worker) {
    worker->client = lh_hop_trial_take(hop->trial, &client_events, worker);
    end_trial(hop);
    hop->must_tell_connected = true;
    tell_soon(hop);
}

lh_status lh_first_hop_connect(lh_first_hop *hop, const lh_way *way, lh_error *error) {
    assert(!hop->is_closing);
    leave_current(hop);
    first_worker *first = calloc(1, sizeof *first);
    if (!first)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a connection to %s", way->address);
    first->hop = hop;
    lh_status status = LH_OK;
    if (has_proven(hop, way))
        take_proven(hop, first);
    else
        status = open_client(hop, way, first, &first->client, error);
    if (status != LH_OK) {
        free(first);
        return status;
    }
    hop->open_count++;
    hop->current = first;
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
