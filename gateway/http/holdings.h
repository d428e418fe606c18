/* How much each owner holds of something that all share, such as places or bytes. An owner is a
 * number that stands for a client or for an address. Memory is allocated once, so that nothing
 * fails later. Plain data without a lock; thread: the owner's. Private to gateway/http/. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_holding {
    uint64_t owner;
    uint64_t amount; /* 0: the slot is free */
} lh_holding;

typedef struct lh_holdings {
    lh_holding *slots;
    uint32_t slot_count; /* a power of two */
    uint32_t owners, owners_max;
} lh_holdings;

/* owners_max: that hold something at a time. LH_ERR_NO_MEMORY. */
lh_status lh_holdings_init(lh_holdings *holdings, uint32_t owners_max, lh_error *error);
void lh_holdings_reset(lh_holdings *holdings);

/* There are never more owners than owners_max, and nobody gives back more than he holds. */
void lh_holdings_add(lh_holdings *holdings, uint64_t owner, uint64_t amount);
void lh_holdings_take(lh_holdings *holdings, uint64_t owner, uint64_t amount);
uint64_t lh_holdings_of(const lh_holdings *holdings, uint64_t owner);
