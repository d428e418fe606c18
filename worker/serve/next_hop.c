/* One lh_worker_client at a time, and those that are still closing. */
#include "worker/serve/next_hop.h"

#include <assert.h>
#include <string.h>

/* A step that the next hop has not answered for so long, and no other one either: perhaps its
 * connection is alive, but the two ends no longer agree on what may be sent, as after a flipped bit
 * in a window. Then the next chain begins with another one. */
#define STALLED_US 5000000

/* ---- The connections ---- */

bool lh_next_hop_is_for(const lh_next_hop *hop, const lh_chain_route *present,
                        const lh_chain_route *route) {
    return hop->client && !hop->is_suspect && strcmp(present->chain, route->chain) == 0 &&
           strcmp(present->next_address, route->next_address) == 0 &&
           present->next_tls == route->next_tls;
}

static void on_client_closed(void *context) {
    lh_next_hop *hop = context;
    assert(hop->open_clients > 0);
    hop->open_clients--;
    hop->on_closed(hop->context);
}

lh_status lh_next_hop_connect(lh_next_hop *hop, const lh_chain_route *route,
                              lh_worker_client **client, lh_error *error) {
    if (route->next_tls && !hop->tls)
        return lh_fail(error, LH_ERR_INVALID,
                       "the next hop %.80s takes TLS: give --tls-cert, --tls-key and --tls-ca",
                       route->next_address);
    const lh_tls_options *tls = route->next_tls ? hop->tls : NULL;
    uint32_t lanes = route->is_last ? 0 : hop->connections - 1;
    lh_h2_limits limits = hop->limits;
    if (route->is_last || lanes > 0)
        limits.probe_bytes_max = LH_WORKER_CLIENT_SMALL_PROBE_BYTES;
    lh_status status = lh_worker_client_create(hop->loop, route->next_address, route->chain, tls,
                                               &limits, &hop->events, hop->context, client, error);
    if (status != LH_OK)
        return status;
    hop->open_clients++;
    status = lh_worker_client_add_lanes(*client, hop->loop, tls, &hop->limits, lanes, error);
    if (status != LH_OK)
        lh_worker_client_close(*client, on_client_closed, hop);
    return status;
}

void lh_next_hop_use(lh_next_hop *hop, lh_worker_client *client) {
    if (hop->client && hop->client != client)
        lh_worker_client_close(hop->client, on_client_closed, hop);
    hop->client = client;
    hop->is_suspect = false;
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
