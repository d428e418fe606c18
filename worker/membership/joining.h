/* How a machine becomes a member of a fleet: with a token, once (common/protocol/JOINING.md).
 *
 *   key made, on the disk -> request over TLS that is pinned to the fleet's CA -> certificate
 *   checked -> set stored by one rename
 *
 * Whoever is killed in between asks again with the same token and the same key, which is the same
 * joining to the gateway. The secret leaves only once the peer has shown that it is the gateway of
 * the token's fleet. Thread: start-up; blocks for a minute at most. */
#pragma once

#include "worker/membership/membership_store.h"

typedef struct lh_joining_order {
    const char *gateway_url; /* "https://HOST:PORT" */
    const char *token;       /* "lh1...." */
    const char *name;        /* the worker's; "": the token's, else the machine's */
} lh_joining_order;

/* What lh_joining_run would say of the order itself, before anything is written or asked.
 * LH_ERR_INVALID. */
lh_status lh_joining_order_check(const lh_joining_order *order, lh_error *error);
/* Fills *membership, also where this folder has joined by the same token before, or by another one
 * of the same fleet and is still a member. Whatever goes
 * wrong is said in *error: what, where, and what to do. LH_ERR_INVALID: the order is wrong, or the
 * gateway refuses it for good; LH_ERR_PROTOCOL: whoever answered is not that gateway;
 * LH_ERR_UNAVAILABLE: nobody has answered, or not now; LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_joining_run(lh_membership_store *store, const lh_joining_order *order,
                         lh_own_membership *membership, lh_error *error);
