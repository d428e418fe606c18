/* Stage shard to frames, sampled tokens to a results frame. */
#include "worker/serve/frames.h"

#include "common/protocol/wire_type.h"

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

/* Rows [row, row + rows) of the shard. */
static lh_status encode_rows(lh_wire_type wire, const lh_stage_shard *shard, uint32_t row,
                             uint32_t rows, uint8_t *buffer, size_t capacity, size_t *length,
                             lh_error *error) {
    const uint32_t first_row = shard->first_row + row, columns = shard->columns;
    if (shard->values)
        return lh_step_encode_shard(wire, first_row, rows, shard->first_column, columns,
                                    shard->values + (size_t)row * columns, buffer, capacity, length,
                                    error);
    if (!shard->packed)
        return lh_step_refuse_shard(first_row, shard->first_column, error);
    uint8_t *values;
    lh_status status = lh_step_begin_shard(wire, first_row, rows, shard->first_column, columns,
                                           buffer, capacity, &values, error);
    if (status != LH_OK)
        return status;
    lh_wire_cut_rows(wire, shard->packed, shard->rows, columns, row, rows, values);
    lh_step_end_shard(wire, rows, columns, buffer, length);
    return LH_OK;
}

lh_status lh_frames_of_shard(lh_wire_type wire, const lh_stage_shard *shard, void **bytes,
                             size_t *length, lh_error *error) {
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
            encode_rows(wire, shard, row, rows, buffer + used, capacity - used, &written, error);
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
