/* Bytes of orders: manifests are the step format's, all else is fixed. */
#include "worker/team/order_code.h"

#include "common/base/little_endian.h"

#include <stdlib.h>

#define HEAD_BYTES       8u
#define VALUES_OFFSET    LH_ORDER_SHARD_HEAD_BYTES
#define TRUNCATION_BYTES 12u

static lh_step_manifest manifest_of(const lh_stage_order *order) {
    lh_step_manifest manifest = {.epoch = 1};
    const lh_batch *batch = order->batch;
    if (order->kind == LH_ORDER_TAKE_MASKS) {
        manifest.masks = *order->masks;
        return manifest;
    }
    manifest.rows = batch->rows;
    manifest.tokens = batch->tokens;
    manifest.segment_count = batch->segment_count;
    manifest.segments = batch->segments;
    manifest.cut_count = batch->cut.count > 0;
    manifest.cuts = &batch->cut;
    manifest.hop_limit = batch->ends_here ? 1 : 0;
    return manifest;
}

static size_t shard_bytes(const lh_stage_shard *shard) {
    return (size_t)shard->rows * shard->columns * sizeof(float);
}

size_t lh_order_bytes(const lh_stage_order *order) {
    lh_step_manifest manifest;
    switch (order->kind) {
    case LH_ORDER_BEGIN:
    case LH_ORDER_TAKE_MASKS:
        manifest = manifest_of(order);
        return HEAD_BYTES + lh_step_manifest_bytes(&manifest);
    case LH_ORDER_ACCEPT:
        return VALUES_OFFSET + shard_bytes(order->shard);
    case LH_ORDER_TRUNCATE:
    case LH_ORDER_RESYNC_KV:
        return HEAD_BYTES + (size_t)order->sequence_count * TRUNCATION_BYTES;
    default:
        return HEAD_BYTES;
    }
}

/* ---- Out ---- */

static lh_status put_manifest(lh_byte_writer *writer, const lh_stage_order *order,
                              lh_error *error) {
    const lh_step_manifest manifest = manifest_of(order);
    size_t length;
    return lh_step_encode_manifest(&manifest, writer->bytes + writer->length,
                                   writer->capacity - writer->length, &length, error);
}

static void put_shard(lh_byte_writer *writer, const lh_stage_shard *shard) {
    static const uint8_t zeros[VALUES_OFFSET];
    lh_put_u32(writer, shard->first_row);
    lh_put_u32(writer, shard->rows);
    lh_put_u32(writer, shard->first_column);
    lh_put_u32(writer, shard->columns);
    lh_put_bytes(writer, zeros, VALUES_OFFSET - writer->length);
    lh_put_bytes(writer, shard->values, shard_bytes(shard));
}

static void put_sequences(lh_byte_writer *writer, const lh_stage_order *order) {
    for (uint32_t i = 0; i < order->sequence_count; i++) {
        lh_put_u64(writer, order->sequences[i].sequence);
        lh_put_u32(writer, order->sequences[i].length);
    }
}

lh_status lh_order_encode(const lh_stage_order *order, uint8_t *bytes, lh_error *error) {
    lh_byte_writer writer = {.bytes = bytes, .capacity = lh_order_bytes(order)};
    lh_put_u32(&writer, (uint32_t)order->kind);
    lh_put_u32(&writer, order->step);
    switch (order->kind) {
    case LH_ORDER_BEGIN:
    case LH_ORDER_TAKE_MASKS:
        return put_manifest(&writer, order, error);
    case LH_ORDER_ACCEPT:
        put_shard(&writer, order->shard);
        return LH_OK;
    case LH_ORDER_TRUNCATE:
    case LH_ORDER_RESYNC_KV:
        put_sequences(&writer, order);
        return LH_OK;
    default:
        return LH_OK;
    }
}

/* ---- In ---- */

static lh_status get_manifest(lh_byte_reader *reader, lh_decoded_order *decoded, lh_error *error) {
    lh_step_manifest manifest;
    lh_status status = lh_step_decode_manifest_frame(
        reader->bytes + reader->offset, lh_bytes_left(reader), &manifest, &decoded->memory, error);
    if (status != LH_OK)
        return status;
    decoded->batch = (lh_batch){.rows = manifest.rows,
                                .tokens = manifest.tokens,
                                .segment_count = manifest.segment_count,
                                .segments = manifest.segments,
                                .ends_here = manifest.hop_limit == 1};
    if (manifest.cut_count > 0)
        decoded->batch.cut = manifest.cuts[0];
    decoded->masks = manifest.masks;
    decoded->order.batch = &decoded->batch;
    decoded->order.masks = &decoded->masks;
    return LH_OK;
}

static lh_status get_shard(lh_byte_reader *reader, lh_decoded_order *decoded, lh_error *error) {
    lh_stage_shard *shard = &decoded->shard;
    shard->first_row = lh_get_u32(reader);
    shard->rows = lh_get_u32(reader);
    shard->first_column = lh_get_u32(reader);
    shard->columns = lh_get_u32(reader);
    uint64_t values = (uint64_t)shard->rows * shard->columns;
    if (reader->failed || reader->length < VALUES_OFFSET ||
        (reader->length - VALUES_OFFSET) / sizeof(float) != values ||
        reader->length % sizeof(float) != 0) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "order: a shard of %u rows and %u columns in %zu bytes", shard->rows,
                       shard->columns, reader->length);
    }
    shard->values = (const float *)(const void *)(reader->bytes + VALUES_OFFSET);
    decoded->order.shard = shard;
    return LH_OK;
}

static lh_status get_sequences(lh_byte_reader *reader, lh_decoded_order *decoded, lh_error *error) {
    size_t count = lh_bytes_left(reader) / TRUNCATION_BYTES;
    if (lh_bytes_left(reader) % TRUNCATION_BYTES != 0 || count > LH_STEP_TRUNCATIONS_MAX ||
        (decoded->order.kind == LH_ORDER_TRUNCATE && count != 1)) {
        return lh_fail(error, LH_ERR_MALFORMED, "order: %zu bytes of sequences",
                       lh_bytes_left(reader));
    }
    lh_step_truncation *list = malloc(count * sizeof *list + 1);
    if (!list)
        return lh_fail(error, LH_ERR_NO_MEMORY, "order: out of memory");
    for (size_t i = 0; i < count; i++) {
        list[i] = (lh_step_truncation){.sequence = lh_get_u64(reader)};
        list[i].length = lh_get_u32(reader);
    }
    decoded->memory = list;
    decoded->order.sequences = list;
    decoded->order.sequence_count = (uint32_t)count;
    return LH_OK;
}

lh_status lh_order_decode(const uint8_t *bytes, size_t length, lh_decoded_order *decoded,
                          lh_error *error) {
    lh_byte_reader reader = {.bytes = bytes, .length = length};
    *decoded = (lh_decoded_order){0};
    uint32_t kind = lh_get_u32(&reader);
    decoded->order.step = lh_get_u32(&reader);
    if (reader.failed || kind < LH_ORDER_BEGIN || kind > LH_ORDER_REST)
        return lh_fail(error, LH_ERR_MALFORMED, "order: %zu bytes of kind %u", length, kind);
    decoded->order.kind = (lh_stage_order_kind)kind;
    switch (decoded->order.kind) {
    case LH_ORDER_BEGIN:
    case LH_ORDER_TAKE_MASKS:
        return get_manifest(&reader, decoded, error);
    case LH_ORDER_ACCEPT:
        return get_shard(&reader, decoded, error);
    case LH_ORDER_TRUNCATE:
    case LH_ORDER_RESYNC_KV:
        return get_sequences(&reader, decoded, error);
    default:
        return lh_bytes_left(&reader) == 0
                   ? LH_OK
                   : lh_fail(error, LH_ERR_MALFORMED, "order: %zu bytes of kind %u", length, kind);
    }
}
