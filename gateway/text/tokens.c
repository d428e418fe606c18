/* A growing array of token ids. */
#include "gateway/text/tokens.h"

#include "common/base/growing_array.h"

#include <string.h>

lh_status lh_tokens_append(lh_tokens *tokens, const uint32_t *ids, size_t count, lh_error *error) {
    if (!lh_growing_array_reserve(&tokens->ids, &tokens->capacity, tokens->count + count,
                                  sizeof *ids))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu token ids",
                       tokens->count + count);
    memcpy(tokens->ids + tokens->count, ids, count * sizeof *ids);
    tokens->count += count;
    return LH_OK;
}

lh_status lh_tokens_push(lh_tokens *tokens, uint32_t id, lh_error *error) {
    return lh_tokens_append(tokens, &id, 1, error);
}
