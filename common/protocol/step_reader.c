/* Reads a step's body as its bytes come: frames are collected whole, checked, decoded and handed
 * on.
 *
 * Memory: one buffer that holds the frame in progress. It doubles as bytes come, so an announced
 * length costs nothing before its bytes are here. Coverage: for each block of 32 columns the reader
 * keeps how many rows have come; a shard must go on where its columns' rows stopped, so that
 * nothing can come twice and the whole is there when all counts are. */
#include "common/base/crc32c.h"
#include "common/base/growing_array.h"
#include "common/protocol/step_frame.h"
#include "common/protocol/wire_type.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef enum reader_state { WANT_MANIFEST, WANT_SHARDS_OR_RESULTS, WANT_END } reader_state;

struct lh_step_reader {
    uint32_t width;
    lh_step_reader_events events;
    void *context;
    reader_state state;
    lh_error failure;        /* status is LH_OK while there is none */
    lh_step_frame_head head; /* of the frame in progress, once its bytes are here */
    size_t have;             /* bytes of the frame in progress, its head included */
    uint8_t *buffer;
    size_t capacity;
    float *values; /* a decoded shard */
    size_t values_capacity;
    uint32_t rows;           /* of the step */
    uint32_t covered_rows[]; /* [blocks of 32 columns] */
};

static uint32_t column_blocks(uint32_t width) {
    return (width + LH_STEP_COLUMN_BLOCK - 1) / LH_STEP_COLUMN_BLOCK;
}

lh_status lh_step_reader_create(uint32_t width, const lh_step_reader_events *events, void *context,
                                lh_step_reader **reader, lh_error *error) {
    assert(events->on_manifest);
    if (width > LH_STEP_WIDTH_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "activation of %u columns; the limit is %u", width,
                       LH_STEP_WIDTH_MAX);
    }
    lh_step_reader *made = calloc(1, sizeof *made + column_blocks(width) * sizeof(uint32_t));
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "step reader: out of memory");
    made->width = width;
    made->events = *events;
    made->context = context;
    *reader = made;
    return LH_OK;
}

void lh_step_reader_destroy(lh_step_reader *reader) {
    if (!reader)
        return;
    free(reader->values);
    free(reader->buffer);
    free(reader);
}

static lh_status take_manifest(lh_step_reader *reader, const uint8_t *payload, size_t length,
                               lh_error *error) {
    if (reader->state != WANT_MANIFEST)
        return lh_fail(error, LH_ERR_MALFORMED, "a second manifest in one step");
    lh_step_manifest manifest;
    void *memory;
    lh_status status = lh_step_decode_manifest(payload, length, &manifest, &memory, error);
    if (status != LH_OK)
        return status;
    reader->rows = manifest.rows;
    reader->state = WANT_SHARDS_OR_RESULTS;
    status = reader->events.on_manifest(reader->context, &manifest, error);
    free(memory);
    return status;
}

/* Notes that the shard has come. LH_ERR_MALFORMED: some of it had come before, or rows before it
 * have not. */
static lh_status cover(lh_step_reader *reader, const lh_step_shard_header *header,
                       lh_error *error) {
    uint32_t first = header->first_column / LH_STEP_COLUMN_BLOCK;
    uint32_t end = column_blocks(header->first_column + header->columns);
    for (uint32_t block = first; block < end; block++) {
        if (reader->covered_rows[block] != header->first_row) {
            return lh_fail(
                error, LH_ERR_MALFORMED, "shard at row %u, column %u: that column is at row %u",
                header->first_row, block * LH_STEP_COLUMN_BLOCK, reader->covered_rows[block]);
        }
        reader->covered_rows[block] += header->rows;
    }
    return LH_OK;
}

static lh_status take_shard(lh_step_reader *reader, const uint8_t *payload, size_t length,
                            lh_error *error) {
    if (reader->state != WANT_SHARDS_OR_RESULTS || reader->width == 0 || !reader->events.on_shard)
        return lh_fail(error, LH_ERR_MALFORMED, "a shard where none is due");
    lh_step_shard_header header;
    lh_status status =
        lh_step_decode_shard_head(payload, length, reader->rows, reader->width, &header, error);
    if (status == LH_OK)
        status = cover(reader, &header, error);
    if (status != LH_OK)
        return status;
    size_t count = (size_t)header.rows * header.columns;
    if (!lh_growing_array_reserve(&reader->values, &reader->values_capacity, count, sizeof(float)))
        return lh_fail(error, LH_ERR_NO_MEMORY, "shard of %zu values: out of memory", count);
    if (!lh_wire_decode(header.wire, payload + LH_STEP_SHARD_HEAD_BYTES, header.rows,
                        header.columns, reader->values)) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard at row %u, column %u: a value is not finite",
                       header.first_row, header.first_column);
    }
    return reader->events.on_shard(reader->context, &header, reader->values, error);
}

static lh_status take_results(lh_step_reader *reader, const uint8_t *payload, size_t length,
                              lh_error *error) {
    if (reader->state != WANT_SHARDS_OR_RESULTS || !reader->events.on_results)
        return lh_fail(error, LH_ERR_MALFORMED, "results where none are due");
    lh_step_result *results;
    uint32_t count;
    lh_status status = lh_step_decode_results(payload, length, &results, &count, error);
    if (status != LH_OK)
        return status;
    reader->state = WANT_END;
    status = reader->events.on_results(reader->context, results, count, error);
    free(results);
    return status;
}

/* A whole frame is in the buffer. */
static lh_status take_frame(lh_step_reader *reader, lh_error *error) {
    const uint8_t *payload = reader->buffer + LH_STEP_FRAME_HEAD_BYTES;
    size_t length = reader->head.payload_bytes;
    if (lh_crc32c(0, payload, length) != reader->head.payload_crc32c) {
        return lh_fail(error, LH_ERR_CORRUPT, "frame of type %u, %zu bytes: its CRC32C differs",
                       reader->head.type, length);
    }
    if (reader->state == WANT_MANIFEST && reader->head.type != LH_STEP_FRAME_MANIFEST) {
        return lh_fail(error, LH_ERR_MALFORMED, "frame of type %u before the manifest",
                       reader->head.type);
    }
    switch (reader->head.type) {
    case LH_STEP_FRAME_MANIFEST:
        return take_manifest(reader, payload, length, error);
    case LH_STEP_FRAME_SHARD:
        return take_shard(reader, payload, length, error);
    case LH_STEP_FRAME_RESULTS:
        return take_results(reader, payload, length, error);
    default:
        return lh_fail(error, LH_ERR_MALFORMED, "a frame of type %u in a request",
                       reader->head.type);
    }
}

/* Takes what the frame in progress still wants, at most `length` bytes; *taken says how many. */
static lh_status collect(lh_step_reader *reader, const uint8_t *bytes, size_t length, size_t *taken,
                         lh_error *error) {
    bool in_head = reader->have < LH_STEP_FRAME_HEAD_BYTES;
    size_t want = LH_STEP_FRAME_HEAD_BYTES + (in_head ? 0 : (size_t)reader->head.payload_bytes);
    size_t count = want - reader->have < length ? want - reader->have : length;
    lh_status status = LH_OK;
    if (!lh_growing_array_reserve(&reader->buffer, &reader->capacity, reader->have + count, 1))
        return lh_fail(error, LH_ERR_NO_MEMORY, "frame of %zu bytes: out of memory", want);
    memcpy(reader->buffer + reader->have, bytes, count);
    reader->have += count;
    *taken = count;
    if (in_head && reader->have == LH_STEP_FRAME_HEAD_BYTES) {
        status = lh_step_frame_head_decode(reader->buffer, &reader->head, error);
        want = LH_STEP_FRAME_HEAD_BYTES + (size_t)reader->head.payload_bytes;
    }
    if (status == LH_OK && reader->have >= LH_STEP_FRAME_HEAD_BYTES && reader->have == want) {
        reader->have = 0;
        status = take_frame(reader, error);
    }
    return status;
}

static lh_status give_failure(const lh_step_reader *reader, lh_error *error) {
    if (error)
        *error = reader->failure;
    return reader->failure.status;
}

lh_status lh_step_reader_feed(lh_step_reader *reader, const uint8_t *bytes, size_t length,
                              lh_error *error) {
    while (length > 0 && reader->failure.status == LH_OK) {
        size_t taken = 0;
        /* a callback that fails may have given no text, and one that does not, some */
        reader->failure.status = collect(reader, bytes, length, &taken, &reader->failure);
        bytes += taken;
        length -= taken;
    }
    return give_failure(reader, error);
}

size_t lh_step_reader_unfinished_bytes(const lh_step_reader *reader) {
    return reader->have;
}

static lh_status check_complete(const lh_step_reader *reader, lh_error *error) {
    if (reader->have > 0)
        return lh_fail(error, LH_ERR_MALFORMED, "the step ends within a frame");
    if (reader->state == WANT_MANIFEST)
        return lh_fail(error, LH_ERR_MALFORMED, "the step ends before its manifest");
    if (reader->events.on_results && reader->state != WANT_END && reader->width == 0)
        return lh_fail(error, LH_ERR_MALFORMED, "the step ends before its results");
    for (uint32_t block = 0; block < column_blocks(reader->width); block++) {
        if (reader->covered_rows[block] != reader->rows) {
            return lh_fail(error, LH_ERR_MALFORMED, "the step ends with %u of %u rows of column %u",
                           reader->covered_rows[block], reader->rows, block * LH_STEP_COLUMN_BLOCK);
        }
    }
    return LH_OK;
}

lh_status lh_step_reader_finish(lh_step_reader *reader, lh_error *error) {
    if (reader->failure.status == LH_OK)
        check_complete(reader, &reader->failure);
    return give_failure(reader, error);
}
