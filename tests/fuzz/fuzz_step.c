/* Step bodies: hostile bytes in pieces. The first byte picks the width and the kind of hop, the
 * second the size of a piece; checksums are made right on the way with the third, so that the
 * fuzzer gets behind them; its highest bit puts the values of a shard in place of a whole body. */
#include "common/base/crc32c.h"
#include "common/protocol/mask_code.h"
#include "common/protocol/step.h"
#include "common/protocol/step_times.h"
#include "common/protocol/wire_type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is a mask can be used as one, and is sent on in no more bytes than its bits take. */
static void use_mask(const lh_step_mask *mask) {
    uint64_t *words = calloc(lh_mask_code_words(mask->vocabulary), sizeof *words);
    uint8_t *code = malloc(lh_mask_code_bytes_max(mask->vocabulary));
    if (!words || !code ||
        lh_mask_decode(mask->code, mask->code_bytes, mask->vocabulary, words, NULL) != LH_OK)
        abort();
    size_t length = lh_mask_encode(words, mask->vocabulary, code);
    if (length > lh_mask_code_bytes_max(mask->vocabulary) ||
        lh_mask_decode(code, length, mask->vocabulary, NULL, NULL) != LH_OK)
        abort();
    free(code);
    free(words);
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    (void)context;
    uint64_t rows = 0, sum = 0;
    for (uint32_t i = 0; i < manifest->segment_count; i++) {
        const lh_sampling *sampling = &manifest->segments[i].ask.sampling;
        rows += manifest->segments[i].rows;
        if (manifest->segments[i].forks && manifest->segments[i].first_position == 0)
            abort();
        for (uint32_t k = 0; k < sampling->bias_count; k++)
            sum += sampling->biases[k].token;
        for (uint32_t k = 0; k < sampling->count_count; k++)
            sum += sampling->counts[k].output_count;
    }
    for (uint32_t i = 0; i < manifest->masks.count; i++)
        use_mask(&manifest->masks.list[i]);
    if (rows != manifest->rows)
        abort();
    size_t bytes = lh_step_manifest_bytes(manifest), length = 0;
    uint8_t *again = malloc(bytes);
    if (!again || lh_step_encode_manifest(manifest, again, bytes, &length, error) != LH_OK ||
        length != bytes) {
        abort(); /* what was read can be written */
    }
    free(again);
    return sum == 1 ? LH_ERR_BUSY : LH_OK;
}

/* What arrived goes over the next hop in the same type, but for what only a peer that does not keep
 * to the format sends: more than the type's greatest number. */
static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    (void)context;
    size_t bytes = lh_step_shard_bytes(header->wire, header->rows, header->columns), length = 0;
    bool is_large = false;
    for (size_t i = 0; i < (size_t)header->rows * header->columns; i++) {
        if (!isfinite(values[i]))
            abort();
        is_large = is_large || fabsf(values[i]) > 0x1p127f;
    }
    uint8_t *again = malloc(bytes);
    if (!again || bytes != header->payload_bytes + 16u)
        abort();
    lh_status status =
        lh_step_encode_shard(header->wire, header->first_row, header->rows, header->first_column,
                             header->columns, values, again, bytes, &length, error);
    free(again);
    if (status != LH_OK && !is_large)
        abort();
    return LH_OK;
}

static lh_status on_results(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error) {
    (void)context;
    size_t bytes = lh_step_results_bytes(results, count), length = 0;
    uint8_t *again = malloc(bytes);
    if (!again || lh_step_encode_results(results, count, again, bytes, &length, error) != LH_OK ||
        length != bytes) {
        abort(); /* what was read can be written */
    }
    free(again);
    return LH_OK;
}

/* Makes the checksums of all frames that lie whole in the body right. */
static void seal(uint8_t *body, size_t length) {
    uint8_t *frame = body;
    while (length >= 16) {
        uint32_t bytes, crc;
        memcpy(&bytes, frame + 4, 4);
        if (bytes > length - 16) {
            bytes = (uint32_t)(length - 16);
            memcpy(frame + 4, &bytes, 4);
        }
        crc = lh_crc32c(0, frame + 16, bytes);
        memcpy(frame + 8, &crc, 4);
        crc = lh_crc32c(0, frame, 12);
        memcpy(frame + 12, &crc, 4);
        frame += 16 + bytes;
        length -= 16 + bytes;
    }
}

/* The same bytes as an answer with times. */
static void read_times(const uint8_t *body, size_t length) {
    static lh_step_times times;
    static uint8_t again[16 + LH_STEP_TIMES_BYTES_MAX];
    size_t offset = 0, bytes = 0, before = 0;
    while (lh_step_times_read(body, length, &offset, &times, NULL) == LH_OK) {
        if (lh_step_times_encode(&times, again, sizeof(again), &bytes, NULL) != LH_OK ||
            bytes != offset - before || memcmp(again, body + before, bytes) != 0) {
            abort(); /* what was read is written as it was */
        }
        before = offset;
    }
    size_t fitting = lh_step_times_fitting(body, length, length / 2);
    if (fitting > length / 2 || lh_step_times_fitting(body, fitting, fitting) != fitting)
        abort();
}

/* A good manifest of three rows and one shard, whole but for its values: those are the fuzzer's,
 * zeros where it has not enough. So every byte sequence gets as far as the codec of one wire type
 * or another. */
static uint8_t *body_with_shard(uint32_t width, const uint8_t *data, size_t size, size_t *length) {
    static const uint32_t tokens[3];
    const lh_step_segment segment = {.sequence = 1, .rows = 3};
    const lh_step_manifest manifest = {
        .rows = 3, .tokens = tokens, .segment_count = 1, .segments = &segment};
    lh_wire_type wire = LH_WIRE_F32;
    lh_wire_from_number(size > 0 ? data[0] % 3u : 0, &wire);
    size_t head = lh_step_manifest_bytes(&manifest), values = lh_wire_bytes(wire, 3, width),
           written;
    uint8_t *body = calloc(1, head + 40 + values);
    if (!body || lh_step_encode_manifest(&manifest, body, head, &written, NULL) != LH_OK)
        abort();
    const uint32_t shard[10] = {2, 24 + (uint32_t)values, 0, 0, 0, 3, 0, width, wire, 0};
    memcpy(body + head, shard, sizeof(shard));
    if (size > 1)
        memcpy(body + head + sizeof(shard), data + 1, size - 1 < values ? size - 1 : values);
    *length = head + sizeof(shard) + values;
    seal(body, *length);
    return body;
}

static uint8_t *body_as_it_is(const uint8_t *data, size_t size, bool sealed) {
    uint8_t *body = malloc(size + 1);
    if (!body)
        abort();
    memcpy(body, data, size);
    if (sealed)
        seal(body, size);
    return body;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    uint32_t width = data[0] % 100u;
    size_t piece = data[1] + 1u, length = size - 3;
    uint8_t *body = data[2] & 0x80u && width > 0
                        ? body_with_shard(width, data + 3, length, &length)
                        : body_as_it_is(data + 3, length, data[2] % 4 != 0);
    lh_step_reader_events events = {
        .on_manifest = on_manifest, .on_shard = on_shard, .on_results = on_results};
    lh_step_reader *reader = NULL;
    if (lh_step_reader_create(width, &events, NULL, &reader, NULL) == LH_OK) {
        for (size_t at = 0; at < length; at += piece)
            lh_step_reader_feed(reader, body + at, length - at < piece ? length - at : piece, NULL);
        lh_step_reader_finish(reader, NULL);
    }
    lh_step_reader_destroy(reader);
    read_times(body, length);
    free(body);
    return 0;
}
