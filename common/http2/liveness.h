/* Is the peer of a connection alive? Counts ticks rather than time, so that a process that was
 * itself stopped does not declare its peers dead before it has read what they sent. Private to
 * common/http2. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "common/http2/limits.h"

#include <stdbool.h>

typedef struct lh_h2_liveness {
    const lh_h2_limits *limits; /* as long as this */
    int64_t tick_ms;            /* between calls of _tick */
    int64_t age_ms, silent_ms, headers_ms, stalled_ms, since_ping_ms;
    int64_t ping_interval_ms; /* short enough for the limit of silence; 0: no PINGs */
    bool heard, started;
    uint64_t ping_number; /* of the last PING */
    int64_t ping_sent_us; /* 0: it was answered */
} lh_h2_liveness;

/* What the connection was doing at a tick. */
typedef struct lh_h2_activity {
    bool ready;       /* the peer speaks HTTP/2 */
    bool writing;     /* the kernel has not taken all that it was given */
    bool mid_headers; /* a request's headers have begun and not ended */
    bool watched;     /* somebody waits for the peer: it has to answer PINGs */
} lh_h2_activity;

void lh_h2_liveness_init(lh_h2_liveness *liveness, const lh_h2_limits *limits);
/* The peer speaks HTTP/2: the number of a PING to send now, or 0. */
uint64_t lh_h2_liveness_start(lh_h2_liveness *liveness);
/* Bytes came. */
void lh_h2_liveness_heard(lh_h2_liveness *liveness);
/* The kernel took all that it was given. */
void lh_h2_liveness_written(lh_h2_liveness *liveness);
/* The round trip of the PING of this number, microseconds; 0: it is not the one that was sent last.
 */
int64_t lh_h2_liveness_answered(lh_h2_liveness *liveness, uint64_t number);
/* *ping: the number of a PING to send now, or 0. LH_ERR_TIMEOUT with the reason: close the
 * connection. */
lh_status lh_h2_liveness_tick(lh_h2_liveness *liveness, const lh_h2_activity *activity,
                              uint64_t *ping, lh_error *error);
