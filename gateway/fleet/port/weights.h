/* GET of the model file, of pieces of it (file_pieces.h), and of the digests of its blocks: whole
 * or by a range. What leaves is read from the file into the frame with which it does, when the
 * receiver's windows and the connection have room for it: a transfer that nobody reads costs a
 * small struct. How many there are at once is bounded, for each peer and for all, and one of which
 * no byte leaves is dropped. Thread: the loop's. */
#pragma once

#include "common/http2/stream.h"
#include "common/http2/stream_quota.h"
#include "gateway/fleet/port/file_pieces.h"
#include "gateway/fleet/port/model_file.h"

typedef struct lh_fleet_weights {
    lh_stream_quota quota;
    const lh_model_file *file;
    /* Of failed reads, one in LOG_PAUSE_MS is logged. */
    bool has_logged;
    uint64_t logged_ms;
    uint32_t left_out;
} lh_fleet_weights;

/* 128 transfers for a peer, 256 for all, dropped after 30 s without a byte that leaves. A worker
 * has two at most, that of its stage and that of the next one; a peer may be a site with all
 * workers. */
lh_stream_quota_limits lh_fleet_weights_default_limits(void);

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file,
                           const lh_stream_quota_limits *limits);
/* Every stream must have closed. on_closed comes from the loop: until then the weights stay where
 * they are. */
void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context);
/* Answers the request: sets *events and *context where a body follows. pieces: NULL: the file. */
void lh_fleet_weights_take(lh_fleet_weights *weights, const lh_file_pieces *pieces,
                           lh_h2_stream *stream, const lh_h2_request *request,
                           const lh_h2_stream_events **events, void **context);
/* The same of a text in JSON, which outlives its transfers: however many there are, it is there
 * once. */
void lh_fleet_weights_take_text(lh_fleet_weights *weights, const char *text, lh_h2_stream *stream,
                                const lh_h2_request *request, const lh_h2_stream_events **events,
                                void **context);
/* The same of the digests of blocks. Precondition: lh_model_file_has_digests. */
void lh_fleet_weights_take_blocks(lh_fleet_weights *weights, lh_h2_stream *stream,
                                  const lh_h2_request *request, const lh_h2_stream_events **events,
                                  void **context);
