/* Which tokens may come next: a bit for each token of the vocabulary. Read-only once made: any
 * thread. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

typedef struct lh_mask {
    uint64_t id;           /* XXH3-64 of the words, seeded with `vocabulary`: equal masks have equal
                              ids, whoever made them */
    uint32_t vocabulary;   /* tokens */
    uint32_t allowed;      /* how many bits are set */
    const uint64_t *words; /* [lh_mask_words(vocabulary)]: token t is bit t % 64 of words[t / 64];
                              bits from `vocabulary` on are 0 */
} lh_mask;

static inline uint32_t lh_mask_words(uint32_t vocabulary) {
    return vocabulary / 64 + (vocabulary % 64 > 0);
}

/* Copies the words. The caller holds a reference. LH_ERR_NO_MEMORY. */
lh_status lh_mask_create(const uint64_t *words, uint32_t vocabulary, const lh_mask **mask,
                         lh_error *error);
/* Keeps a mask beyond what its giver promises; each acquire wants a release, from any thread. */
const lh_mask *lh_mask_acquire(const lh_mask *mask);
/* NULL is allowed. */
void lh_mask_release(const lh_mask *mask);
