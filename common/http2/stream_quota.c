/* A list of places, and a timer that looks at them. */
#include "common/http2/stream_quota.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { STALL_TICKS = 6 /* resolution of the limits */ };

static uint64_t tick_ms(const lh_stream_quota *quota) {
    uint64_t ms = quota->limits.stall_ms / STALL_TICKS;
    return ms > 0 ? ms : 1;
}

/* Of the most patient of its peer, where they leave it in an order: what waits behind a stream that
 * may stand still stands still for as long. */
static uint32_t patience_of(const lh_stream_place *place) {
    uint32_t most = place->patience;
    if (place->quota->limits.is_by_peer)
        for (const lh_stream_place *other = place->quota->first; other; other = other->next)
            if (other->patience > most && strcmp(other->peer, place->peer) == 0)
                most = other->patience;
    return most;
}

/* Counts ticks rather than time: a gateway that was itself stopped drops nobody for it. */
static bool is_overdue(lh_stream_place *place) {
    const lh_stream_quota *quota = place->quota;
    uint64_t whole_ms = quota->limits.whole_ms;
    place->idle_ticks = place->is_alive ? 0 : place->idle_ticks + 1;
    place->has_moved = false;
    place->age_ticks++;
    return place->idle_ticks >= STALL_TICKS * patience_of(place) ||
           (whole_ms > 0 && place->age_ticks * tick_ms(quota) >= whole_ms);
}

static bool is_alive(const lh_stream_place *place) {
    const lh_stream_quota *quota = place->quota;
    if (place->has_moved || place->is_held || !quota->limits.is_by_peer)
        return place->has_moved || place->is_held;
    for (const lh_stream_place *other = quota->first; other; other = other->next)
        if ((other->has_moved || other->is_held) && strcmp(other->peer, place->peer) == 0)
            return true;
    return false;
}

static void on_tick(uv_timer_t *timer) {
    const lh_stream_quota *quota = timer->data;
    for (lh_stream_place *place = quota->first; place; place = place->next)
        place->is_alive = is_alive(place);
    const char *peer = NULL;
    uint32_t dropped = 0;
    for (lh_stream_place *place = quota->first; place; place = place->next) {
        if (place->is_dropped || !is_overdue(place))
            continue;
        place->is_dropped = true;
        peer = place->peer;
        dropped++;
        lh_h2_stream_cancel(place->stream); /* on_closed comes later */
    }
    if (dropped > 0)
        lh_log(LH_LOG_WARN, "h2",
               "%s are dropped: no byte has moved for too long count=%u last_peer=%s", quota->kind,
               dropped, peer);
}

void lh_stream_quota_init(lh_stream_quota *quota, uv_loop_t *loop, const char *kind,
                          const lh_stream_quota_limits *limits) {
    *quota = (lh_stream_quota){.kind = kind, .limits = *limits};
    uv_timer_init(loop, &quota->timer);
    quota->timer.data = quota;
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_stream_quota *quota = handle->data;
    quota->on_closed(quota->context);
}

void lh_stream_quota_close(lh_stream_quota *quota, void (*on_closed)(void *), void *context) {
    assert(!quota->first && quota->count == 0);
    quota->on_closed = on_closed;
    quota->context = context;
    uv_close((uv_handle_t *)&quota->timer, on_timer_closed);
}

/* ---- Places ---- */

static void name_peer(const lh_h2_request *request, char name[LH_ADDRESS_TEXT_BYTES]) {
    if (request->peer_identity->kind == LH_TLS_WORKER)
        snprintf(name, LH_ADDRESS_TEXT_BYTES, "%s", request->peer_identity->name);
    else
        lh_address_render_owner(request->peer, name);
}

static uint32_t count_of(const lh_stream_quota *quota, const char *peer) {
    uint32_t count = 0;
    for (const lh_stream_place *place = quota->first; place; place = place->next)
        count += !place->is_dropped && strcmp(place->peer, peer) == 0;
    return count;
}

/* Places of the peer for the same sender. */
static uint32_t count_of_sender(const lh_stream_place *of) {
    uint32_t count = 0;
    for (const lh_stream_place *place = of->quota->first; place; place = place->next)
        count += !place->is_dropped && strcmp(place->peer, of->peer) == 0 &&
                 strcmp(place->sender, of->sender) == 0;
    return count;
}

/* Whether a place is given up before the other one. Among the places of one peer, those of the
 * sender that has most go first; then the one that has stood still for longer, or is older. */
static bool goes_rather(const lh_stream_place *place, const lh_stream_place *other,
                        bool is_of_one) {
    const uint32_t places = is_of_one ? count_of_sender(place) : 0,
                   others = is_of_one ? count_of_sender(other) : 0;
    return places != others ? places > others : place->idle_ticks >= other->idle_ticks;
}

/* Cancels the stream that goes first: of this peer, or of all where peer is NULL. False: none may
 * be cancelled. */
static bool drop_stillest(lh_stream_quota *quota, const char *peer) {
    lh_stream_place *stillest = NULL;
    for (lh_stream_place *place = quota->first; place; place = place->next)
        if (!place->is_dropped && place->patience == 1 &&
            (!peer || strcmp(place->peer, peer) == 0) &&
            (!stillest || goes_rather(place, stillest, peer)))
            stillest = place;
    if (!stillest)
        return false;
    stillest->is_dropped = true;
    lh_h2_stream_cancel(stillest->stream);
    return true;
}

static uint32_t count_all(const lh_stream_quota *quota) {
    uint32_t count = 0;
    for (const lh_stream_place *place = quota->first; place; place = place->next)
        count += !place->is_dropped;
    return count;
}

/* There is room already, or there is now. */
static bool make_room(lh_stream_quota *quota, uint32_t count, uint32_t most, const char *peer) {
    return count < most || (quota->limits.has_turnover && drop_stillest(quota, peer));
}

bool lh_stream_quota_is_full(const lh_stream_quota *quota, const lh_h2_request *request) {
    char peer[LH_ADDRESS_TEXT_BYTES];
    name_peer(request, peer);
    return quota->count >= quota->limits.all_max || count_of(quota, peer) >= quota->limits.peer_max;
}

static bool has_room(lh_stream_quota *quota, const char *peer, lh_h2_stream *stream) {
    const lh_stream_quota_limits *limits = &quota->limits;
    char text[128];
    if (!make_room(quota, count_of(quota, peer), limits->peer_max, peer)) {
        snprintf(text, sizeof text, "%s: a peer may have %u at once\n", quota->kind,
                 limits->peer_max);
        lh_h2_stream_respond(stream, 429, text);
        return false;
    }
    if (!make_room(quota, count_all(quota), limits->all_max, NULL)) {
        snprintf(text, sizeof text, "%s: all peers may have %u at once\n", quota->kind,
                 limits->all_max);
        lh_h2_stream_respond(stream, 503, text);
        return false;
    }
    return true;
}

lh_status lh_stream_place_enter(lh_stream_place *place, lh_stream_quota *quota,
                                lh_h2_stream *stream, const lh_h2_request *request) {
    return lh_stream_place_enter_for(place, quota, stream, request, NULL);
}

lh_status lh_stream_place_enter_for(lh_stream_place *place, lh_stream_quota *quota,
                                    lh_h2_stream *stream, const lh_h2_request *request,
                                    const char *sender) {
    *place =
        (lh_stream_place){.quota = quota, .stream = stream, .patience = 1, .next = quota->first};
    name_peer(request, place->peer);
    snprintf(place->sender, sizeof place->sender, "%s", sender ? sender : "");
    if (!has_room(quota, place->peer, stream))
        return LH_ERR_LIMIT;
    if (place->next)
        place->next->previous = place;
    else
        uv_timer_start(&quota->timer, on_tick, tick_ms(quota), tick_ms(quota));
    quota->first = place;
    quota->count++;
    return LH_OK;
}

void lh_stream_place_move(lh_stream_place *place) {
    place->has_moved = true;
}

size_t lh_stream_place_peer_bytes(const lh_stream_place *place) {
    size_t bytes = 0;
    for (const lh_stream_place *other = place->quota->first; other; other = other->next)
        bytes += strcmp(other->peer, place->peer) == 0 ? other->held_bytes : 0;
    return bytes;
}

void lh_stream_place_set_patience(lh_stream_place *place, uint32_t times) {
    place->patience = times;
}

void lh_stream_place_leave(lh_stream_place *place) {
    lh_stream_quota *quota = place->quota;
    assert(quota->count > 0 && (place->previous || quota->first == place));
    if (place->previous)
        place->previous->next = place->next;
    else
        quota->first = place->next;
    if (place->next)
        place->next->previous = place->previous;
    if (--quota->count == 0)
        uv_timer_stop(&quota->timer);
}
