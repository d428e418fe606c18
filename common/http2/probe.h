/* POST /probe, the taking side: a body of bytes that mean nothing is read and thrown away, and
 * answered with {"bytes": N}. More than LH_LINK_PROBE_BYTES_MAX is answered with 413. Thread: the
 * loop's. */
#pragma once

#include "common/http2/stream.h"

#define LH_H2_PROBE_PATH "/probe"

/* Takes the request over: sets *events and *context, or answers at once (500: out of memory). */
void lh_h2_probe_take(lh_h2_stream *stream, const lh_h2_stream_events **events, void **context);
