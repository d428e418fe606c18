/* What a model's weights are made of, for weights.c, which opens them and gives them out, and
 * weights_ensure.c, which sees to it that they are there. */
#pragma once

#include "common/gguf/gguf_file.h"
#include "worker/weights/block_set.h"
#include "worker/weights/slice_file.h"
#include "worker/weights/weight_digests.h"
#include "worker/weights/weights.h"

/* Where a tensor is: nowhere yet, in the local file, in the cache, or as much of it as is needed in
 * a file of slices there. */
typedef enum lh_place { LH_NOWHERE, LH_IN_FILE, LH_IN_CACHE, LH_IN_SLICES } lh_place;

static inline bool lh_place_is_whole(lh_place where) {
    return where == LH_IN_FILE || where == LH_IN_CACHE;
}

typedef struct lh_tensor_state {
    lh_place place;
    lh_regular_file *file; /* while it is acquired, LH_IN_CACHE */
    lh_slice_file *slices; /* the same, LH_IN_SLICES, and while it is fetched */
    lh_block_set set;      /* of what is, or is to be, in slices */
} lh_tensor_state;

struct lh_weights {
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    lh_weight_fetch *fetch;
    const _Atomic bool *cancelled;
    char *weights_text, *tensors_text, *blocks_text, *pieces_text; /* of the URLs */
    lh_weight_url weights_url, tensors_url, blocks_url, pieces_url;
    char *fleet_url;
    uint64_t file_bytes, header_bytes;
    bool is_provision; /* what is fetched may never be needed: it leaves half of the free disk */
    uint8_t header_digest[LH_SHA256_BYTES];
    lh_gguf_file *local; /* the whole model; NULL: none */
    uint8_t *header;     /* [header_bytes], where there is no local file; `parsed` points into it */
    lh_gguf *parsed;
    const lh_gguf *gguf;       /* parsed, or the local file's */
    lh_tensor_digest *digests; /* [tensors of gguf] */
    lh_block_list blocks;
    uint64_t *first_blocks;   /* [tensors of gguf]: how many blocks those before each have */
    lh_tensor_state *tensors; /* [tensors of gguf] */
    _Atomic uint64_t fetched_bytes;
};

/* Of a tensor of its gguf. */
size_t lh_weights_index_of(const lh_weights *weights, const lh_gguf_tensor *tensor);
/* on_bytes of lh_weight_download_events, whose context the weights are. */
void lh_weights_count_bytes(void *weights, int64_t bytes);
