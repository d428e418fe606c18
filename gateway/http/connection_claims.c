/* An array that is walked once for each connection that is shed: 4,096 claims take a few
 * microseconds, less than the system's call that accepts a connection. */
#include "gateway/http/connection_claims.h"

#include <assert.h>
#include <stdlib.h>

/* Parts of all places. Each of the library's threads has a share of them, and accepts no connection
 * when its own is full, so a few always stay free. */
#define SCARCE_PART  8u  /* from here on those go who have waited for a second */
#define LAST_PART    16u /* from here on anybody who waits */
#define UNKNOWN_PART 8u  /* that those without a key have for themselves */
#define KNOWN_PART   2u  /* that those with a key have */

#define GRACE_US 1000000

#define NOBODY UINT32_MAX

lh_status lh_connection_claims_init(lh_connection_claims *claims, uint32_t most,
                                    uint32_t per_address_max, lh_error *error) {
    *claims = (lh_connection_claims){.list = calloc(most, sizeof *claims->list),
                                     .most = most,
                                     .per_address_max = per_address_max};
    if (!claims->list)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u connections", most);
    /* an address and a client for each */
    lh_status status = lh_holdings_init(&claims->owners, 2 * most, error);
    if (status) {
        free(claims->list);
        claims->list = NULL;
    }
    return status;
}

void lh_connection_claims_reset(lh_connection_claims *claims) {
    assert(claims->count == 0);
    lh_holdings_reset(&claims->owners);
    free(claims->list);
}

uint32_t lh_connection_claims_add(lh_connection_claims *claims, uint64_t address, void *connection,
                                  int64_t now_us) {
    bool is_full = claims->per_address_max &&
                   lh_holdings_of(&claims->owners, address) >= claims->per_address_max;
    if (is_full || claims->count == claims->most)
        return NOBODY;
    lh_holdings_add(&claims->owners, address, 1);
    claims->list[claims->count] = (lh_connection_claim){.address = address,
                                                        .wait = LH_HTTP_WAITS_TO_SEND,
                                                        .since_us = now_us,
                                                        .connection = connection};
    return claims->count++;
}

/* It counts no more for its owners. */
static void release(lh_connection_claims *claims, const lh_connection_claim *claim) {
    lh_holdings_take(&claims->owners, claim->address, 1);
    if (claim->client)
        lh_holdings_take(&claims->owners, claim->client, 1);
    claims->known -= claim->client != 0;
}

void lh_connection_claims_remove(lh_connection_claims *claims, uint32_t index) {
    assert(index < claims->count);
    const lh_connection_claim *claim = &claims->list[index];
    if (claim->is_going)
        claims->going--;
    else
        release(claims, claim);
    claims->answered -= claim->wait == LH_HTTP_WAITS_NOT;
    claims->list[index] = claims->list[--claims->count];
}

void lh_connection_claims_wait(lh_connection_claims *claims, uint32_t index, lh_http_wait wait,
                               int64_t now_us) {
    assert(index < claims->count);
    claims->answered -= claims->list[index].wait == LH_HTTP_WAITS_NOT;
    claims->answered += wait == LH_HTTP_WAITS_NOT;
    claims->list[index].wait = wait;
    claims->list[index].since_us = now_us;
}

void lh_connection_claims_know(lh_connection_claims *claims, uint32_t index, uint64_t client) {
    assert(index < claims->count && client);
    lh_connection_claim *claim = &claims->list[index];
    if (claim->is_going)
        return;
    if (claim->client)
        lh_holdings_take(&claims->owners, claim->client, 1);
    else
        claims->known++;
    claim->client = client;
    lh_holdings_add(&claims->owners, client, 1);
}

static uint64_t owner_of(const lh_connection_claim *claim) {
    return claim->client ? claim->client : claim->address;
}

uint32_t lh_connection_claims_answered(const lh_connection_claims *claims, uint32_t index) {
    assert(index < claims->count);
    uint64_t owner = owner_of(&claims->list[index]);
    uint32_t answered = 0;
    for (uint32_t i = 0; i < claims->count; i++) {
        const lh_connection_claim *claim = &claims->list[i];
        answered += claim->wait == LH_HTTP_WAITS_NOT && owner_of(claim) == owner;
    }
    return answered;
}

/* ---- Who goes ---- */

/* What decides, in this order. */
typedef struct rank {
    bool is_kept, is_fresh;
    lh_http_wait wait;
    uint64_t owned; /* connections of its owner */
    int64_t since_us;
} rank;

static uint32_t staying(const lh_connection_claims *claims) {
    return claims->count - claims->going;
}

/* Whether its group has no more places than are kept for it. */
static bool is_kept(const lh_connection_claims *claims, const lh_connection_claim *claim) {
    return claim->client ? claims->known <= claims->most / KNOWN_PART
                         : staying(claims) - claims->known <= claims->most / UNKNOWN_PART;
}

static rank rank_of(const lh_connection_claims *claims, const lh_connection_claim *claim,
                    int64_t now_us) {
    return (rank){.is_kept = is_kept(claims, claim),
                  .is_fresh = now_us - claim->since_us < GRACE_US,
                  .wait = claim->wait,
                  .owned = lh_holdings_of(&claims->owners, owner_of(claim)),
                  .since_us = claim->since_us};
}

static bool goes_before(const rank *one, const rank *other) {
    if (one->is_kept != other->is_kept)
        return other->is_kept;
    if (one->is_fresh != other->is_fresh)
        return other->is_fresh;
    if (one->wait != other->wait)
        return one->wait > other->wait;
    if (one->owned != other->owned)
        return one->owned > other->owned;
    return one->since_us < other->since_us;
}

/* `spares`: those who are kept or fresh stay in any case. */
static lh_connection_claim *find_first(lh_connection_claims *claims, bool spares, int64_t now_us) {
    lh_connection_claim *first = NULL;
    rank first_rank = {0};
    for (uint32_t i = 0; i < claims->count; i++) {
        lh_connection_claim *claim = &claims->list[i];
        if (claim->wait == LH_HTTP_WAITS_NOT || claim->is_going)
            continue;
        rank own = rank_of(claims, claim, now_us);
        if ((spares && (own.is_kept || own.is_fresh)) || (first && !goes_before(&own, &first_rank)))
            continue;
        first = claim;
        first_rank = own;
    }
    return first;
}

uint32_t lh_connection_claims_shed(lh_connection_claims *claims, int64_t now_us) {
    uint32_t places = staying(claims);
    if (places <= claims->most - claims->most / SCARCE_PART)
        return NOBODY;
    bool spares = places <= claims->most - claims->most / LAST_PART;
    lh_connection_claim *first = find_first(claims, spares, now_us);
    if (!first)
        return NOBODY;
    release(claims, first);
    first->is_going = true;
    claims->going++;
    return (uint32_t)(first - claims->list);
}
