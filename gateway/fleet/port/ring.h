/* One POST /chains/{chain}/steps/{step} from the last worker: reads the body as it comes and hands
 * the tokens on at once, before the request has ended. Thread: the loop's. */
#pragma once

#include "common/http2/stream_quota.h"
#include "gateway/fleet/port/server.h"

/* How many there may be, and how long one may stand still. */
lh_stream_quota_limits lh_fleet_ring_limits(void);

/* Takes the stream over: sets *events and *context, or answers at once. http: the request; chain
 * and step are parts of its path. */
void lh_fleet_ring_take(const lh_fleet_server_owner *owner, lh_stream_quota *quota,
                        lh_h2_stream *stream, const lh_h2_request *http, const char *chain,
                        const char *step, const lh_h2_stream_events **events, void **context);
