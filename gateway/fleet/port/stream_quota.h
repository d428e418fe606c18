/* Bounds streams of one kind: how many there are at once, for each peer and for all, how long one
 * may stand still, and how long it may last. A peer is a certificate's common name; without TLS, an
 * address: however many connections it has, it has one share. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"

#include <uv.h>

typedef struct lh_stream_quota_limits {
    uint32_t peer_max, all_max; /* streams at once */
    uint64_t stall_ms;          /* without a byte that moves */
    uint64_t whole_ms;          /* from begin to end; 0: as long as it moves */
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
    bool has_moved;  /* since the last tick */
    bool is_dropped; /* cancelled: it leaves when its stream has closed */
    uint32_t idle_ticks, age_ticks;
    char peer[64];
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
/* A byte has moved. */
void lh_stream_place_move(lh_stream_place *place);
void lh_stream_place_leave(lh_stream_place *place);
