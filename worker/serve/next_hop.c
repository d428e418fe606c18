/* One lh_worker_client at a time, one trial, and those that are still closing. */
#include "worker/serve/next_hop.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A step that the next hop has not answered for so long, and no other one either: perhaps its
 * connection is alive, but the two ends no longer agree on what may be sent, as after a flipped bit
 * in a window. Then the next chain begins with another one. */
#define STALLED_US 5000000

/* ---- The connections ---- */

/* Whether both lead to the same end, by the same way. */
static bool leads_alike(const lh_chain_route *a, const lh_chain_route *b) {
    return strcmp(a->chain, b->chain) == 0 && lh_way_is_same(&a->next, &b->next);
}

bool lh_next_hop_is_for(const lh_next_hop *hop, const lh_chain_route *present,
                        const lh_chain_route *route) {
    return hop->client && !hop->is_suspect && leads_alike(present, route);
}

static void on_part_closed(void *context) {
    lh_next_hop *hop = context;
    assert(hop->open_parts > 0);
    hop->open_parts--;
    hop->on_closed(hop->context);
}

/* Whether the connections of one serve the other. */
static bool is_same_hop(const lh_chain_route *a, const lh_chain_route *b) {
    return leads_alike(a, b) && a->is_last == b->is_last;
}

static lh_status open_client(lh_next_hop *hop, const lh_chain_route *route,
                             lh_worker_client **client, lh_error *error) {
    const lh_way *next = &route->next;
    if (next->tls && !hop->tls)
        return lh_fail(error, LH_ERR_INVALID,
                       "the next hop %.80s takes TLS: give --tls-cert, --tls-key and --tls-ca",
                       next->address);
    lh_tls_options meant = {0};
    if (next->tls)
        meant = lh_tls_options_for(hop->tls, lh_way_peer(next));
    const lh_tls_options *tls = next->tls ? &meant : NULL;
    uint32_t lanes = route->is_last ? 0 : hop->connections - 1;
    lh_h2_limits limits = hop->limits;
    if (route->is_last || lanes > 0)
        limits.probe_bytes_max = LH_WORKER_CLIENT_SMALL_PROBE_BYTES;
    lh_worker_client *created;
    lh_status status = lh_worker_client_create(hop->loop, next->address, route->chain, tls, &limits,
                                               &hop->events, hop->context, &created, error);
    if (status != LH_OK)
        return status;
    hop->open_parts++;
    lh_worker_client_set_relayed_to(created, next->via[0] != '\0' ? next->worker : "");
    status = lh_worker_client_add_lanes(created, hop->loop, tls, &hop->limits, lanes, error);
    if (status == LH_OK)
        *client = created;
    else
        lh_worker_client_close(created, on_part_closed, hop);
    return status;
}

static void end_trial(lh_next_hop *hop) {
    if (hop->trial)
        lh_hop_trial_close(hop->trial, on_part_closed, hop);
    hop->trial = NULL;
    hop->is_trying = false;
    hop->stuck = (lh_hop_trial_report){.state = LH_HOP_TRIAL_NONE};
}

lh_status lh_next_hop_connect(lh_next_hop *hop, const lh_chain_route *route,
                              lh_worker_client **client, lh_error *error) {
    if (lh_next_hop_read_trial(hop)->state != LH_HOP_TRIAL_PROVEN ||
        !is_same_hop(&hop->tried, route))
        return open_client(hop, route, client, error);
    *client = lh_hop_trial_take(hop->trial, &hop->events, hop->context);
    hop->open_parts++; /* the trial's count goes with the rest of it */
    end_trial(hop);
    return LH_OK;
}

void lh_next_hop_use(lh_next_hop *hop, lh_worker_client *client) {
    if (hop->client && hop->client != client)
        lh_worker_client_close(hop->client, on_part_closed, hop);
    if (hop->client != client)
        hop->error[0] = '\0';
    hop->client = client;
    hop->is_suspect = false;
}

void lh_next_hop_note_state(lh_next_hop *hop, const char *address, bool connected,
                            const char *reason) {
    char text[LH_ERROR_MESSAGE_BYTES] = "";
    if (!connected)
        snprintf(text, sizeof text, "%.200s: %.100s", address, reason);
    lh_worker_report_copy_error(hop->error, text);
}

/* ---- The trial ---- */

static lh_status begin_trial(lh_next_hop *hop, const lh_chain_route *route, lh_error *error) {
    const lh_hop_trial_options options = {.next = route->next.worker,
                                          .address = route->next.address,
                                          .width = route->is_last ? 0 : route->width,
                                          .wire = route->wire,
                                          .on_change = hop->on_trial,
                                          .context = hop->context};
    lh_worker_client *client;
    lh_status status = open_client(hop, route, &client, error);
    if (status != LH_OK)
        return status;
    status = lh_hop_trial_create(hop->loop, client, &options, &hop->trial, error);
    if (status != LH_OK)
        lh_worker_client_close(client, on_part_closed, hop);
    return status; /* the client's count is the trial's now */
}

bool lh_next_hop_try(lh_next_hop *hop, const lh_chain_route *route) {
    lh_error error;
    if (route && hop->is_trying && is_same_hop(&hop->tried, route) &&
        hop->tried.width == route->width && hop->tried.wire == route->wire)
        return false;
    end_trial(hop);
    if (!route)
        return false;
    hop->tried = *route;
    hop->is_trying = true;
    if (begin_trial(hop, route, &error) != LH_OK)
        hop->stuck = lh_hop_trial_stuck(route->next.worker, route->next.address, &error);
    return true;
}

const lh_hop_trial_report *lh_next_hop_read_trial(const lh_next_hop *hop) {
    return hop->trial ? lh_hop_trial_read(hop->trial) : &hop->stuck;
}

void lh_next_hop_report_trial(const lh_next_hop *hop, lh_hop_trial_report *report) {
    *report = *lh_next_hop_read_trial(hop);
    if (hop->trial)
        lh_hop_trial_read_profile(hop->trial, &report->hop);
}

/* ---- Steps ---- */

lh_status lh_next_hop_submit(lh_next_hop *hop, const lh_step_manifest *manifest, void *step,
                             lh_step_submission **submission, lh_error *error) {
    assert(hop->client);
    lh_error cause = {.status = LH_OK};
    lh_status status = lh_worker_client_submit(hop->client, manifest, step, submission, &cause);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "the next hop: %.280s", cause.message);
}

void lh_next_hop_note_answer(lh_next_hop *hop, int64_t now_us) {
    hop->answered_us = now_us;
}

void lh_next_hop_note_loss(lh_next_hop *hop, int64_t begun_us, int64_t now_us) {
    if (now_us - begun_us > STALLED_US && now_us - hop->answered_us > STALLED_US)
        hop->is_suspect = true;
}

void lh_next_hop_read_profile(const lh_next_hop *hop, lh_hop_profile *profile) {
    *profile = (lh_hop_profile){0};
    if (hop->client)
        lh_worker_client_read_profile(hop->client, profile);
}
