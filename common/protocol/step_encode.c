/* Manifests, shards and results to bytes (PROTOCOL.md). */
#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/protocol/row_code.h"
#include "common/protocol/step_frame.h"
#include "common/protocol/wire_type.h"

void lh_step_frame_seal(uint8_t *frame, lh_step_frame_type type, size_t payload_bytes) {
    lh_byte_writer writer = {.bytes = frame, .capacity = LH_STEP_FRAME_HEAD_BYTES};
    lh_put_u32(&writer, (uint32_t)type);
    lh_put_u32(&writer, (uint32_t)payload_bytes);
    lh_put_u32(&writer, lh_crc32c(0, frame + LH_STEP_FRAME_HEAD_BYTES, payload_bytes));
    lh_put_u32(&writer, lh_crc32c(0, frame, writer.length));
}

/* Seals the frame that the writer has filled behind a gap for the head. */
static lh_status finish_frame(lh_byte_writer *writer, lh_step_frame_type type, size_t *length,
                              lh_error *error) {
    if (writer->failed) {
        return lh_fail(error, LH_ERR_LIMIT, "step frame: the buffer of %zu bytes is too small",
                       writer->capacity);
    }
    lh_step_frame_seal(writer->bytes, type, writer->length - LH_STEP_FRAME_HEAD_BYTES);
    *length = writer->length;
    return LH_OK;
}

static lh_byte_writer start_frame(uint8_t *buffer, size_t capacity) {
    return (lh_byte_writer){.bytes = buffer,
                            .capacity = capacity,
                            .length = LH_STEP_FRAME_HEAD_BYTES,
                            .failed = capacity < LH_STEP_FRAME_HEAD_BYTES};
}

/* ---- Manifest ---- */

#define MANIFEST_HEAD_BYTES 52u
#define SOURCE_BYTES        8u

static size_t segment_bytes(const lh_step_segment *segment) {
    return LH_STEP_SEGMENT_BYTES + (segment->forks ? SOURCE_BYTES : 0u) +
           lh_row_ask_bytes(&segment->ask);
}

size_t lh_step_manifest_bytes(const lh_step_manifest *manifest) {
    size_t bytes = LH_STEP_FRAME_HEAD_BYTES + MANIFEST_HEAD_BYTES + (size_t)manifest->rows * 4u +
                   (size_t)manifest->truncation_count * LH_STEP_TRUNCATION_BYTES;
    for (uint32_t i = 0; i < manifest->cut_count; i++)
        bytes += 4u + (size_t)manifest->cuts[i].count * 4u;
    for (uint32_t i = 0; i < manifest->segment_count; i++)
        bytes += segment_bytes(&manifest->segments[i]);
    bytes += (size_t)manifest->masks.drop_count * sizeof *manifest->masks.drops;
    for (uint32_t i = 0; i < manifest->masks.count; i++)
        bytes += LH_STEP_MASK_BYTES + (size_t)manifest->masks.list[i].code_bytes;
    return bytes;
}

static lh_status check_manifest(const lh_step_manifest *manifest, lh_error *error) {
    lh_status status = lh_step_check_counts(manifest, error);
    for (uint32_t i = 0; i < manifest->cut_count && status == LH_OK; i++) {
        if (manifest->cuts[i].count == 0 || manifest->cuts[i].count > LH_STEP_COLUMN_SHARDS_MAX) {
            return lh_fail(error, LH_ERR_LIMIT,
                           "step %llu, cut %u: %u column shards; the limit is %u",
                           (unsigned long long)manifest->step, i, manifest->cuts[i].count,
                           LH_STEP_COLUMN_SHARDS_MAX);
        }
    }
    for (uint32_t i = 0; i < manifest->segment_count && status == LH_OK; i++)
        status = lh_row_ask_check_counts(&manifest->segments[i].ask, i, error);
    if (status != LH_OK)
        return status;
    if (lh_step_manifest_bytes(manifest) - LH_STEP_FRAME_HEAD_BYTES > LH_STEP_MANIFEST_BYTES_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "step %llu: its manifest takes more than %u bytes",
                       (unsigned long long)manifest->step, LH_STEP_MANIFEST_BYTES_MAX);
    }
    return LH_OK;
}

static void put_segment(lh_byte_writer *writer, const lh_step_segment *segment) {
    lh_put_u64(writer, segment->sequence);
    lh_put_u32(writer, segment->first_position);
    lh_put_u32(writer, segment->rows);
    lh_put_u32(writer,
               (segment->forks ? LH_STEP_FLAG_FORKS : 0u) | lh_row_ask_flags(&segment->ask));
    if (segment->forks)
        lh_put_u64(writer, segment->source);
    lh_put_row_ask(writer, &segment->ask);
}

static void put_mask(lh_byte_writer *writer, const lh_step_mask *mask) {
    lh_put_u64(writer, mask->number);
    lh_put_u32(writer, mask->vocabulary);
    lh_put_u32(writer, mask->code_bytes);
    lh_put_bytes(writer, mask->code, mask->code_bytes);
}

lh_status lh_step_encode_manifest(const lh_step_manifest *manifest, uint8_t *buffer,
                                  size_t capacity, size_t *length, lh_error *error) {
    lh_status status = check_manifest(manifest, error);
    if (status != LH_OK)
        return status;
    lh_byte_writer writer = start_frame(buffer, capacity);
    lh_put_u32(&writer, LH_STEP_PROTOCOL_VERSION);
    lh_put_u32(&writer, manifest->epoch);
    lh_put_u64(&writer, manifest->step);
    lh_put_u32(&writer, (uint32_t)manifest->step_class);
    lh_put_u32(&writer, manifest->rows);
    lh_put_u32(&writer, manifest->segment_count);
    lh_put_u32(&writer, manifest->truncation_count);
    lh_put_u32(&writer, (manifest->timed ? LH_STEP_FLAG_TIMED : 0u) |
                            (manifest->resyncs ? LH_STEP_FLAG_KV_RESYNC : 0u));
    lh_put_u32(&writer, manifest->cut_count);
    lh_put_u32(&writer, manifest->hop_limit);
    lh_put_u32(&writer, manifest->masks.drop_count);
    lh_put_u32(&writer, manifest->masks.count);
    lh_put_bytes(&writer, manifest->tokens, (size_t)manifest->rows * sizeof(uint32_t));
    for (uint32_t i = 0; i < manifest->segment_count; i++)
        put_segment(&writer, &manifest->segments[i]);
    for (uint32_t i = 0; i < manifest->truncation_count; i++) {
        lh_put_u64(&writer, manifest->truncations[i].sequence);
        lh_put_u32(&writer, manifest->truncations[i].length);
    }
    for (uint32_t i = 0; i < manifest->cut_count; i++) {
        lh_put_u32(&writer, manifest->cuts[i].count);
        lh_put_bytes(&writer, manifest->cuts[i].ends, manifest->cuts[i].count * sizeof(uint32_t));
    }
    lh_put_bytes(&writer, manifest->masks.drops,
                 manifest->masks.drop_count * sizeof *manifest->masks.drops);
    for (uint32_t i = 0; i < manifest->masks.count; i++)
        put_mask(&writer, &manifest->masks.list[i]);
    return finish_frame(&writer, LH_STEP_FRAME_MANIFEST, length, error);
}

/* ---- Cuts ---- */

lh_step_cut lh_step_cut_evenly(uint32_t width, uint32_t shards) {
    uint64_t blocks = ((uint64_t)width + LH_STEP_COLUMN_BLOCK - 1) / LH_STEP_COLUMN_BLOCK;
    lh_step_cut cut = {.count =
                           shards < LH_STEP_COLUMN_SHARDS_MAX ? shards : LH_STEP_COLUMN_SHARDS_MAX};
    cut.count = cut.count < blocks ? cut.count : (uint32_t)blocks;
    for (uint32_t i = 0; i < cut.count; i++) {
        uint64_t end = blocks * (i + 1) / cut.count * LH_STEP_COLUMN_BLOCK;
        cut.ends[i] = end < width ? (uint32_t)end : width;
    }
    return cut;
}

/* ---- Shards ---- */

size_t lh_step_shard_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns) {
    size_t payload = LH_STEP_SHARD_HEAD_BYTES + lh_wire_bytes(wire, rows, columns);
    return payload > LH_STEP_SHARD_BYTES_MAX ? 0 : LH_STEP_FRAME_HEAD_BYTES + payload;
}

uint32_t lh_step_shard_rows_max(lh_wire_type wire, uint32_t columns) {
    size_t rows =
        (LH_STEP_SHARD_BYTES_MAX - LH_STEP_SHARD_HEAD_BYTES) / lh_wire_bytes(wire, 1, columns);
    return rows < LH_STEP_ROWS_MAX ? (uint32_t)rows : LH_STEP_ROWS_MAX;
}

lh_status lh_step_begin_shard(lh_wire_type wire, uint32_t first_row, uint32_t rows,
                              uint32_t first_column, uint32_t columns, uint8_t *buffer,
                              size_t capacity, uint8_t **values, lh_error *error) {
    if (rows == 0 || rows > LH_STEP_ROWS_MAX || columns == 0 || columns > LH_STEP_WIDTH_MAX ||
        first_row > LH_STEP_ROWS_MAX - rows || first_column > LH_STEP_WIDTH_MAX - columns) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "shard of %u rows from %u, %u columns from %u: over the limits", rows,
                       first_row, columns, first_column);
    }
    if (first_column % LH_STEP_COLUMN_BLOCK != 0) {
        return lh_fail(error, LH_ERR_INVALID, "shard: column %u is not a multiple of %u",
                       first_column, LH_STEP_COLUMN_BLOCK);
    }
    size_t bytes = lh_step_shard_bytes(wire, rows, columns);
    if (bytes == 0 || bytes > capacity) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "shard of %u rows, %u columns: over %u bytes or the buffer's %zu", rows,
                       columns, LH_STEP_SHARD_BYTES_MAX, capacity);
    }
    lh_byte_writer writer = start_frame(buffer, capacity);
    lh_put_u32(&writer, first_row);
    lh_put_u32(&writer, rows);
    lh_put_u32(&writer, first_column);
    lh_put_u32(&writer, columns);
    lh_put_u32(&writer, (uint32_t)wire);
    lh_put_u32(&writer, 0); /* reserved */
    *values = buffer + writer.length;
    return LH_OK;
}

void lh_step_end_shard(lh_wire_type wire, uint32_t rows, uint32_t columns, uint8_t *buffer,
                       size_t *length) {
    *length = lh_step_shard_bytes(wire, rows, columns);
    lh_step_frame_seal(buffer, LH_STEP_FRAME_SHARD, *length - LH_STEP_FRAME_HEAD_BYTES);
}

lh_status lh_step_refuse_shard(uint32_t first_row, uint32_t first_column, lh_error *error) {
    return lh_fail(
        error, LH_ERR_INVALID,
        "shard at row %u, column %u: a value is not finite or too large for the wire type",
        first_row, first_column);
}

lh_status lh_step_encode_shard(lh_wire_type wire, uint32_t first_row, uint32_t rows,
                               uint32_t first_column, uint32_t columns, const float *values,
                               uint8_t *buffer, size_t capacity, size_t *length, lh_error *error) {
    uint8_t *encoded;
    lh_status status = lh_step_begin_shard(wire, first_row, rows, first_column, columns, buffer,
                                           capacity, &encoded, error);
    if (status != LH_OK)
        return status;
    if (!lh_wire_encode(wire, values, rows, columns, encoded))
        return lh_step_refuse_shard(first_row, first_column, error);
    lh_step_end_shard(wire, rows, columns, buffer, length);
    return LH_OK;
}

/* ---- Results ---- */

size_t lh_step_results_bytes(const lh_step_result *results, uint32_t count) {
    size_t bytes = LH_STEP_FRAME_HEAD_BYTES + 4u;
    for (uint32_t i = 0; i < count; i++)
        bytes += LH_STEP_RESULT_HEAD_BYTES + lh_row_answer_bytes(&results[i].answer);
    return bytes;
}

lh_status lh_step_encode_results(const lh_step_result *results, uint32_t count, uint8_t *buffer,
                                 size_t capacity, size_t *length, lh_error *error) {
    if (count > LH_STEP_SEGMENTS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "%u results; the limit is %u", count,
                       LH_STEP_SEGMENTS_MAX);
    }
    lh_byte_writer writer = start_frame(buffer, capacity);
    lh_row_answers_load load = {0};
    lh_put_u32(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        lh_status status = lh_row_answer_check(&results[i].answer, i, &load, error);
        if (status != LH_OK)
            return status;
        lh_put_u64(&writer, results[i].sequence);
        lh_put_u32(&writer, results[i].position);
        lh_put_row_answer(&writer, &results[i].answer);
    }
    return finish_frame(&writer, LH_STEP_FRAME_RESULTS, length, error);
}
