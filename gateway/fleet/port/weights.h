/* GET of the model file: whole or by a range. The bytes go out of the map in pieces, as fast as the
 * receiver takes them, so that a slow one costs no memory. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "gateway/fleet/port/model_file.h"

#include <uv.h>

typedef struct lh_fleet_weights lh_fleet_weights;

lh_status lh_fleet_weights_create(uv_loop_t *loop, const lh_model_file *file,
                                  lh_fleet_weights **weights, lh_error *error);
/* Every stream must have closed. on_closed comes from the loop. */
void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context);
/* Answers the request: sets *events and *context where a body follows. */
void lh_fleet_weights_take(lh_fleet_weights *weights, lh_h2_stream *stream,
                           const char *range_header, const lh_h2_stream_events **events,
                           void **context);
