/* POST /chains/{chain}/trials/{width}, the taking side (PROTOCOL.md, "Steps of a trial"): the body
 * is read as that of a step, checked to its end and thrown away, and answered with the name of who
 * has read it, or with what is wrong with it. Memory: at most LH_TRIAL_BYTES_MAX for a body, and
 * four times as much for a shard of it. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"

#include <stdint.h>

/* Of a body: a row of the greatest width is 256 KiB. More is answered with 400 LH_ERR_LIMIT. */
#define LH_TRIAL_BYTES_MAX (512u << 10)

/* Takes the request over: sets *events and *context, or answers at once (400: width is over
 * LH_STEP_WIDTH_MAX; 500: out of memory). name: of who takes it, "": the gateway; copied. */
void lh_trial_take(lh_h2_stream *stream, const char *name, uint64_t width,
                   const lh_h2_stream_events **events, void **context);
