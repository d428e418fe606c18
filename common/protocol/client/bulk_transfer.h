/* A further connection of a hop, which carries shards of prefill steps (PROTOCOL.md, "Several
 * connections"). Private to common/protocol. Thread: the loop's. */
#pragma once

#include "common/http2/client.h"

typedef struct lh_bulk_lane lh_bulk_lane;
typedef struct lh_bulk_transfer lh_bulk_transfer; /* the shards of one step */

/* on_state as lh_h2_on_client_state. The texts and limits are copied; those of `tls` must outlive
 * the lane. */
lh_status lh_bulk_lane_create(uv_loop_t *loop, const char *address, const char *chain,
                              const lh_tls_options *tls, const lh_h2_limits *limits,
                              lh_h2_on_client_state *on_state, void *context, lh_bulk_lane **lane,
                              lh_error *error);
/* Transfers in progress fail first; then on_closed. */
void lh_bulk_lane_close(lh_bulk_lane *lane, void (*on_closed)(void *context), void *context);
lh_h2_client *lh_bulk_lane_connection(const lh_bulk_lane *lane);

/* Opens the request. on_failed comes at most once, from the loop, where the shards have not been
 * taken whole. Errors as lh_h2_client_submit. */
lh_status lh_bulk_lane_begin(lh_bulk_lane *lane, uint32_t epoch, uint64_t step,
                             void (*on_failed)(void *context, lh_status status), void *context,
                             lh_bulk_transfer **transfer, lh_error *error);
/* As lh_h2_stream_write_owned; LH_ERR_CANCELLED too where it has failed. */
lh_status lh_bulk_transfer_write(lh_bulk_transfer *transfer, void *bytes, size_t length);
size_t lh_bulk_transfer_queued_bytes(const lh_bulk_transfer *transfer);
void lh_bulk_transfer_end(lh_bulk_transfer *transfer);
/* The step is over: on_failed comes no more, and what has not been sent is not. The transfer is no
 * longer the caller's. */
void lh_bulk_transfer_leave(lh_bulk_transfer *transfer);
