/* A run is what one request asks for; the bytes that come are dealt out to its parts. */
#include "worker/weights/weight_download.h"

#include "common/base/growing_array.h"
#include "common/base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* 64 MiB take 5 s at 100 Mbit/s: beside that a round trip is nothing, and no request lasts so long
 * that servers mind. */
#define RUN_BYTES_MAX (64u << 20)
#define DAMAGES_MAX   2u /* of one part, then it is an error */

typedef struct download {
    lh_weight_cache *cache;
    const lh_weight_part *parts; /* [count] */
    size_t count, next;          /* next: the first that is not in the cache */
    uint64_t position;           /* in the file: of the byte that comes next */
    bool has_begun;              /* some of parts[next] has come, and is in one of these: */
    lh_weight_writer *writer;    /* NULL: it is a block */
    uint8_t *block;              /* [block_capacity] */
    size_t block_capacity;
    const lh_weight_download_events *events;
} download;

static void report_bytes(const download *d, int64_t bytes) {
    if (d->events->on_bytes && bytes)
        d->events->on_bytes(d->events->context, bytes);
}

/* Bytes of parts[next] that have come. */
static uint64_t written(const download *d) {
    return d->has_begun ? d->position - d->parts[d->next].offset : 0;
}

static void drop_begun(download *d) {
    report_bytes(d, -(int64_t)written(d));
    lh_weight_writer_destroy(d->writer);
    d->writer = NULL;
    d->has_begun = false;
}

/* Nothing that has not been checked is written over what others may read. */
static lh_status commit_block(const download *d, const lh_weight_part *part, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    if (lh_sha256_digest(d->block, (size_t)part->bytes, digest) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory");
    if (memcmp(digest, part->digest, sizeof digest) != 0)
        return lh_fail(error, LH_ERR_CORRUPT, "block %" PRIu64 " has another digest", part->block);
    return lh_slice_file_write(part->slices, (lh_block_extent){part->slices_offset, part->bytes},
                               digest, d->block, error);
}

static lh_status commit(download *d, lh_error *error) {
    const lh_weight_part *part = &d->parts[d->next];
    lh_error problem;
    lh_status status = part->slices ? commit_block(d, part, &problem)
                                    : lh_weight_writer_commit(d->writer, &problem);
    if (status != LH_OK)
        return lh_fail(error, status, "%.*s: %s", (int)part->name.length, part->name.bytes,
                       problem.message);
    lh_weight_writer_destroy(d->writer);
    d->writer = NULL;
    d->has_begun = false;
    d->next++;
    if (d->events->on_part)
        d->events->on_part(d->events->context, part);
    return LH_OK;
}

static lh_status begin_part(download *d, const lh_weight_part *part, lh_error *error) {
    if (!part->slices)
        return lh_weight_writer_create(d->cache, part->digest, part->bytes, &d->writer, error);
    return lh_growing_array_reserve(&d->block, &d->block_capacity, (size_t)part->bytes, 1)
               ? LH_OK
               : lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory for a block");
}

static lh_status append(download *d, const uint8_t *bytes, size_t length, lh_error *error) {
    const lh_weight_part *part = &d->parts[d->next];
    lh_status status = LH_OK;
    assert(d->position - part->offset + length <= part->bytes);
    if (!d->has_begun)
        status = begin_part(d, part, error);
    d->has_begun = status == LH_OK;
    if (status == LH_OK && part->slices)
        memcpy(d->block + (d->position - part->offset), bytes, length);
    else if (status == LH_OK)
        status = lh_weight_writer_append(d->writer, bytes, length, error);
    if (status != LH_OK)
        return status;
    d->position += length;
    report_bytes(d, (int64_t)length);
    return written(d) == part->bytes ? commit(d, error) : LH_OK;
}

/* lh_weight_on_bytes: deals out what has come; what lies between the parts is skipped. */
static lh_status deal_out(void *context, const uint8_t *bytes, size_t length, lh_error *error) {
    download *d = context;
    while (length > 0) {
        assert(d->next < d->count); /* no more comes than was asked for */
        const lh_weight_part *part = &d->parts[d->next];
        bool is_gap = d->position < part->offset;
        uint64_t wanted =
            is_gap ? part->offset - d->position : part->offset + part->bytes - d->position;
        size_t step = length < wanted ? length : (size_t)wanted;
        if (is_gap) {
            d->position += step;
        } else {
            lh_status status = append(d, bytes, step, error);
            if (status != LH_OK)
                return status;
        }
        bytes += step;
        length -= step;
    }
    return LH_OK;
}

/* One past the last part that goes into one request with parts[first]. */
static size_t run_end(const download *d, size_t first) {
    size_t end = first + 1;
    while (end < d->count) {
        const lh_weight_part *last = &d->parts[end - 1], *candidate = &d->parts[end];
        assert(candidate->offset >= last->offset + last->bytes);
        if (candidate->offset - (last->offset + last->bytes) > LH_WEIGHT_GAP_BYTES_MAX ||
            candidate->offset + candidate->bytes - d->parts[first].offset > RUN_BYTES_MAX)
            break;
        end++;
    }
    return end;
}

static lh_status fetch_all(download *d, lh_weight_fetch *fetch, lh_weight_url url,
                           lh_error *error) {
    const lh_weight_part *parts = d->parts;
    unsigned damages = 0;
    while (d->next < d->count) {
        size_t first = d->next, end = run_end(d, first);
        lh_error problem;
        d->position = parts[first].offset;
        lh_status status = lh_weight_fetch_range(
            fetch, url, d->position, parts[end - 1].offset + parts[end - 1].bytes - d->position,
            deal_out, d, &problem);
        drop_begun(d);
        damages = d->next > first ? 0 : damages;
        if (status == LH_ERR_CORRUPT && ++damages < DAMAGES_MAX)
            lh_log(LH_LOG_WARN, "weights",
                   "what came is damaged and is fetched again reason=\"%s\"", problem.message);
        else if (status != LH_OK)
            return lh_fail(error, status, "%s", problem.message);
    }
    return LH_OK;
}

lh_status lh_weight_download(lh_weight_fetch *fetch, lh_weight_url url, lh_weight_cache *cache,
                             const lh_weight_part *parts, size_t count,
                             const lh_weight_download_events *events, lh_error *error) {
    download d = {.cache = cache, .parts = parts, .count = count, .events = events};
    lh_status status = fetch_all(&d, fetch, url, error);
    free(d.block);
    return status;
}
