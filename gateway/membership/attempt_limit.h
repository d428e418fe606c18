/* How often somebody may try something, as an address may show a wrong secret: a few times in a
 * minute, then it has to wait for the rest of it. They come and go; the table keeps those that have
 * tried last. No clock. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_ATTEMPT_LIMIT_ADDRESSES 64u

typedef struct lh_attempt_limit_entry {
    uint64_t address; /* lh_address_key, or another number for whoever tries */
    int64_t since_us; /* of the first attempt of the minute */
    uint32_t count;   /* 0: free */
} lh_attempt_limit_entry;

/* Nobody has tried: {0}. */
typedef struct lh_attempt_limit {
    lh_attempt_limit_entry entries[LH_ATTEMPT_LIMIT_ADDRESSES];
} lh_attempt_limit;

/* Whether it may try now. */
bool lh_attempt_limit_allows(const lh_attempt_limit *limit, uint64_t address, int64_t now_us);
/* It has tried. */
void lh_attempt_limit_note(lh_attempt_limit *limit, uint64_t address, int64_t now_us);
