/* What each tenant has had of the chain, and whose turn it is.
 *
 * Work is counted in tokens: the rows of a prompt that are computed, when its sequence is let in,
 * and each token that is drawn. The turn is that of the tenant that has had the least. So a tenant
 * that asks for little waits for nobody's queue, and one that asks for twenty times as much waits
 * for its own. Who comes again after a while has had less than those who were there; it may have
 * LH_SHARE_CREDIT tokens at once for that, but no more: nobody saves up a claim by staying away.
 * ("Virtual token counters": Sheng et al., Fairness in Serving Large Language Models, OSDI 2024,
 * with a bounded credit, so that a tenant's rare long prompt does not share the chain half and half
 * with a queue of others'.)
 *
 * Turns alone do not help who finds all places and pages taken by sequences that run for minutes.
 * So while others are about, the tenant that has most of what is taken leaves as much to them as
 * they have lately needed at once, and half as much again (lh_share_table_next); one place in eight
 * at least, half of all at most. A tenant is about for as long as it has sequences and
 * REMEMBERED_US after that (fair_share.c), and its count is kept for as long, so that it does not
 * come back as new. A tenant that is alone has everything.
 *
 * And who was alone may have taken it all, for long. So one that has waited LH_SHARE_PATIENCE_US
 * with nothing on the chain goes before those that have something, whatever the counts say; it gets
 * one place so, and what it is worth beyond that by its turns. Where no place becomes free, one is
 * made free (admission.c).
 *
 * Several chains have a table each, since places and turns are a chain's. But what a tenant has had
 * is counted over all of them, or one that keeps them all busy would have its share of each from
 * those who are on one: so tables may stand in a fairness group.
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

typedef struct lh_share lh_share;
struct lh_share {
    uint64_t tenant;
    uint64_t served;           /* tokens of work */
    uint64_t turn;             /* orders those that have had as much */
    uint32_t live;             /* sequences that are there */
    uint32_t places;           /* that they hold */
    uint32_t places_elsewhere; /* that the tenant holds on other chains */

    /* The waiting queue's (wait_queue.c). */
    lh_heap by_rank, by_age;
    /* sequences that were let in before the oldest one, since it was last let in itself */
    uint32_t passed_over;

    /* Of fair_share.c alone. */
    lh_share *next_in_bucket, *idle_before, *idle_after;
    int64_t idle_since_us;
    bool waits;
    bool starves; /* it waits, and holds no place anywhere: */
    int64_t starves_since_us;
    TAILQ_ENTRY(lh_share) starving;
    uint32_t others_peak; /* sequences of others that were there at once lately */
    int64_t peak_us;      /* when it was seen, or last lowered */
    lh_heap_node by_turn; /* among those that wait */
};

typedef struct lh_share_table lh_share_table;

/* The tables of chains whose tenants are the same. Zeroed: none; it must outlive them. */
typedef struct lh_fairness_group {
    LIST_HEAD(lh_share_tables, lh_share_table) tables;
} lh_fairness_group;

/* places: that all have together. sequences: that will be there at most, which sizes the table.
 * fairness group: to stand in; NULL: in none. */
lh_status lh_share_table_create(uint32_t places, uint32_t sequences, lh_fairness_group *group,
                                lh_share_table **table, lh_error *error);
/* NULL is allowed. */
void lh_share_table_destroy(lh_share_table *table);
/* Time goes on: tenants that have been away for long are forgotten. */
void lh_share_table_set_time(lh_share_table *table, int64_t now_us);

/* A sequence of the tenant comes: the share lives until as many have left. NULL: out of memory.
 * Pointers to it stay good. */
lh_share *lh_share_table_join(lh_share_table *table, uint64_t tenant);
void lh_share_table_leave(lh_share_table *table, lh_share *share);
void lh_share_table_charge(lh_share_table *table, lh_share *share, uint32_t tokens);
/* Whether sequences of it wait. */
void lh_share_table_set_waiting(lh_share_table *table, lh_share *share, bool waits);
/* Whose turn it is, of those that have sequences waiting and may have more of the chain; NULL:
 * nobody's. pages_free: the share of its pages that is free, 0 to 1. */
lh_share *lh_share_table_next(lh_share_table *table, double pages_free);
/* A sequence of it gets a place, or has had one. */
void lh_share_table_take(lh_share_table *table, lh_share *share);
void lh_share_table_give_back(lh_share_table *table, lh_share *share);

/* Whether it is a's turn before b's. */
bool lh_share_precedes(const lh_share *a, const lh_share *b);
/* Whether a is to give up a place or pages before b: of those that have the most places, the one
 * whose turn is the last. */
bool lh_share_yields_before(const lh_share *a, const lh_share *b);
/* Whether it has waited for LH_SHARE_PATIENCE_US with nothing on any chain. */
bool lh_share_is_starved(const lh_share_table *table, const lh_share *share);
/* Whether it has most of the places that are taken while others are about. */
bool lh_share_crowds(const lh_share_table *table, const lh_share *share);
