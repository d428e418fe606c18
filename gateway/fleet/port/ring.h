/* One POST /chains/{chain}/steps/{step} from the last worker: reads the body as it comes and hands
 * the tokens on at once, before the request has ended. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "gateway/fleet/port/server.h"

/* Takes the stream over: sets *events and *context, or answers at once. chain and step are parts of
 * the path. */
void lh_fleet_ring_take(const lh_fleet_server_owner *owner, lh_h2_stream *stream, const char *chain,
                        const char *step, const char *peer_name, const lh_h2_stream_events **events,
                        void **context);
