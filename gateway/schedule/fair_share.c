/* Tenants by their ids, and by what they have had. */
#include "gateway/schedule/fair_share.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stdlib.h>

/* Long enough for people who read an answer and ask again. */
#define REMEMBERED_US 30000000
/* However many tenants come and go. */
#define REMEMBERED_MAX 4096u
/* One place in so many is kept for those who come. */
#define KEPT_SHARE 8u
/* After so long without it, what others needed at once counts as one less. */
#define PEAK_HELD_US 10000000

LIST_HEAD(lh_share_bucket, lh_share);
TAILQ_HEAD(lh_share_queue, lh_share);

struct lh_share_table {
    uint32_t places, taken, live;
    int64_t now_us;
    uint64_t turns, most;            /* most: tokens that the tenant with the most has had */
    struct lh_share_bucket *buckets; /* [bucket_count], a power of two */
    uint32_t bucket_count, count, idle_count;
    lh_heap waiting;
    struct lh_share_queue idle, starving; /* the longest first */
    lh_fairness_group *group;             /* NULL: the table stands alone */
    LIST_ENTRY(lh_share_table) beside;
};

/* ---- Order ---- */

bool lh_share_precedes(const lh_share *a, const lh_share *b) {
    return a->served != b->served ? a->served < b->served : a->turn < b->turn;
}

static bool is_sooner(const lh_heap_node *a, const lh_heap_node *b) {
    return lh_share_precedes(LH_HEAP_RECORD(a, lh_share, by_turn),
                             LH_HEAP_RECORD(b, lh_share, by_turn));
}

/* Of those that have sequences waiting; NULL: none has. */
static lh_share *first_in_turn(const lh_share_table *table) {
    lh_heap_node *first = table->waiting.root;
    return first ? LH_HEAP_RECORD(first, lh_share, by_turn) : NULL;
}

bool lh_share_yields_before(const lh_share *a, const lh_share *b) {
    return a->places != b->places ? a->places > b->places : lh_share_precedes(b, a);
}

/* ---- Life ---- */

lh_status lh_share_table_create(uint32_t places, uint32_t sequences, lh_fairness_group *group,
                                lh_share_table **table, lh_error *error) {
    uint32_t bucket_count = 64;
    while (bucket_count < sequences)
        bucket_count *= 2;
    lh_share_table *t = calloc(1, sizeof *t);
    struct lh_share_bucket *buckets = calloc(bucket_count, sizeof *buckets);
    if (!t || !buckets) {
        free(t);
        free(buckets);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the shares of %u sequences",
                       sequences);
    }
    *t = (lh_share_table){.places = places,
                          .waiting.precedes = is_sooner,
                          .buckets = buckets,
                          .bucket_count = bucket_count,
                          .group = group};
    TAILQ_INIT(&t->idle);
    TAILQ_INIT(&t->starving);
    if (group)
        LIST_INSERT_HEAD(&group->tables, t, beside);
    *table = t;
    return LH_OK;
}

static void forget(lh_share *share) {
    share->table->count--;
    LIST_REMOVE(share, in_bucket);
    free(share);
}

void lh_share_table_destroy(lh_share_table *table) {
    if (!table)
        return;
    if (table->group)
        LIST_REMOVE(table, beside);
    for (uint32_t i = 0; i < table->bucket_count; i++)
        while (!LIST_EMPTY(&table->buckets[i]))
            forget(LIST_FIRST(&table->buckets[i]));
    free(table->buckets);
    free(table);
}

static struct lh_share_bucket *bucket_of(const lh_share_table *table, uint64_t tenant) {
    return &table->buckets[(tenant * 0x9e3779b97f4a7c15u >> 32) & (table->bucket_count - 1)];
}

static lh_share *find(const lh_share_table *table, uint64_t tenant) {
    lh_share *share;
    LIST_FOREACH(share, bucket_of(table, tenant), in_bucket)
    if (share->tenant == tenant)
        break;
    return share;
}

/* ---- On other chains ---- */

/* Walks what the tenant has on other chains: NULL starts, NULL ends. */
static lh_share *next_elsewhere(const lh_share *share, const lh_share *at) {
    const lh_fairness_group *group = share->table->group;
    lh_share_table *table = group ? LIST_FIRST(&group->tables) : NULL;
    if (at)
        table = LIST_NEXT(at->table, beside);
    for (lh_share *its; table; table = LIST_NEXT(table, beside))
        if (table != share->table && (its = find(table, share->tenant)))
            return its;
    return NULL;
}

static bool waits_anywhere(const lh_share *share) {
    bool waits = share->waits;
    for (lh_share *its = NULL; !waits && (its = next_elsewhere(share, its));)
        waits = its->waits;
    return waits;
}

static void set_served_here(lh_share *share, uint64_t served) {
    lh_share_table *table = share->table;
    if (share->waits)
        lh_heap_remove(&table->waiting, &share->by_turn);
    share->served = served;
    share->turn = ++table->turns;
    table->most = served > table->most ? served : table->most;
    if (share->waits)
        lh_heap_push(&table->waiting, &share->by_turn);
}

/* Wherever the tenant is known. */
static void set_served(lh_share *share, uint64_t served) {
    set_served_here(share, served);
    for (lh_share *its = NULL; (its = next_elsewhere(share, its));)
        set_served_here(its, served);
}

void lh_share_charge(lh_share *share, uint32_t tokens) {
    set_served(share, share->served + tokens);
}

/* ---- Coming and going ---- */

static void leave_idle(lh_share *share) {
    assert(share->table->idle_count > 0 && share->live == 0);
    TAILQ_REMOVE(&share->table->idle, share, in_queue);
    share->table->idle_count--;
}

static void forget_longest_idle(lh_share_table *table) {
    lh_share *share = TAILQ_FIRST(&table->idle);
    leave_idle(share);
    forget(share);
}

void lh_share_table_set_time(lh_share_table *table, int64_t now_us) {
    table->now_us = now_us;
    while (!TAILQ_EMPTY(&table->idle) &&
           now_us - TAILQ_FIRST(&table->idle)->idle_since_us >= REMEMBERED_US)
        forget_longest_idle(table);
}

/* It begins with what its tenant has elsewhere. */
static lh_share *make(lh_share_table *table, uint64_t tenant) {
    lh_share *share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    share->table = table;
    share->tenant = tenant;
    share->turn = ++table->turns;
    for (const lh_share *its = NULL; (its = next_elsewhere(share, its));) {
        share->served = its->served;
        share->places_elsewhere += its->places;
    }
    LIST_INSERT_HEAD(bucket_of(table, tenant), share, in_bucket);
    table->count++;
    return share;
}

lh_share *lh_share_table_join(lh_share_table *table, uint64_t tenant) {
    lh_share *share = find(table, tenant);
    if (share && share->live == 0)
        leave_idle(share);
    else if (!share && !(share = make(table, tenant)))
        return NULL;
    /* What those have had that are kept waiting; where nobody is, all are even. One that is kept
     * waiting itself has its claim from that. */
    const lh_share *first = first_in_turn(table);
    uint64_t level = first ? first->served : table->most;
    if (share->served + LH_SHARE_CREDIT < level && !waits_anywhere(share))
        set_served(share, level - LH_SHARE_CREDIT);
    share->live++;
    table->live++;
    return share;
}

void lh_share_leave(lh_share *share) {
    lh_share_table *table = share->table;
    assert(share->live > 0);
    assert(table->live >= share->live);
    table->live--;
    if (--share->live > 0)
        return;
    assert(!share->waits && share->places == 0);
    share->idle_since_us = table->now_us;
    TAILQ_INSERT_TAIL(&table->idle, share, in_queue);
    if (++table->idle_count > REMEMBERED_MAX)
        forget_longest_idle(table);
}

/* ---- Starving ---- */

/* After it has begun or ceased to wait, or places have changed, also elsewhere. */
static void watch_starving(lh_share *share) {
    struct lh_share_queue *starving = &share->table->starving;
    bool starves = share->waits && share->places + share->places_elsewhere == 0;
    if (starves == share->starves)
        return;
    share->starves = starves;
    if (!starves) {
        TAILQ_REMOVE(starving, share, in_queue);
        return;
    }
    share->starves_since_us = share->table->now_us;
    TAILQ_INSERT_TAIL(starving, share, in_queue);
}

bool lh_share_is_starved(const lh_share *share) {
    return share->starves && share->table->now_us - share->starves_since_us >= LH_SHARE_PATIENCE_US;
}

/* ---- Turns ---- */

void lh_share_set_waiting(lh_share *share, bool waits) {
    if (share->waits == waits)
        return;
    share->waits = waits;
    if (waits)
        lh_heap_push(&share->table->waiting, &share->by_turn);
    else
        lh_heap_remove(&share->table->waiting, &share->by_turn);
    watch_starving(share);
}

static void watch_others(lh_share *share) {
    int64_t now_us = share->table->now_us;
    uint32_t others = share->table->live - share->live;
    if (others >= share->others_peak) {
        share->others_peak = others;
        share->peak_us = now_us;
    } else if (now_us - share->peak_us >= PEAK_HELD_US) {
        share->others_peak--;
        share->peak_us = now_us;
    }
}

/* Places that it leaves to others: what they have needed at once, and half as much again, since
 * they may all come at the same moment. */
static uint32_t places_kept(const lh_share *share) {
    uint32_t places = share->table->places, peak = share->others_peak;
    uint32_t least = (places + KEPT_SHARE - 1) / KEPT_SHARE;
    return lh_min_u32(lh_max_u32(peak + peak / 2 + 1, least), places / 2);
}

bool lh_share_crowds(const lh_share *share) {
    return share->table->count > 1 && 2 * share->places > share->table->taken;
}

/* Whether it must leave the rest of what there is to the others. */
static bool is_full(lh_share *share, double pages_free) {
    watch_others(share);
    uint32_t places = share->table->places, kept = places_kept(share);
    return lh_share_crowds(share) && (share->places >= places - kept || pages_free * places < kept);
}

/* One at most is full: it has most of what is taken. */
static lh_share *next_by_turn(lh_share_table *table, double pages_free) {
    lh_share *first = first_in_turn(table);
    if (!first || !is_full(first, pages_free))
        return first;
    lh_heap_remove(&table->waiting, &first->by_turn);
    lh_share *second = first_in_turn(table);
    lh_heap_push(&table->waiting, &first->by_turn);
    return second;
}

lh_share *lh_share_table_next(lh_share_table *table, double pages_free) {
    lh_share *next = next_by_turn(table, pages_free), *starving = TAILQ_FIRST(&table->starving);
    bool has_something = next && next->places + next->places_elsewhere > 0;
    return has_something && starving && lh_share_is_starved(starving) ? starving : next;
}

/* It has one more place here, or one fewer. */
static void change_places(lh_share *share, bool has_more) {
    share->places += has_more ? 1u : -1u;
    share->table->taken += has_more ? 1u : -1u;
    watch_starving(share);
    for (lh_share *its = NULL; (its = next_elsewhere(share, its));) {
        assert(has_more || its->places_elsewhere > 0);
        its->places_elsewhere += has_more ? 1u : -1u;
        watch_starving(its);
    }
}

void lh_share_take(lh_share *share) {
    change_places(share, true);
}

void lh_share_give_back(lh_share *share) {
    assert(share->places > 0 && share->table->taken >= share->places);
    change_places(share, false);
}
