/* How much of the chain each tenant has had, and whose turn it is.
 *
 * Work is counted in tokens: the rows of a prompt that are to be computed, when its sequence is let
 * in, and each token that is sampled. The next turn goes to the tenant with the least. So a tenant
 * that asks for little does not wait behind the queue of another, and one that asks for twenty
 * times as much waits behind its own. A tenant that returns after a pause has a low count; it is
 * raised to within LH_SHARE_CREDIT tokens of the others', so that a claim does not grow while a
 * tenant is away. ("Virtual token counters": Sheng et al., Fairness in Serving Large Language
 * Models, OSDI 2024, with a bounded credit: a tenant's rare long prompt is not made to share the
 * chain half and half with the queue of another.)
 *
 * Turns are not enough where all places and pages are taken by sequences that run for minutes.
 * So while other tenants are known, the one that holds most of what is taken leaves as many places
 * free as the others have lately needed at once, and half as many again (lh_share_table_next): at
 * least one place in eight, at most half. A tenant is known while it has sequences and for
 * REMEMBERED_US after that (fair_share.c); its count is kept as long, so that it does not come back
 * as a new one. A tenant that is alone may have everything.
 *
 * It may then hold everything when others come. So a tenant that has waited for
 * LH_SHARE_PATIENCE_US without any place is served before those that have one, whatever the counts
 * say. It gets one place that way, and further ones by its turns. Where no place becomes free, one
 * is made free (admission.c).
 *
 * Each chain has a table of its own, since places and turns belong to a chain. But the tokens are
 * counted over all chains: else a tenant that keeps all of them busy would get a full share of each
 * beside tenants that are on one alone. Tables that count together stand in a fairness group.
 *
 * Thread: one at a time, for all tables of a fairness group. */
#pragma once

#include "common/base/status.h"
#include "gateway/schedule/pairing_heap.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A long prompt. */
#define LH_SHARE_CREDIT 4096u
/* Longer than most waits that end by themselves: to make a place free costs a replay. */
#define LH_SHARE_PATIENCE_US 1000000

typedef struct lh_share_table lh_share_table;

/* What one tenant has on one chain. */
typedef struct lh_share {
    lh_share_table *table;
    uint64_t tenant;
    uint64_t served;           /* tokens of work */
    uint64_t turn;             /* orders those that have had as much */
    uint32_t live;             /* its sequences, waiting or running */
    uint32_t places;           /* that they hold */
    uint32_t places_elsewhere; /* that the tenant holds on other chains */

    /* wait_queue.c */
    lh_heap by_rank, by_age;
    /* sequences that were let in before the oldest one, since it was last let in itself */
    uint32_t passed_over;

    /* fair_share.c alone */
    LIST_ENTRY(lh_share) in_bucket;
    bool waits;
    bool starves;         /* it waits, and holds no place anywhere */
    lh_heap_node by_turn; /* among those that wait */
    /* among those that starve, or among those without sequences, and since when */
    TAILQ_ENTRY(lh_share) in_queue;
    int64_t starves_since_us, idle_since_us;
    uint32_t others_peak; /* sequences of others that were there at once lately */
    int64_t peak_us;      /* when it was seen, or last lowered */
} lh_share;

/* The tables of chains whose tenants are the same. Zeroed: none; it must outlive them. */
typedef struct lh_fairness_group {
    LIST_HEAD(lh_share_tables, lh_share_table) tables;
} lh_fairness_group;

/* places: of the chain. sequences: that wait or run at most, which sizes the table. group: to stand
 * in; NULL: none. LH_ERR_NO_MEMORY. */
lh_status lh_share_table_create(uint32_t places, uint32_t sequences, lh_fairness_group *group,
                                lh_share_table **table, lh_error *error);
/* NULL is allowed. All shares are gone with it. */
void lh_share_table_destroy(lh_share_table *table);
/* Tenants that have been away for long are forgotten. */
void lh_share_table_set_time(lh_share_table *table, int64_t now_us);
/* Whose turn it is, of those that have sequences waiting and may have more of the chain; NULL:
 * nobody's. pages_free: the part of the chain's pages that is free, 0 to 1. */
lh_share *lh_share_table_next(lh_share_table *table, double pages_free);

/* A sequence of the tenant has come; the share is valid until as many have left. NULL: no memory.
 */
lh_share *lh_share_table_join(lh_share_table *table, uint64_t tenant);
void lh_share_leave(lh_share *share);
void lh_share_charge(lh_share *share, uint32_t tokens);
/* Whether sequences of it wait. */
void lh_share_set_waiting(lh_share *share, bool waits);
/* A sequence of it gets a place, or loses it. */
void lh_share_take(lh_share *share);
void lh_share_give_back(lh_share *share);

/* Whether a's turn is before b's. */
bool lh_share_precedes(const lh_share *a, const lh_share *b);
/* Whether a is to give up a place or pages before b: of those that have the most places, the one
 * whose turn is the last. */
bool lh_share_yields_before(const lh_share *a, const lh_share *b);
/* Whether it has waited for LH_SHARE_PATIENCE_US with nothing on any chain. */
bool lh_share_is_starved(const lh_share *share);
/* Whether it has most of the places that are taken while other tenants are known. */
bool lh_share_crowds(const lh_share *share);
