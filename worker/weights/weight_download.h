/* Brings parts of a file into the cache with few requests: parts that lie close together come in
 * one.
 *
 *   file    ... [attn_norm][attn_q     ][pad][attn_k][  not needed, small  ][ffn_norm] ...
 *   range       |--------------------------- one request ---------------------------|
 *
 * so that a link of 80 ms is not paid for once per tensor. Every part has its own digest and
 * becomes a file of its own, or, as a block of a tensor, goes to its place in a file of slices; one
 * that is damaged is asked for once more. Blocking; one thread at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "worker/weights/slice_file.h"
#include "worker/weights/weight_cache.h"
#include "worker/weights/weight_fetch.h"

#include <stdint.h>

/* Skipping so much takes less time than a round trip on nearly any link (5 ms at 100 Mbit/s). */
#define LH_WEIGHT_GAP_BYTES_MAX (64u << 10)

typedef struct lh_weight_part {
    lh_text name; /* for messages */
    uint64_t offset, bytes;
    uint8_t digest[LH_SHA256_BYTES];
    size_t index; /* the caller's, as block */
    uint64_t block;
    /* where it goes, at slices_offset; NULL: into a file of its own. The caller's */
    lh_slice_file *slices;
    uint64_t slices_offset;
} lh_weight_part;

typedef struct lh_weight_download_events {
    void *context;
    /* The part is in the cache (of a block: written). May be NULL, as the next one. */
    void (*on_part)(void *context, const lh_weight_part *part);
    /* More bytes of parts have come; negative when damaged ones are begun anew. */
    void (*on_bytes)(void *context, int64_t bytes);
} lh_weight_download_events;

/* parts[count] in ascending order of offset, not overlapping. Stops at the first failure:
 * LH_ERR_CORRUPT (twice damaged), those of lh_weight_fetch_range and lh_weight_writer_*. What has
 * come stays in the cache. */
lh_status lh_weight_download(lh_weight_fetch *fetch, lh_weight_url url, lh_weight_cache *cache,
                             const lh_weight_part *parts, size_t count,
                             const lh_weight_download_events *events, lh_error *error);
