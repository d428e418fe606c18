/* The shards of one prefill step, which go by a further connection of the hop (PROTOCOL.md,
 * "Several connections"). Private to common/protocol. Thread: the loop's. */
#pragma once

#include "common/http2/client.h"

typedef struct lh_bulk_transfer lh_bulk_transfer;

/* Opens the request. relayed_to: the worker behind a relay for whom it is, "": the one at the end
 * of the connection. on_failed comes at most once, from the loop, where the shards have not been
 * taken whole. LH_ERR_NO_MEMORY, and the errors of lh_h2_client_submit. */
lh_status lh_bulk_transfer_begin(lh_h2_client *connection, const char *chain,
                                 const char *relayed_to, uint32_t epoch, uint64_t step,
                                 void (*on_failed)(void *context, lh_status status), void *context,
                                 lh_bulk_transfer **transfer, lh_error *error);
/* As lh_h2_stream_write_owned; LH_ERR_CANCELLED too where it has failed. */
lh_status lh_bulk_transfer_write(lh_bulk_transfer *transfer, void *bytes, size_t length);
size_t lh_bulk_transfer_queued_bytes(const lh_bulk_transfer *transfer);
void lh_bulk_transfer_end(lh_bulk_transfer *transfer);
/* The step is over: on_failed comes no more, and what has not been sent is not. The transfer is no
 * longer the caller's. */
void lh_bulk_transfer_leave(lh_bulk_transfer *transfer);
