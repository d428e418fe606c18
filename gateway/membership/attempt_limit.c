/* A table of minutes. */
#include "gateway/membership/attempt_limit.h"

#define ATTEMPTS_MAX 10
#define MINUTE_US    INT64_C(60000000)

static bool is_of(const lh_attempt_limit_entry *entry, uint64_t address) {
    return entry->count > 0 && entry->address == address;
}

bool lh_attempt_limit_allows(const lh_attempt_limit *limit, uint64_t address, int64_t now_us) {
    for (size_t i = 0; i < LH_ATTEMPT_LIMIT_ADDRESSES; i++) {
        const lh_attempt_limit_entry *entry = &limit->entries[i];
        if (is_of(entry, address))
            return entry->count < ATTEMPTS_MAX || now_us - entry->since_us >= MINUTE_US;
    }
    return true;
}

/* Its own entry, a free one, or that of the one who began to try the longest ago. */
static lh_attempt_limit_entry *entry_for(lh_attempt_limit *limit, uint64_t address) {
    lh_attempt_limit_entry *oldest = &limit->entries[0];
    for (size_t i = 0; i < LH_ATTEMPT_LIMIT_ADDRESSES; i++) {
        lh_attempt_limit_entry *entry = &limit->entries[i];
        if (is_of(entry, address))
            return entry;
        if (oldest->count > 0 && (entry->count == 0 || entry->since_us < oldest->since_us))
            oldest = entry;
    }
    return oldest;
}

void lh_attempt_limit_note(lh_attempt_limit *limit, uint64_t address, int64_t now_us) {
    lh_attempt_limit_entry *entry = entry_for(limit, address);
    if (!is_of(entry, address) || now_us - entry->since_us >= MINUTE_US)
        *entry = (lh_attempt_limit_entry){.address = address, .since_us = now_us};
    entry->count++;
}
