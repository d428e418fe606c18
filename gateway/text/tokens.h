/* A growing array of token ids. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_tokens {
    uint32_t *ids; /* the caller frees it with free() */
    size_t count, capacity;
} lh_tokens;

/* Appends ids[count], or one. LH_ERR_NO_MEMORY: the array is as it was. */
lh_status lh_tokens_append(lh_tokens *tokens, const uint32_t *ids, size_t count, lh_error *error);
lh_status lh_tokens_push(lh_tokens *tokens, uint32_t id, lh_error *error);
