/* Bounds streams of one kind: how many there are at once, for each peer and for all, how long one
 * may stand still, and how long it may last. A peer is a certificate's worker; without TLS, an
 * address, or of IPv6 a network of 64 bits: however many connections it has, it has one share.
 * Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "common/net/address.h"

#include <uv.h>

typedef struct lh_stream_quota_limits {
    uint32_t peer_max, all_max; /* streams at once */
    uint64_t stall_ms;          /* without a byte that moves */
    uint64_t whole_ms;          /* from begin to end; 0: as long as it moves */
    /* None stands still while another one of its peer moves, or may stand still for longer: they
     * leave the peer in an order. */
    bool is_by_peer;
    /* A newcomer takes the place of the one that has stood still longest, of its peer or of all,
     * instead of being refused; where its peer passes on what others send, of the one of these that
     * has most. */
    bool has_turnover;
} lh_stream_quota_limits;

/* Read by others; written by stream_quota.c alone. */
typedef struct lh_stream_quota {
    const char *kind; /* "transfers of weights": for answers and log lines */
    lh_stream_quota_limits limits;
    uv_timer_t timer; /* runs while there are streams */
    struct lh_stream_place *first;
    uint32_t count;
    void (*on_closed)(void *);
    void *context;
} lh_stream_quota;

/* A stream's place, a part of what its owner holds for it. */
typedef struct lh_stream_place {
    lh_stream_quota *quota;
    struct lh_stream_place *previous, *next;
    lh_h2_stream *stream;
    bool has_moved; /* since the last tick */
    bool is_held;   /* its peer may not send, or need not: as if it moved */
    bool is_alive;  /* at the last tick: it, or one of its peer, moved */
    uint32_t
        patience;    /* how many times stall_ms it may stand still, and no newcomer takes its place
                        * where that is more than 1 */
    bool is_dropped; /* cancelled: it leaves when its stream has closed */
    uint32_t idle_ticks, age_ticks;
    size_t held_bytes; /* its owner's count of what it keeps of it */
    char peer[LH_ADDRESS_TEXT_BYTES];
    char sender[80]; /* for whom the peer passes it on, as it says; "": for itself */
} lh_stream_place;

/* `kind` outlives the quota, which stays where it is until it is closed. */
void lh_stream_quota_init(lh_stream_quota *quota, uv_loop_t *loop, const char *kind,
                          const lh_stream_quota_limits *limits);
/* Nobody may have a place. on_closed comes from the loop. */
void lh_stream_quota_close(lh_stream_quota *quota, void (*on_closed)(void *), void *context);

/* Takes a place, until _leave. LH_ERR_LIMIT: the peer has its share, or all have theirs, and the
 * request has been answered so (429, 503). Who stands still or lasts too long is cancelled, which
 * its on_closed tells. */
lh_status lh_stream_place_enter(lh_stream_place *place, lh_stream_quota *quota,
                                lh_h2_stream *stream, const lh_h2_request *request);
/* The same of a stream that the peer passes on: the peer has no more places for that, and shares
 * them among those for whom it does so. sender is cut where it is too long; NULL: the peer itself.
 */
lh_status lh_stream_place_enter_for(lh_stream_place *place, lh_stream_quota *quota,
                                    lh_h2_stream *stream, const lh_h2_request *request,
                                    const char *sender);
/* A byte has moved. */
void lh_stream_place_move(lh_stream_place *place);
/* What its owner keeps of all streams of its peer. */
size_t lh_stream_place_peer_bytes(const lh_stream_place *place);
/* For a stream that has shown that it may be here. */
void lh_stream_place_set_patience(lh_stream_place *place, uint32_t times);
/* Whether another stream of this peer, or of anybody, would be refused. */
bool lh_stream_quota_is_full(const lh_stream_quota *quota, const lh_h2_request *request);
void lh_stream_place_leave(lh_stream_place *place);
