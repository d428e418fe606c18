/* A growing array of token ids. */
#include "gateway/text/tokens.h"

#include <stdlib.h>

lh_status lh_tokens_push(lh_tokens *tokens, uint32_t id, lh_error *error) {
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity ? tokens->capacity * 2 : 64;
        uint32_t *ids =
            capacity > SIZE_MAX / sizeof *ids ? NULL : realloc(tokens->ids, capacity * sizeof *ids);
        if (!ids)
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu token ids", capacity);
        tokens->ids = ids;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->count++] = id;
    return LH_OK;
}
