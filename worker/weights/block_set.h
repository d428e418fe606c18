/* The blocks of one tensor (common/gguf/tensor_blocks.h): which are needed, which of those are
 * here, and the digest of each. Thread: one at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/gguf/tensor_blocks.h"
#include "worker/compute/tensor_source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_block_set {
    lh_tensor_blocks blocks;
    uint8_t (*digests)[LH_SHA256_BYTES]; /* [blocks.count], owned; the caller fills them */
    uint8_t *states;                     /* [blocks.count], owned: LH_BLOCK_*; NULL: not made */
    uint64_t missing;                    /* that are needed and not here, */
    uint64_t missing_bytes;              /* and what they have */
} lh_block_set;

#define LH_BLOCK_NEEDED 1u
#define LH_BLOCK_HERE   2u

/* None is needed, none here. LH_ERR_NO_MEMORY, and nothing is held. */
lh_status lh_block_set_init(lh_block_set *set, const lh_gguf_tensor *tensor, uint32_t rows,
                            lh_error *error);
void lh_block_set_reset(lh_block_set *set);

/* All that have a byte of it. */
void lh_block_set_need(lh_block_set *set, const lh_tensor_slice *slice);
/* Of block `number`, which is needed and not here. */
void lh_block_set_found(lh_block_set *set, uint64_t number);
/* None is here any more. */
void lh_block_set_lose(lh_block_set *set);
/* The first that is needed and not here, from `number` on; blocks.count: there is none. */
uint64_t lh_block_set_next_missing(const lh_block_set *set, uint64_t number);
/* Whether all of [offset, offset + bytes) is here; bytes > 0. */
bool lh_block_set_covers(const lh_block_set *set, uint64_t offset, uint64_t bytes);
