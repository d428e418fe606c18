/* The words lie behind the mask, and so does the count of those who hold it. */
#include "gateway/constrain/mask.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct counted_mask {
    lh_mask mask; /* first, so that its address is this one's */
    atomic_uint holders;
    uint64_t words[];
} counted_mask;

lh_status lh_mask_create(const uint64_t *words, uint32_t vocabulary, const lh_mask **mask,
                         lh_error *error) {
    size_t count = lh_mask_words(vocabulary), bytes = count * sizeof *words;
    counted_mask *made = malloc(sizeof *made + bytes);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a mask of %u tokens", vocabulary);
    atomic_init(&made->holders, 1);
    memcpy(made->words, words, bytes);
    made->mask = (lh_mask){.id = XXH3_64bits_withSeed(words, bytes, vocabulary),
                           .vocabulary = vocabulary,
                           .words = made->words};
    for (size_t i = 0; i < count; i++)
        made->mask.allowed += (uint32_t)__builtin_popcountll(words[i]);
    *mask = &made->mask;
    return LH_OK;
}

/* The mask is const to those who hold it, but not the count beside it. */
static counted_mask *counted(const lh_mask *mask) {
    return (counted_mask *)(uintptr_t)mask;
}

const lh_mask *lh_mask_acquire(const lh_mask *mask) {
    atomic_fetch_add(&counted(mask)->holders, 1);
    return mask;
}

void lh_mask_release(const lh_mask *mask) {
    if (!mask)
        return;
    unsigned before = atomic_fetch_sub(&counted(mask)->holders, 1);
    assert(before > 0);
    if (before == 1)
        free(counted(mask));
}
