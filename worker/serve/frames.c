/* Stage shard to frames, sampled tokens to a results frame. */
#include "worker/serve/frames.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(LH_STEP_COLUMN_BLOCK == LH_SPAN_COLUMNS,
               "shards on the wire are cut where spans are");

/* Bytes of the shard's frames when each has at most rows_max rows. */
static size_t frames_bytes(lh_wire_type wire, const lh_stage_shard *shard, uint32_t rows_max) {
    size_t bytes = 0;
    for (uint32_t row = 0; row < shard->rows; row += rows_max) {
        uint32_t rows = shard->rows - row < rows_max ? shard->rows - row : rows_max;
        bytes += lh_step_shard_bytes(wire, rows, shard->columns);
    }
    return bytes;
}

lh_status lh_frames_of_shard(uint32_t encoding, const lh_stage_shard *shard, void **bytes,
                             size_t *length, lh_error *error) {
    lh_wire_type wire = (lh_wire_type)encoding;
    uint32_t rows_max = lh_step_shard_rows_max(wire, shard->columns);
    size_t capacity = frames_bytes(wire, shard, rows_max), used = 0;
    uint8_t *buffer = malloc(capacity);
    if (!buffer) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "encoded shard of %zu bytes: out of memory",
                       capacity);
    }
    for (uint32_t row = 0; row < shard->rows; row += rows_max) {
        uint32_t rows = shard->rows - row < rows_max ? shard->rows - row : rows_max;
        size_t written = 0;
        lh_status status =
            lh_step_encode_shard(wire, shard->first_row + row, rows, shard->first_column,
                                 shard->columns, shard->values + (size_t)row * shard->columns,
                                 buffer + used, capacity - used, &written, error);
        if (status != LH_OK) {
            free(buffer);
            return status;
        }
        used += written;
    }
    *bytes = buffer;
    *length = used;
    return LH_OK;
}

lh_status lh_frames_of_results(const lh_step_result *results, uint32_t count, void **bytes,
                               size_t *length, lh_error *error) {
    size_t capacity = lh_step_results_bytes(results, count);
    uint8_t *buffer = malloc(capacity);
    if (!buffer)
        return lh_fail(error, LH_ERR_NO_MEMORY, "%u results: out of memory", count);
    lh_status status = lh_step_encode_results(results, count, buffer, capacity, length, error);
    if (status == LH_OK)
        *bytes = buffer;
    else
        free(buffer);
    return status;
}
