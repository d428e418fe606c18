/* Which tokens may come next: a bit for each token of the vocabulary. Read-only once made: any
 * thread. */
#pragma once

#include <stdint.h>

typedef struct lh_mask {
    uint64_t id;           /* XXH3-64 of the words, seeded with `vocabulary`: equal masks have
                              equal ids, whoever made them */
    uint32_t vocabulary;   /* tokens */
    uint32_t allowed;      /* how many bits are set, > 0 */
    const uint64_t *words; /* [(vocabulary + 63) / 64]: token t is bit t % 64 of words[t / 64];
                              bits from `vocabulary` on are 0 */
} lh_mask;

/* Keeps a mask beyond what its giver promises; each acquire wants a release, from any thread. */
const lh_mask *lh_mask_acquire(const lh_mask *mask);
/* NULL is allowed. */
void lh_mask_release(const lh_mask *mask);
