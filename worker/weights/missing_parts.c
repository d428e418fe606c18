/* Two lists: of the model file, and of pieces of it. */
#include "worker/weights/missing_parts.h"

#include "common/base/growing_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor whose blocks are added. */
typedef struct adding {
    lh_missing_parts *missing;
    const lh_gguf_tensor *tensor;
    size_t index;
    const lh_block_set *set;
    lh_slice_file *slices;
} adding;

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory");
}

static lh_status append(lh_weight_part **parts, size_t *count, size_t *capacity,
                        const lh_weight_part *part, lh_error *error) {
    if (!lh_growing_array_reserve(parts, capacity, *count + 1, sizeof **parts))
        return fail_memory(error);
    (*parts)[(*count)++] = *part;
    return LH_OK;
}

lh_status lh_missing_parts_add(lh_missing_parts *missing, const lh_gguf_tensor *tensor,
                               size_t index, const uint8_t digest[LH_SHA256_BYTES],
                               lh_error *error) {
    lh_weight_part part = {
        .name = tensor->name, .offset = tensor->offset, .bytes = tensor->bytes, .index = index};
    memcpy(part.digest, digest, sizeof part.digest);
    return append(&missing->parts, &missing->count, &missing->capacity, &part, error);
}

/* Where the block lies in the model file. */
static lh_weight_part part_of(const adding *a, uint64_t block) {
    const lh_block_extent extent = lh_tensor_block_at(&a->set->blocks, block);
    lh_weight_part part = {.name = a->tensor->name,
                           .offset = a->tensor->offset + extent.offset,
                           .bytes = extent.bytes,
                           .index = a->index,
                           .block = block,
                           .slices = a->slices,
                           .slices_offset = extent.offset};
    memcpy(part.digest, a->set->digests[block], sizeof part.digest);
    return part;
}

static lh_status reserve(const adding *a, const lh_weight_part *part, lh_error *error) {
    return lh_slice_file_reserve(a->slices, (lh_block_extent){part->slices_offset, part->bytes},
                                 error);
}

static lh_status add_run(const adding *a, lh_block_run run, lh_error *error) {
    lh_missing_parts *missing = a->missing;
    lh_status status = LH_OK;
    for (uint64_t i = run.first; i < run.last && status == LH_OK; i++) {
        const lh_weight_part part = part_of(a, i);
        status = append(&missing->parts, &missing->count, &missing->capacity, &part, error);
        if (status == LH_OK)
            status = reserve(a, &part, error);
    }
    return status;
}

/* The run of the first matrix, and those of all others at its place. */
static lh_status add_pieces(const adding *a, lh_block_run run, uint64_t bytes, lh_error *error) {
    lh_missing_parts *missing = a->missing;
    const lh_tensor_blocks *blocks = &a->set->blocks;
    const uint64_t matrices = blocks->count / blocks->each;
    if (!lh_growing_array_reserve(&missing->pieces, &missing->piece_capacity,
                                  missing->piece_count + 1, sizeof *missing->pieces))
        return fail_memory(error);
    lh_missing_pieces made = {
        .pieces = {a->tensor->offset + lh_tensor_block_at(blocks, run.first).offset, bytes,
                   blocks->matrix_rows * blocks->row_bytes, matrices},
        .first = missing->of_count};
    uint64_t position = 0;
    lh_status status = LH_OK;
    for (uint64_t matrix = 0; matrix < matrices; matrix++)
        for (uint64_t i = run.first; i < run.last && status == LH_OK; i++) {
            lh_weight_part part = part_of(a, matrix * blocks->each + i);
            part.offset = position;
            position += part.bytes;
            status = append(&missing->of_pieces, &missing->of_count, &missing->of_capacity, &part,
                            error);
            if (status == LH_OK)
                status = reserve(a, &part, error);
        }
    made.count = missing->of_count - made.first;
    missing->pieces[missing->piece_count++] = made;
    return status;
}

/* The next run of missing blocks from `from` on, before `end`; empty: there is none. */
static lh_block_run next_run(const lh_block_set *set, uint64_t from, uint64_t end) {
    lh_block_run run = {lh_block_set_next_missing(set, from), 0};
    if (run.first > end)
        run.first = end;
    run.last = run.first;
    while (run.last < end && lh_block_set_next_missing(set, run.last) == run.last)
        run.last++;
    return run;
}

/* In each matrix the same blocks are missing. */
static bool is_periodic(const lh_block_set *set) {
    const uint64_t each = set->blocks.each;
    for (uint64_t at = each; at < set->blocks.count; at += each)
        if (memcmp(set->states, set->states + at, each) != 0)
            return false;
    return set->blocks.count > each;
}

static uint64_t bytes_of(const lh_tensor_blocks *blocks, lh_block_run run) {
    const lh_block_extent last = lh_tensor_block_at(blocks, run.last - 1);
    return last.offset + last.bytes - lh_tensor_block_at(blocks, run.first).offset;
}

/* A run that is missing in every matrix: as pieces where too much lies between to be skipped. */
static lh_status add_periodic_run(const adding *a, lh_block_run run, lh_error *error) {
    const lh_tensor_blocks *blocks = &a->set->blocks;
    const uint64_t bytes = bytes_of(blocks, run);
    lh_status status = LH_OK;
    if (blocks->matrix_rows * blocks->row_bytes - bytes > LH_WEIGHT_GAP_BYTES_MAX)
        return add_pieces(a, run, bytes, error);
    for (uint64_t at = 0; at < blocks->count && status == LH_OK; at += blocks->each)
        status = add_run(a, (lh_block_run){at + run.first, at + run.last}, error);
    return status;
}

lh_status lh_missing_parts_add_blocks(lh_missing_parts *missing, const lh_gguf_tensor *tensor,
                                      size_t index, const lh_block_set *set, lh_slice_file *slices,
                                      lh_error *error) {
    const adding a = {missing, tensor, index, set, slices};
    const bool periodic = missing->has_pieces && is_periodic(set);
    const uint64_t end = periodic ? set->blocks.each : set->blocks.count;
    lh_status status = LH_OK;
    for (lh_block_run run = next_run(set, 0, end); run.first < run.last && status == LH_OK;
         run = next_run(set, run.last, end))
        status = periodic ? add_periodic_run(&a, run, error) : add_run(&a, run, error);
    return status;
}

static int compare_offsets(const void *a, const void *b) {
    const lh_weight_part *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static lh_status download_pieces(const lh_missing_parts *missing, const lh_missing_pieces *made,
                                 lh_weight_fetch *fetch, lh_weight_url url, lh_weight_cache *cache,
                                 const lh_weight_download_events *events, lh_error *error) {
    const lh_tensor_slice *p = &made->pieces;
    char *text;
    if (asprintf(&text, "%s/%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64, url.url, p->offset,
                 p->bytes, p->stride, p->count) < 0)
        return fail_memory(error);
    url.url = text;
    lh_status status = lh_weight_download(fetch, url, cache, missing->of_pieces + made->first,
                                          made->count, events, error);
    free(text);
    return status;
}

lh_status lh_missing_parts_download(lh_missing_parts *missing, lh_weight_fetch *fetch,
                                    lh_weight_url url, lh_weight_url pieces_url,
                                    lh_weight_cache *cache, const lh_weight_download_events *events,
                                    lh_error *error) {
    lh_status status = LH_OK;
    if (missing->count > 0) {
        qsort(missing->parts, missing->count, sizeof *missing->parts, compare_offsets);
        status =
            lh_weight_download(fetch, url, cache, missing->parts, missing->count, events, error);
    }
    for (size_t i = 0; i < missing->piece_count && status == LH_OK; i++)
        status =
            download_pieces(missing, &missing->pieces[i], fetch, pieces_url, cache, events, error);
    return status;
}

void lh_missing_parts_reset(lh_missing_parts *missing) {
    free(missing->pieces);
    free(missing->of_pieces);
    free(missing->parts);
    *missing = (lh_missing_parts){0};
}
