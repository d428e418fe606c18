/* The document behind tensors_url (common/protocol/CONTROL.md): a digest for each tensor. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_tensor_digest {
    bool present;
    uint8_t sha256[LH_SHA256_BYTES];
} lh_tensor_digest;

/* The most that such a document may have for this model. */
size_t lh_weight_digests_limit(const lh_gguf *gguf);
/* Fills digests[tensors of gguf] in the file's order from JSON text[length]; those that the
 * document lacks are not present, names that the model lacks are passed over. LH_ERR_MALFORMED,
 * LH_ERR_NO_MEMORY. */
lh_status lh_weight_digests_parse(const char *text, size_t length, const lh_gguf *gguf,
                                  lh_tensor_digest *digests, lh_error *error);
