/* POST /chains/{chain}/trials/{width}, the taking side (PROTOCOL.md, "Steps of a trial"): the body
 * is read as that of a step, checked to its end and thrown away, and answered with the name of who
 * has read it, or with what is wrong with it. Memory: at most LH_TRIAL_BYTES_MAX for a body, and
 * four times as much for a shard of it. Thread: the loop's. */
#pragma once

#include "common/http2/stream_quota.h"

#include <stdint.h>

/* Of a body: a row of the greatest width is 256 KiB. More is answered with 400 LH_ERR_LIMIT. */
#define LH_TRIAL_BYTES_MAX (512u << 10)

/* What a server's quota of trials is to be: a hop is tried by one request at a time, which comes
 * whole. */
lh_stream_quota_limits lh_trial_limits(void);

/* Takes the request over: sets *events and *context, or answers at once (400: width is over
 * LH_STEP_WIDTH_MAX; 429, 503: the quota's; 500: out of memory). name: of who takes it, "": the
 * gateway; copied. quota: where it has a place until its stream is closed; NULL: none is kept. */
void lh_trial_take(lh_stream_quota *quota, lh_h2_stream *stream, const lh_h2_request *http,
                   const char *name, uint64_t width, const lh_h2_stream_events **events,
                   void **context);
