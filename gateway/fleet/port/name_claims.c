/* A list of names, at most as many as there are workers. */
#include "gateway/fleet/port/name_claims.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t index_of(const lh_name_claims *claims, const char *name) {
    uint32_t i = 0;
    while (i < claims->count && strcmp(claims->held[i].claim.name, name) != 0)
        i++;
    return i;
}

static lh_held_name *find(lh_name_claims *claims, const char *name) {
    uint32_t i = index_of(claims, name);
    return i < claims->count ? &claims->held[i] : NULL;
}

static void drop_expired(lh_name_claims *claims, int64_t now_us) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->held[i].lease_until_us > now_us)
            claims->held[kept++] = claims->held[i];
    claims->count = kept;
}

/* ---- Whether the one before is gone ---- */

static size_t host_bytes(const char *peer) {
    const char *colon = strrchr(peer, ':');
    return colon ? (size_t)(colon - peer) : strlen(peer);
}

static bool is_host_of(const lh_name_claim *claim, const char *peer) {
    size_t length = host_bytes(peer);
    return host_bytes(claim->peer) == length && memcmp(claim->peer, peer, length) == 0;
}

static bool is_same_host(const lh_name_claim *a, const lh_name_claim *b) {
    return is_host_of(a, b->peer);
}

/* No two processes listen at one address. */
static bool takes_its_place(const lh_name_claim *newcomer, const lh_name_claim *before) {
    return newcomer->address[0] && strcmp(newcomer->address, before->address) == 0 &&
           is_same_host(newcomer, before);
}

static bool is_gone(const lh_name_claims *claims, const lh_held_name *held,
                    const lh_name_claim *newcomer, int64_t now_us) {
    if (held->claim.has_tls)
        return !claims->has_connection(claims->context, held->claim.connection);
    return now_us >= held->due_us || takes_its_place(newcomer, &held->claim);
}

/* ---- Claims ---- */

static lh_status refuse(lh_held_name *held, const lh_name_claim *claim, bool *is_news,
                        lh_error *error) {
    *is_news = held->told_instance != claim->instance;
    held->told_instance = claim->instance;
    return lh_fail(error, LH_ERR_EXISTS,
                   "a worker named %s is serving from %s (instance %016" PRIx64
                   "); give this one (instance %016" PRIx64 ") another --name",
                   claim->name, held->claim.peer, held->claim.instance, claim->instance);
}

static lh_status check_room(const lh_name_claims *claims, const lh_name_claim *claim,
                            lh_error *error) {
    char owner[LH_ADDRESS_TEXT_BYTES];
    uint32_t of_owner = 0;
    lh_address_render_owner(claim->peer, owner);
    for (uint32_t i = 0; i < claims->count; i++)
        of_owner += strcmp(claims->held[i].owner, owner) == 0;
    if (!claim->has_tls && of_owner >= LH_NAMES_PER_ADDRESS)
        return lh_fail(error, LH_ERR_LIMIT,
                       "%u workers report from %s in the clear, which is the limit", of_owner,
                       owner);
    if (claims->count == LH_WORKERS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u workers report already: no room for %s",
                       claims->count, claim->name);
    return LH_OK;
}

lh_status lh_name_claims_check(lh_name_claims *claims, const lh_name_claim *claim, int64_t now_us,
                               bool *is_news, lh_error *error) {
    drop_expired(claims, now_us);
    *is_news = false;
    lh_held_name *held = find(claims, claim->name);
    if (!held)
        return check_room(claims, claim, error);
    if (held->claim.instance == claim->instance || is_gone(claims, held, claim, now_us))
        return LH_OK;
    return refuse(held, claim, is_news, error);
}

lh_name_place lh_name_claims_place(const lh_name_claims *claims, const char *name, const char *peer,
                                   int64_t now_us) {
    uint32_t i = index_of(claims, name);
    if (i == claims->count || claims->held[i].lease_until_us <= now_us)
        return LH_NAME_NOWHERE;
    return is_host_of(&claims->held[i].claim, peer) ? LH_NAME_HERE : LH_NAME_ELSEWHERE;
}

void lh_name_claims_hold(lh_name_claims *claims, const lh_name_claim *claim, int64_t renew_us,
                         int64_t lease_us, int64_t now_us) {
    lh_held_name *held = find(claims, claim->name);
    if (!held) {
        assert(claims->count < LH_WORKERS_MAX);
        held = &claims->held[claims->count++];
        held->told_instance = 0;
    }
    held->claim = *claim;
    lh_address_render_owner(claim->peer, held->owner);
    held->due_us = now_us + 2 * renew_us;
    held->lease_until_us = now_us + lease_us;
}
