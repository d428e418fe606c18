/* A set of digests, or of what is as random as one: a table by their own first bytes. Thread: one
 * at a time. */
#pragma once

#include "common/base/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed is empty. */
typedef struct lh_digest_set {
    uint8_t (*places)[LH_SHA256_BYTES]; /* [capacity], a power of two; zeros: free */
    size_t count, capacity;
} lh_digest_set;

void lh_digest_set_reset(lh_digest_set *set);
/* One of zeros alone never is. */
bool lh_digest_set_has(const lh_digest_set *set, const uint8_t digest[LH_SHA256_BYTES]);
/* False: no memory, and nothing has changed. */
bool lh_digest_set_add(lh_digest_set *set, const uint8_t digest[LH_SHA256_BYTES]);
