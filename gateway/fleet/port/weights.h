/* GET of the model file: whole or by a range. Each piece is read from the file into the frame with
 * which it leaves, when the receiver's windows and the connection have room for it: a transfer that
 * nobody reads costs a small struct. How many there are at once is bounded, for each peer and for
 * all, and one of which no byte leaves is dropped. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "gateway/fleet/port/model_file.h"

#include <uv.h>

typedef struct lh_fleet_weights_limits {
    /* Transfers at once. A peer is a certificate's common name; without TLS, an address. Beyond
     * them, 429 and 503. A worker has two at most, that of its stage and that of the next one; a
     * peer may be a site with all workers. Default 128 and 256 */
    uint32_t peer_max, all_max;
    /* without a byte that leaves. Default 30000 */
    uint64_t stall_ms;
} lh_fleet_weights_limits;

lh_fleet_weights_limits lh_fleet_weights_default_limits(void);

typedef struct lh_fleet_weights {
    lh_fleet_weights_limits limits;
    uv_timer_t timer; /* runs while there are transfers */
    const lh_model_file *file;
    struct weights_transfer *transfers;
    uint32_t count;
    /* Of failed reads, one in LOG_PAUSE_MS is logged. */
    bool has_logged;
    uint64_t logged_ms;
    uint32_t left_out;
    void (*on_closed)(void *);
    void *context;
} lh_fleet_weights;

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file,
                           const lh_fleet_weights_limits *limits);
/* Every stream must have closed. on_closed comes from the loop: until then the weights stay where
 * they are. */
void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context);
/* Answers the request: sets *events and *context where a body follows. */
void lh_fleet_weights_take(lh_fleet_weights *weights, lh_h2_stream *stream,
                           const lh_h2_request *request, const lh_h2_stream_events **events,
                           void **context);
