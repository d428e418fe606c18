/* Whole payloads to manifests, shard heads and results (PROTOCOL.md): every count and number is
 * checked before it is used. */
#include "common/base/little_endian.h"
#include "common/protocol/mask_code.h"
#include "common/protocol/row_code.h"
#include "common/protocol/step_frame.h"
#include "common/protocol/step_times.h"
#include "common/protocol/wire_type.h"

#include "common/base/crc32c.h"

#include <stdlib.h>

static uint32_t payload_limit(uint32_t type) {
    switch (type) {
    case LH_STEP_FRAME_MANIFEST:
        return LH_STEP_MANIFEST_BYTES_MAX;
    case LH_STEP_FRAME_SHARD:
        return LH_STEP_SHARD_BYTES_MAX;
    case LH_STEP_FRAME_RESULTS:
        return 4u + LH_STEP_SEGMENTS_MAX * LH_STEP_RESULT_HEAD_BYTES + LH_ROW_ANSWERS_BYTES_MAX;
    case LH_STEP_FRAME_TIMES:
        return LH_STEP_TIMES_BYTES_MAX;
    default:
        return 0;
    }
}

lh_status lh_step_frame_head_decode(const uint8_t bytes[LH_STEP_FRAME_HEAD_BYTES],
                                    lh_step_frame_head *head, lh_error *error) {
    lh_byte_reader reader = {.bytes = bytes, .length = LH_STEP_FRAME_HEAD_BYTES};
    head->type = lh_get_u32(&reader);
    head->payload_bytes = lh_get_u32(&reader);
    head->payload_crc32c = lh_get_u32(&reader);
    if (lh_crc32c(0, bytes, LH_STEP_FRAME_HEAD_BYTES - 4u) != lh_get_u32(&reader))
        return lh_fail(error, LH_ERR_CORRUPT, "frame head: its CRC32C differs");
    uint32_t limit = payload_limit(head->type);
    if (limit == 0)
        return lh_fail(error, LH_ERR_MALFORMED, "frame type %u is not one of ours", head->type);
    if (head->payload_bytes > limit) {
        return lh_fail(error, LH_ERR_LIMIT, "frame of type %u announces %u bytes; the limit is %u",
                       head->type, head->payload_bytes, limit);
    }
    return LH_OK;
}

/* ---- Manifest ---- */

lh_status lh_step_check_counts(const lh_step_manifest *manifest, lh_error *error) {
    if (manifest->rows > LH_STEP_ROWS_MAX || manifest->segment_count > LH_STEP_SEGMENTS_MAX ||
        manifest->truncation_count > LH_STEP_TRUNCATIONS_MAX ||
        manifest->cut_count > LH_STEP_CUTS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "manifest of step %llu: %u rows, %u segments, %u truncations, %u cuts; the "
                       "limits are %u, %u, %u, %u",
                       (unsigned long long)manifest->step, manifest->rows, manifest->segment_count,
                       manifest->truncation_count, manifest->cut_count, LH_STEP_ROWS_MAX,
                       LH_STEP_SEGMENTS_MAX, LH_STEP_TRUNCATIONS_MAX, LH_STEP_CUTS_MAX);
    }
    if (manifest->masks.drop_count > LH_STEP_MASK_DROPS_MAX ||
        manifest->masks.count > LH_STEP_MASKS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "manifest of step %llu: %u masks dropped, %u new; the limits are %u, %u",
                       (unsigned long long)manifest->step, manifest->masks.drop_count,
                       manifest->masks.count, LH_STEP_MASK_DROPS_MAX, LH_STEP_MASKS_MAX);
    }
    return LH_OK;
}

static lh_status get_segment(lh_byte_reader *reader, lh_step_arena *memory,
                             lh_step_segment *segment, uint32_t index, lh_error *error) {
    *segment = (lh_step_segment){.sequence = lh_get_u64(reader)};
    segment->first_position = lh_get_u32(reader);
    segment->rows = lh_get_u32(reader);
    uint32_t flags = lh_get_u32(reader);
    if (reader->failed)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: cut in segment %u", index);
    if ((flags & ~(LH_STEP_FLAG_FORKS | LH_ROW_ASK_FLAGS)) != 0)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: flags 0x%x", index, flags);
    if (segment->rows == 0 || segment->rows > LH_STEP_ROWS_MAX ||
        segment->first_position > UINT32_MAX - segment->rows) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: %u rows from position %u",
                       index, segment->rows, segment->first_position);
    }
    segment->forks = (flags & LH_STEP_FLAG_FORKS) != 0;
    if (segment->forks) {
        segment->source = lh_get_u64(reader);
        if (reader->failed || segment->first_position == 0 ||
            segment->source == segment->sequence) {
            return lh_fail(error, LH_ERR_MALFORMED,
                           "manifest, segment %u: forks %u positions of sequence %llu", index,
                           segment->first_position, (unsigned long long)segment->source);
        }
    }
    return lh_get_row_ask(reader, memory, flags, segment->rows, index, &segment->ask, error);
}

static lh_status get_segments(lh_byte_reader *reader, lh_step_arena *memory,
                              lh_step_manifest *manifest, lh_error *error) {
    lh_step_segment *segments =
        lh_step_arena_take(memory, manifest->segment_count * sizeof *segments);
    uint64_t rows = 0;
    uint32_t wide = 0;
    manifest->segments = segments;
    for (uint32_t i = 0; i < manifest->segment_count; i++) {
        lh_status status = get_segment(reader, memory, &segments[i], i, error);
        if (status != LH_OK)
            return status;
        rows += segments[i].rows;
        wide += lh_row_ask_is_wide(&segments[i].ask);
        if (lh_row_ask_is_any(&segments[i].ask) && manifest->hop_limit > 0) {
            return lh_fail(error, LH_ERR_MALFORMED,
                           "manifest, segment %u: has a result, but the step ends before", i);
        }
    }
    if (wide > LH_STEP_POOLED_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "manifest: %u segments are pooled; the limit is %u",
                       wide, LH_STEP_POOLED_MAX);
    if (rows != manifest->rows) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: %u rows, but its segments have %llu",
                       manifest->rows, (unsigned long long)rows);
    }
    return LH_OK;
}

static lh_status get_manifest_head(lh_byte_reader *reader, lh_step_manifest *manifest,
                                   lh_error *error) {
    uint32_t version = lh_get_u32(reader);
    manifest->epoch = lh_get_u32(reader);
    manifest->step = lh_get_u64(reader);
    uint32_t step_class = lh_get_u32(reader);
    manifest->rows = lh_get_u32(reader);
    manifest->segment_count = lh_get_u32(reader);
    manifest->truncation_count = lh_get_u32(reader);
    uint32_t flags = lh_get_u32(reader);
    manifest->cut_count = lh_get_u32(reader);
    manifest->hop_limit = lh_get_u32(reader);
    manifest->masks.drop_count = lh_get_u32(reader);
    manifest->masks.count = lh_get_u32(reader);
    if (reader->failed)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: cut in its head");
    if (version != LH_STEP_PROTOCOL_VERSION) {
        return lh_fail(error, LH_ERR_UNSUPPORTED, "step protocol %u; this side speaks %u", version,
                       LH_STEP_PROTOCOL_VERSION);
    }
    if (step_class > LH_STEP_PREFILL)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: step class %u", step_class);
    if ((flags & ~(LH_STEP_FLAG_TIMED | LH_STEP_FLAG_KV_RESYNC)) != 0)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: flags 0x%x", flags);
    if (manifest->hop_limit > LH_STEP_HOP_LIMIT_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "manifest: for %u workers; the limit is %u",
                       manifest->hop_limit, LH_STEP_HOP_LIMIT_MAX);
    }
    manifest->step_class = (lh_step_class)step_class;
    manifest->timed = (flags & LH_STEP_FLAG_TIMED) != 0;
    manifest->resyncs = (flags & LH_STEP_FLAG_KV_RESYNC) != 0;
    if (manifest->resyncs && manifest->rows > 0) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: a KV resync with %u rows",
                       manifest->rows);
    }
    bool may_have_masks = manifest->hop_limit == 0 && !manifest->resyncs;
    if (!may_have_masks && (manifest->masks.drop_count > 0 || manifest->masks.count > 0))
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: masks in a %s",
                       manifest->resyncs ? "KV resync" : "step that ends before they are needed");
    lh_status status = lh_step_check_counts(manifest, error);
    if (status != LH_OK)
        return status;
    uint64_t least = (uint64_t)manifest->rows * 4u +
                     (uint64_t)manifest->segment_count * LH_STEP_SEGMENT_BYTES +
                     (uint64_t)manifest->truncation_count * LH_STEP_TRUNCATION_BYTES +
                     (uint64_t)manifest->cut_count * 8u +
                     (uint64_t)manifest->masks.drop_count * sizeof *manifest->masks.drops +
                     (uint64_t)manifest->masks.count * LH_STEP_MASK_BYTES;
    if (lh_bytes_left(reader) < least) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: %zu bytes for what takes at least %llu",
                       lh_bytes_left(reader), (unsigned long long)least);
    }
    return LH_OK;
}

static lh_status get_cut(lh_byte_reader *reader, lh_step_cut *cut, uint32_t index,
                         lh_error *error) {
    *cut = (lh_step_cut){.count = lh_get_u32(reader)};
    if (reader->failed || cut->count == 0 || cut->count > LH_STEP_COLUMN_SHARDS_MAX) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "manifest, cut %u: %u column shards; 1 to %u are possible", index,
                       cut->count, LH_STEP_COLUMN_SHARDS_MAX);
    }
    for (uint32_t i = 0; i < cut->count; i++) {
        uint32_t end = lh_get_u32(reader), begin = i > 0 ? cut->ends[i - 1] : 0;
        bool is_last = i + 1 == cut->count;
        if (reader->failed || end <= begin || end > LH_STEP_WIDTH_MAX ||
            (!is_last && end % LH_STEP_COLUMN_BLOCK != 0)) {
            return lh_fail(error, LH_ERR_MALFORMED,
                           "manifest, cut %u: shard %u from column %u to %u", index, i, begin, end);
        }
        cut->ends[i] = end;
    }
    return LH_OK;
}

static lh_status get_cuts(lh_byte_reader *reader, lh_step_arena *memory, lh_step_manifest *manifest,
                          lh_error *error) {
    lh_step_cut *cuts = lh_step_arena_take(memory, manifest->cut_count * sizeof *cuts);
    lh_status status = LH_OK;
    manifest->cuts = cuts;
    for (uint32_t i = 0; i < manifest->cut_count && status == LH_OK; i++)
        status = get_cut(reader, &cuts[i], i, error);
    return status;
}

static lh_status get_truncations(lh_byte_reader *reader, lh_step_arena *memory,
                                 lh_step_manifest *manifest, lh_error *error) {
    lh_step_truncation *list =
        lh_step_arena_take(memory, manifest->truncation_count * sizeof *list);
    manifest->truncations = list;
    for (uint32_t i = 0; i < manifest->truncation_count; i++) {
        list[i] = (lh_step_truncation){.sequence = lh_get_u64(reader)};
        list[i].length = lh_get_u32(reader);
        if (manifest->resyncs && list[i].length == 0 && !reader->failed) {
            return lh_fail(error, LH_ERR_MALFORMED,
                           "manifest: a KV resync names sequence %llu without positions",
                           (unsigned long long)list[i].sequence);
        }
    }
    return LH_OK;
}

static lh_status get_mask(lh_byte_reader *reader, lh_step_arena *memory, lh_step_mask *mask,
                          uint32_t index, lh_error *error) {
    *mask = (lh_step_mask){.number = lh_get_u64(reader)};
    mask->vocabulary = lh_get_u32(reader);
    mask->code_bytes = lh_get_u32(reader);
    if (reader->failed || mask->number == 0 || mask->code_bytes > lh_bytes_left(reader)) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, mask %u: %s", index,
                       !reader->failed && mask->number == 0 ? "its number is 0" : "cut");
    }
    mask->code = lh_step_arena_copy(memory, reader, mask->code_bytes);
    return lh_mask_decode(mask->code, mask->code_bytes, mask->vocabulary, NULL, error);
}

static lh_status get_masks(lh_byte_reader *reader, lh_step_arena *memory,
                           lh_step_manifest *manifest, lh_error *error) {
    manifest->masks.drops = lh_step_arena_copy(
        memory, reader, manifest->masks.drop_count * sizeof *manifest->masks.drops);
    lh_step_mask *masks = lh_step_arena_take(memory, manifest->masks.count * sizeof *masks);
    lh_status status = LH_OK;
    manifest->masks.list = masks;
    for (uint32_t i = 0; i < manifest->masks.count && status == LH_OK; i++)
        status = get_mask(reader, memory, &masks[i], i, error);
    return status;
}

static lh_status get_manifest_body(lh_byte_reader *reader, lh_step_arena *memory,
                                   lh_step_manifest *manifest, lh_error *error) {
    manifest->tokens =
        lh_step_arena_copy(memory, reader, manifest->rows * sizeof *manifest->tokens);
    lh_status status = get_segments(reader, memory, manifest, error);
    if (status == LH_OK)
        status = get_truncations(reader, memory, manifest, error);
    if (status == LH_OK)
        status = get_cuts(reader, memory, manifest, error);
    if (status == LH_OK)
        status = get_masks(reader, memory, manifest, error);
    if (status == LH_OK && (reader->failed || lh_bytes_left(reader) != 0)) {
        status = lh_fail(error, LH_ERR_MALFORMED, "manifest: %s",
                         reader->failed ? "cut" : "bytes after its end");
    }
    return status;
}

lh_status lh_step_decode_manifest(const uint8_t *payload, size_t length, lh_step_manifest *manifest,
                                  void **memory, lh_error *error) {
    *memory = NULL;
    *manifest = (lh_step_manifest){0};
    lh_byte_reader reader = {.bytes = payload, .length = length};
    lh_status status = get_manifest_head(&reader, manifest, error);
    if (status != LH_OK)
        return status;
    /* What is neither a segment, a truncation, a cut nor a mask takes no more memory than bytes on
     * the wire, but for rounding each of its pieces up to 8. */
    lh_step_arena pieces = {.capacity = length +
                                        manifest->segment_count *
                                            (sizeof(lh_step_segment) + LH_ROW_ASK_PADDING) +
                                        manifest->truncation_count * sizeof(lh_step_truncation) +
                                        manifest->cut_count * sizeof(lh_step_cut) +
                                        manifest->masks.count * (sizeof(lh_step_mask) + 8u) + 32u};
    pieces.bytes = malloc(pieces.capacity);
    if (!pieces.bytes)
        return lh_fail(error, LH_ERR_NO_MEMORY, "manifest of %zu bytes: out of memory", length);
    status = get_manifest_body(&reader, &pieces, manifest, error);
    if (status != LH_OK) {
        free(pieces.bytes);
        return status;
    }
    *memory = pieces.bytes;
    return LH_OK;
}

lh_status lh_step_decode_manifest_frame(const uint8_t *frame, size_t length,
                                        lh_step_manifest *manifest, void **memory,
                                        lh_error *error) {
    lh_step_frame_head head;
    *memory = NULL;
    if (length < LH_STEP_FRAME_HEAD_BYTES)
        return lh_fail(error, LH_ERR_MALFORMED, "manifest: %zu bytes are no frame", length);
    lh_status status = lh_step_frame_head_decode(frame, &head, error);
    if (status != LH_OK)
        return status;
    const uint8_t *payload = frame + LH_STEP_FRAME_HEAD_BYTES;
    size_t left = length - LH_STEP_FRAME_HEAD_BYTES;
    if (head.type != LH_STEP_FRAME_MANIFEST || head.payload_bytes != left) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "manifest: a frame of type %u and %u bytes, where %zu have come", head.type,
                       head.payload_bytes, left);
    }
    if (lh_crc32c(0, payload, left) != head.payload_crc32c)
        return lh_fail(error, LH_ERR_CORRUPT, "manifest of %zu bytes: its CRC32C differs", left);
    return lh_step_decode_manifest(payload, left, manifest, memory, error);
}

/* ---- Shards ---- */

lh_status lh_step_decode_shard_head(const uint8_t *payload, size_t length, uint32_t rows,
                                    uint32_t width, lh_step_shard_header *header, lh_error *error) {
    lh_byte_reader reader = {.bytes = payload, .length = length};
    header->first_row = lh_get_u32(&reader);
    header->rows = lh_get_u32(&reader);
    header->first_column = lh_get_u32(&reader);
    header->columns = lh_get_u32(&reader);
    uint32_t wire = lh_get_u32(&reader);
    uint32_t reserved = lh_get_u32(&reader);
    header->payload_bytes = (uint32_t)length;
    if (reader.failed || reserved != 0) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard: its head is %s",
                       reader.failed ? "cut" : "not of this version");
    }
    if (!lh_wire_from_number(wire, &header->wire))
        return lh_fail(error, LH_ERR_UNSUPPORTED, "shard: wire type %u is not one of ours", wire);
    if (header->rows == 0 || header->rows > rows || header->first_row > rows - header->rows) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard: %u rows from %u of a step of %u",
                       header->rows, header->first_row, rows);
    }
    if (header->columns == 0 || header->columns > width ||
        header->first_column > width - header->columns) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard: %u columns from %u of a width of %u",
                       header->columns, header->first_column, width);
    }
    uint32_t end = header->first_column + header->columns;
    if (header->first_column % LH_STEP_COLUMN_BLOCK != 0 ||
        (end % LH_STEP_COLUMN_BLOCK != 0 && end != width)) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard: columns %u to %u are off the blocks of %u",
                       header->first_column, end, LH_STEP_COLUMN_BLOCK);
    }
    size_t bytes =
        LH_STEP_SHARD_HEAD_BYTES + lh_wire_bytes(header->wire, header->rows, header->columns);
    if (bytes != length) {
        return lh_fail(error, LH_ERR_MALFORMED, "shard: %zu bytes for what takes %zu", length,
                       bytes);
    }
    return LH_OK;
}

/* ---- Results ---- */

/* The least that one takes. */
#define RESULT_BYTES (LH_STEP_RESULT_HEAD_BYTES + LH_ROW_ANSWER_BYTES)

lh_status lh_step_decode_results(const uint8_t *payload, size_t length, lh_step_result **results,
                                 uint32_t *count, lh_error *error) {
    *results = NULL;
    lh_byte_reader reader = {.bytes = payload, .length = length};
    uint32_t announced = lh_get_u32(&reader);
    if (reader.failed || announced > lh_bytes_left(&reader) / RESULT_BYTES) {
        return lh_fail(error, LH_ERR_MALFORMED, "results: %zu bytes for %u results", length,
                       announced);
    }
    if (announced > LH_STEP_SEGMENTS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "results: %u; the limit is %u", announced,
                       LH_STEP_SEGMENTS_MAX);
    }
    /* a list that is too long may claim the bytes of the results behind it */
    size_t left = lh_bytes_left(&reader);
    lh_row_answers_room room;
    lh_step_result *list =
        malloc((announced + 1u) * sizeof *list + lh_row_answers_room_bytes(left));
    if (!list)
        return lh_fail(error, LH_ERR_NO_MEMORY, "%u results: out of memory", announced);
    lh_row_answers_room_init(&room, left, list + announced + 1);
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < announced && status == LH_OK; i++) {
        list[i].sequence = lh_get_u64(&reader);
        list[i].position = lh_get_u32(&reader);
        status = lh_get_row_answer(&reader, &room, i, &list[i].answer, error);
    }
    if (status == LH_OK && lh_bytes_left(&reader) != 0)
        status = lh_fail(error, LH_ERR_MALFORMED, "results: bytes after their end");
    if (status != LH_OK) {
        free(list);
        return status;
    }
    *results = list;
    *count = announced;
    return LH_OK;
}
