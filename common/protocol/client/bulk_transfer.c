/* One request for the shards of a step. */
#include "common/protocol/client/bulk_transfer.h"

#include "common/protocol/client/relay_route.h"
#include "common/protocol/step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Goes when both its stream has closed and its step has left it. */
struct lh_bulk_transfer {
    lh_h2_client *connection;
    lh_h2_stream *stream; /* NULL: closed */
    bool ended, left;
    int http_status;
    void (*on_failed)(void *context, lh_status status);
    void *context;
};

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((lh_bulk_transfer *)context)->http_status = http_status;
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    lh_bulk_transfer *transfer = context;
    transfer->stream = NULL;
    if (transfer->left)
        free(transfer);
    else if (status != LH_OK || transfer->http_status != 200 || !transfer->ended)
        transfer->on_failed(transfer->context, status != LH_OK ? status : LH_ERR_PROTOCOL);
}

lh_status lh_bulk_transfer_begin(lh_h2_client *connection, const char *chain,
                                 const char *relayed_to, uint32_t epoch, uint64_t step,
                                 void (*on_failed)(void *context, lh_status status), void *context,
                                 lh_bulk_transfer **transfer, lh_error *error) {
    static const lh_h2_stream_events events = {.on_response = on_response,
                                               .on_closed = on_stream_closed};
    const lh_h2_header headers[] = {{.name = "content-type", .value = LH_STEP_CONTENT_TYPE},
                                    {.name = LH_RELAY_TO_HEADER, .value = relayed_to}};
    char path[160];
    snprintf(path, sizeof(path), "/chains/%s/shards/%" PRIu32 "/%" PRIu64, chain, epoch, step);
    lh_bulk_transfer *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "step %" PRIu64 ": out of memory", step);
    made->connection = connection;
    made->on_failed = on_failed;
    made->context = context;
    lh_status status =
        lh_h2_client_submit(connection, "POST", path, headers, relayed_to[0] != '\0' ? 2 : 1,
                            LH_STEP_PREFILL, &events, made, &made->stream, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    lh_h2_client_expect_bulk(connection, true);
    *transfer = made;
    return LH_OK;
}

lh_status lh_bulk_transfer_write(lh_bulk_transfer *transfer, void *bytes, size_t length) {
    if (!transfer->stream) {
        free(bytes);
        return LH_ERR_CANCELLED;
    }
    lh_h2_client_expect_bulk(transfer->connection, false);
    return lh_h2_stream_write_owned(transfer->stream, bytes, length);
}

size_t lh_bulk_transfer_queued_bytes(const lh_bulk_transfer *transfer) {
    return transfer->stream ? lh_h2_stream_queued_bytes(transfer->stream) : 0;
}

void lh_bulk_transfer_end(lh_bulk_transfer *transfer) {
    transfer->ended = true;
    if (transfer->stream) {
        lh_h2_client_expect_bulk(transfer->connection, false);
        lh_h2_stream_end(transfer->stream);
    }
}

void lh_bulk_transfer_leave(lh_bulk_transfer *transfer) {
    transfer->left = true;
    if (!transfer->stream) {
        free(transfer);
        return;
    }
    lh_h2_client_expect_bulk(transfer->connection, false);
    if (!transfer->ended || lh_h2_stream_queued_bytes(transfer->stream) > 0)
        lh_h2_stream_cancel(transfer->stream);
}
