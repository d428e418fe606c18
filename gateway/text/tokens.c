/* A growing array of token ids. */
#include "gateway/text/tokens.h"

#include "common/base/growing_array.h"

lh_status lh_tokens_push(lh_tokens *tokens, uint32_t id, lh_error *error) {
    if (!lh_growing_array_reserve(&tokens->ids, &tokens->capacity, tokens->count + 1,
                                  sizeof *tokens->ids))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu token ids", tokens->count + 1);
    tokens->ids[tokens->count++] = id;
    return LH_OK;
}
