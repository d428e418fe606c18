/* The document behind tensors_url (common/protocol/CONTROL.md): a digest for each tensor, and one
 * for the list of its blocks' digests (common/gguf/tensor_blocks.h), by which a part of it can be
 * checked. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_tensor_digest {
    bool present;
    uint8_t sha256[LH_SHA256_BYTES];
    bool has_blocks;
    uint8_t blocks_sha256[LH_SHA256_BYTES];
} lh_tensor_digest;

/* Where the digests of blocks are: one after the other, tensor by tensor in the file's order. */
typedef struct lh_block_list {
    uint32_t rows; /* of a block; 0: there are none, and tensors are fetched whole */
    char url[512];
    char pieces_url[512]; /* where pieces of the model file are files; "": nowhere */
} lh_block_list;

/* The most that such a document may have for this model. */
size_t lh_weight_digests_limit(const lh_gguf *gguf);
/* Fills digests[tensors of gguf] in the file's order from JSON text[length]; those that the
 * document lacks are not present, names that the model lacks are passed over. LH_ERR_MALFORMED,
 * LH_ERR_NO_MEMORY. */
lh_status lh_weight_digests_parse(const char *text, size_t length, const lh_gguf *gguf,
                                  lh_tensor_digest *digests, lh_block_list *blocks,
                                  lh_error *error);
