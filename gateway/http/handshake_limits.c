/* The generic cell rate algorithm (ITU-T I.371) for each address, in a table of small sets. */
#include "gateway/http/handshake_limits.h"

#include "common/base/arithmetic.h"

#include <stddef.h>

/* Of one address: so many at once, which take half a second and are more than a client's first
 * connections, and one more in each interval, which is a hundredth of a core. */
#define STOCK       512
#define INTERVAL_US 125000
/* A client that stays away for longer has its stock to come back with. */
#define FREE_US 600000000

static lh_handshake_address *set_of(lh_handshake_limits *limits, uint64_t address) {
    return limits->sets[(address * 0x9e3779b97f4a7c15u >> 32) % LH_HANDSHAKE_SETS];
}

/* NULL: nothing is known of it. */
static lh_handshake_address *find(lh_handshake_limits *limits, uint64_t address) {
    lh_handshake_address *set = set_of(limits, address);
    for (uint32_t i = 0; i < LH_HANDSHAKE_WAYS; i++)
        if (set[i].whole_us && set[i].address == address)
            return &set[i];
    return NULL;
}

/* In place of the one of whom there is least to know. */
static lh_handshake_address *add(lh_handshake_limits *limits, uint64_t address) {
    lh_handshake_address *set = set_of(limits, address), *least = set;
    for (uint32_t i = 1; i < LH_HANDSHAKE_WAYS; i++)
        if (lh_max_i64(set[i].whole_us, set[i].free_until_us) <
            lh_max_i64(least->whole_us, least->free_until_us))
            least = &set[i];
    *least = (lh_handshake_address){.address = address};
    return least;
}

bool lh_handshake_limits_begin(lh_handshake_limits *limits, uint64_t address, int64_t now_us) {
    lh_handshake_address *at = find(limits, address);
    if (!at)
        at = add(limits, address);
    if (now_us < at->free_until_us)
        return true;
    int64_t whole_us = lh_max_i64(at->whole_us, now_us) + INTERVAL_US;
    if (whole_us - now_us > (int64_t)STOCK * INTERVAL_US)
        return false;
    at->whole_us = whole_us;
    return true;
}

void lh_handshake_limits_complete(lh_handshake_limits *limits, uint64_t address, bool is_known,
                                  int64_t now_us) {
    lh_handshake_address *at = find(limits, address);
    if (!at)
        return;
    at->whole_us = lh_max_i64(at->whole_us - INTERVAL_US, 1);
    if (is_known)
        at->free_until_us = now_us + FREE_US;
}
