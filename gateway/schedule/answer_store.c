/* One growing block of packed answers, which are found by where they begin: the block may move. */
#include "gateway/schedule/answer_store.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>

bool lh_answer_store_push(lh_answer_store *store, const lh_row_answer *answer, size_t *at) {
    size_t bytes = lh_row_answer_packed_bytes(answer);
    if (!lh_growing_array_reserve(&store->bytes, &store->capacity, store->used + bytes, 1))
        return false;
    *at = store->used;
    lh_row_answer_pack(answer, store->bytes + store->used);
    store->used += bytes;
    return true;
}

lh_row_answer lh_answer_store_get(const lh_answer_store *store, size_t at) {
    assert(at < store->used);
    return lh_row_answer_unpack(store->bytes + at);
}

void lh_answer_store_clear(lh_answer_store *store) {
    store->used = 0;
}

void lh_answer_store_reset(lh_answer_store *store) {
    free(store->bytes);
    *store = (lh_answer_store){0};
}
