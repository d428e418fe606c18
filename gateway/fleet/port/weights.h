/* GET of the model file: whole or by a range. The bytes go out of the map in pieces, as fast as the
 * receiver takes them, so that a slow one costs no memory. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "gateway/fleet/port/model_file.h"

#include <uv.h>

typedef struct lh_fleet_weights {
    uv_check_t check; /* runs after each look at the sockets: what has left makes room for more */
    const lh_model_file *file;
    struct weights_transfer *transfers;
    void (*on_closed)(void *);
    void *context;
} lh_fleet_weights;

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file);
/* Every stream must have closed. on_closed comes from the loop: until then the weights stay where
 * they are. */
void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context);
/* Answers the request: sets *events and *context where a body follows. */
void lh_fleet_weights_take(lh_fleet_weights *weights, lh_h2_stream *stream,
                           const char *range_header, const lh_h2_stream_events **events,
                           void **context);
