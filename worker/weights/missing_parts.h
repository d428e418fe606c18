/* What is to be fetched of a model, so that few requests bring it: parts that lie close together
 * come in one (weight_download.h); and blocks that are missing in each of many matrices of a
 * tensor, as a member of a team needs the same rows of every expert, come as pieces at equal
 * distances, which a server that has them (CONTROL.md) gives out as a file of their own. Thread:
 * one at a time. */
#pragma once

#include "worker/weights/block_set.h"
#include "worker/weights/weight_download.h"

#include <stdbool.h>

/* Pieces of the model file, whose parts have offsets within them. */
typedef struct lh_missing_pieces {
    lh_tensor_slice pieces;
    size_t first, count; /* of their parts */
} lh_missing_pieces;

typedef struct lh_missing_parts {
    bool has_pieces;       /* the server does */
    lh_weight_part *parts; /* [count], owned */
    size_t count, capacity;
    lh_weight_part *of_pieces; /* [of_count], owned */
    size_t of_count, of_capacity;
    lh_missing_pieces *pieces; /* [piece_count], owned */
    size_t piece_count, piece_capacity;
} lh_missing_parts;

/* The whole tensor, as a file. LH_ERR_NO_MEMORY. */
lh_status lh_missing_parts_add(lh_missing_parts *missing, const lh_gguf_tensor *tensor,
                               size_t index, const uint8_t digest[LH_SHA256_BYTES],
                               lh_error *error);
/* What is missing of the set, into `slices`, which outlives them. Reserves the space.
 * LH_ERR_NO_MEMORY, those of lh_slice_file_reserve. */
lh_status lh_missing_parts_add_blocks(lh_missing_parts *missing, const lh_gguf_tensor *tensor,
                                      size_t index, const lh_block_set *set, lh_slice_file *slices,
                                      lh_error *error);
/* pieces_url: where it has_pieces. LH_ERR_NO_MEMORY, those of lh_weight_download. */
lh_status lh_missing_parts_download(lh_missing_parts *missing, lh_weight_fetch *fetch,
                                    lh_weight_url url, lh_weight_url pieces_url,
                                    lh_weight_cache *cache, const lh_weight_download_events *events,
                                    lh_error *error);
void lh_missing_parts_reset(lh_missing_parts *missing);
