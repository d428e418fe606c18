/* Tenants by their ids, and by what they have had. */
#include "gateway/schedule/fair_share.h"

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

struct lh_share_table {
    uint32_t places, taken, live;
    int64_t now_us;
    uint64_t turns, most; /* most: that one has had */
    lh_share **buckets;   /* [bucket_count], a power of two */
    uint32_t bucket_count, count, idle_count;
    lh_share *longest_idle, *latest_idle;
    lh_heap waiting;
    TAILQ_HEAD(lh_share_queue, lh_share) starving; /* the longest first */
    lh_fairness_group *group;                      /* NULL: it stands alone */
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

bool lh_share_yields_before(const lh_share *a, const lh_share *b) {
    return a->places != b->places ? a->places > b->places : lh_share_precedes(b, a);
}

/* ---- Life ---- */

lh_status lh_share_table_create(uint32_t places, uint32_t sequences, lh_fairness_group *group,
                                lh_share_table **table, lh_error *error) {
    lh_share_table *t = calloc(1, sizeof *t);
    if (!t)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the tenants' shares");
    t->places = places;
    t->waiting.precedes = is_sooner;
    TAILQ_INIT(&t->starving);
    t->bucket_count = 64;
    while (t->bucket_count < sequences)
        t->bucket_count *= 2;
    t->buckets = calloc(t->bucket_count, sizeof(lh_share *));
    if (!t->buckets) {
        free(t);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the shares of %u sequences",
                       sequences);
    }
    t->group = group;
    if (group)
        LIST_INSERT_HEAD(&group->tables, t, beside);
    *table = t;
    return LH_OK;
}

void lh_share_table_destroy(lh_share_table *table) {
    if (!table)
        return;
    if (table->group)
        LIST_REMOVE(table, beside);
    for (uint32_t i = 0; i < table->bucket_count; i++)
        for (lh_share *share = table->buckets[i], *next; share; share = next) {
            next = share->next_in_bucket;
            free(share);
        }
    free(table->buckets);
    free(table);
}

static lh_share **bucket_of(lh_share_table *table, uint64_t tenant) {
    return &table->buckets[(tenant * 0x9e3779b97f4a7c15u >> 32) & (table->bucket_count - 1)];
}

static lh_share *find(lh_share_table *table, uint64_t tenant) {
    lh_share *share = *bucket_of(table, tenant);
    while (share && share->tenant != tenant)
        share = share->next_in_bucket;
    return share;
}

/* ---- On other chains ---- */

/* The tables beside this one: NULL starts, NULL ends. */
static lh_share_table *next_beside(const lh_share_table *table, const lh_share_table *at) {
    if (!table->group)
        return NULL;
    lh_share_table *next = at ? LIST_NEXT(at, beside) : LIST_FIRST(&table->group->tables);
    return next == table ? LIST_NEXT(next, beside) : next;
}

/* A new share begins with what its tenant has elsewhere. */
static void look_around(const lh_share_table *table, lh_share *share) {
    for (lh_share_table *other = NULL; (other = next_beside(table, other));) {
        const lh_share *its = find(other, share->tenant);
        if (!its)
            continue;
        share->served = its->served;
        share->places_elsewhere += its->places;
    }
}

static bool waits_anywhere(const lh_share_table *table, const lh_share *share) {
    bool waits = share->waits;
    for (lh_share_table *other = NULL; !waits && (other = next_beside(table, other));) {
        const lh_share *its = find(other, share->tenant);
        waits = its && its->waits;
    }
    return waits;
}

static void set_served_here(lh_share_table *table, lh_share *share, uint64_t served) {
    if (share->waits)
        lh_heap_remove(&table->waiting, &share->by_turn);
    share->served = served;
    share->turn = ++table->turns;
    table->most = served > table->most ? served : table->most;
    if (share->waits)
        lh_heap_push(&table->waiting, &share->by_turn);
}

/* Wherever the tenant is known. */
static void set_served(lh_share_table *table, lh_share *share, uint64_t served) {
    set_served_here(table, share, served);
    for (lh_share_table *other = NULL; (other = next_beside(table, other));) {
        lh_share *its = find(other, share->tenant);
        if (its)
            set_served_here(other, its, served);
    }
}

/* ---- Those that are away ---- */

static void leave_idle(lh_share_table *table, lh_share *share) {
    assert(table->idle_count > 0 && share->live == 0);
    *(share->idle_before ? &share->idle_before->idle_after : &table->longest_idle) =
        share->idle_after;
    *(share->idle_after ? &share->idle_after->idle_before : &table->latest_idle) =
        share->idle_before;
    share->idle_before = share->idle_after = NULL;
    table->idle_count--;
}

static void join_idle(lh_share_table *table, lh_share *share) {
    share->idle_since_us = table->now_us;
    share->idle_before = table->latest_idle;
    *(table->latest_idle ? &table->latest_idle->idle_after : &table->longest_idle) = share;
    table->latest_idle = share;
    table->idle_count++;
}

static void forget_longest_idle(lh_share_table *table) {
    lh_share *share = table->longest_idle, **link = bucket_of(table, share->tenant);
    leave_idle(table, share);
    while (*link != share)
        link = &(*link)->next_in_bucket;
    *link = share->next_in_bucket;
    table->count--;
    free(share);
}

void lh_share_table_set_time(lh_share_table *table, int64_t now_us) {
    table->now_us = now_us;
    while (table->longest_idle && now_us - table->longest_idle->idle_since_us >= REMEMBERED_US)
        forget_longest_idle(table);
}

/* ---- Coming and going ---- */

static lh_share *make(lh_share_table *table, uint64_t tenant) {
    lh_share *share = calloc(1, sizeof *share), **bucket = bucket_of(table, tenant);
    if (!share)
        return NULL;
    share->tenant = tenant;
    look_around(table, share);
    share->next_in_bucket = *bucket;
    *bucket = share;
    table->count++;
    return share;
}

/* What those have had that are kept waiting; where nobody is, all are even. */
static uint64_t common_level(const lh_share_table *table) {
    const lh_heap_node *first = table->waiting.root;
    return first ? LH_HEAP_RECORD(first, lh_share, by_turn)->served : table->most;
}

/* One that is kept waiting itself has its claim from that. */
static void bound_credit(lh_share_table *table, lh_share *share) {
    uint64_t level = common_level(table);
    if (share->served + LH_SHARE_CREDIT < level && !waits_anywhere(table, share))
        set_served(table, share, level - LH_SHARE_CREDIT);
}

lh_share *lh_share_table_join(lh_share_table *table, uint64_t tenant) {
    lh_share *share = find(table, tenant);
    if (!share && !(share = make(table, tenant)))
        return NULL;
    if (share->live == 0 && share->turn > 0)
        leave_idle(table, share);
    if (share->turn == 0)
        share->turn = ++table->turns;
    bound_credit(table, share);
    share->live++;
    table->live++;
    return share;
}

void lh_share_table_leave(lh_share_table *table, lh_share *share) {
    assert(share->live > 0);
    assert(table->live >= share->live);
    table->live--;
    if (--share->live > 0)
        return;
    assert(!share->waits && share->places == 0);
    join_idle(table, share);
    if (table->idle_count > REMEMBERED_MAX)
        forget_longest_idle(table);
}

void lh_share_table_charge(lh_share_table *table, lh_share *share, uint32_t tokens) {
    set_served(table, share, share->served + tokens);
}

/* ---- Starving ---- */

/* After it has begun or ceased to wait, or places have changed, also elsewhere. */
static void watch_starving(lh_share_table *table, lh_share *share) {
    bool starves = share->waits && share->places + share->places_elsewhere == 0;
    if (starves == share->starves)
        return;
    share->starves = starves;
    if (!starves) {
        TAILQ_REMOVE(&table->starving, share, starving);
        return;
    }
    share->starves_since_us = table->now_us;
    TAILQ_INSERT_TAIL(&table->starving, share, starving);
}

bool lh_share_is_starved(const lh_share_table *table, const lh_share *share) {
    return share->starves && table->now_us - share->starves_since_us >= LH_SHARE_PATIENCE_US;
}

/* ---- Turns ---- */

void lh_share_table_set_waiting(lh_share_table *table, lh_share *share, bool waits) {
    if (share->waits == waits)
        return;
    share->waits = waits;
    if (waits)
        lh_heap_push(&table->waiting, &share->by_turn);
    else
        lh_heap_remove(&table->waiting, &share->by_turn);
    watch_starving(table, share);
}

static void watch_others(const lh_share_table *table, lh_share *share) {
    uint32_t others = table->live - share->live;
    if (others >= share->others_peak) {
        share->others_peak = others;
        share->peak_us = table->now_us;
    } else if (table->now_us - share->peak_us >= PEAK_HELD_US) {
        share->others_peak--;
        share->peak_us = table->now_us;
    }
}

/* Places that it leaves to others: what they have needed at once, and half as much again, since
 * they may all come at the same moment. */
static uint32_t places_kept(const lh_share_table *table, const lh_share *share) {
    uint64_t kept = (uint64_t)share->others_peak + share->others_peak / 2 + 1;
    uint32_t least = (table->places + KEPT_SHARE - 1) / KEPT_SHARE, most = table->places / 2;
    kept = kept > least ? kept : least;
    return kept < most ? (uint32_t)kept : most;
}

bool lh_share_crowds(const lh_share_table *table, const lh_share *share) {
    return table->count > 1 && 2 * share->places > table->taken;
}

/* Whether it must leave the rest of what there is to the others. */
static bool is_full(const lh_share_table *table, lh_share *share, double pages_free) {
    watch_others(table, share);
    uint32_t kept = places_kept(table, share);
    return lh_share_crowds(table, share) &&
           (share->places >= table->places - kept || pages_free * table->places < kept);
}

/* One at most is full: it has most of what is taken. */
static lh_share *next_by_turn(lh_share_table *table, double pages_free) {
    lh_heap_node *first = table->waiting.root;
    if (!first || !is_full(table, LH_HEAP_RECORD(first, lh_share, by_turn), pages_free))
        return first ? LH_HEAP_RECORD(first, lh_share, by_turn) : NULL;
    lh_heap_remove(&table->waiting, first);
    lh_heap_node *second = table->waiting.root;
    lh_heap_push(&table->waiting, first);
    return second ? LH_HEAP_RECORD(second, lh_share, by_turn) : NULL;
}

lh_share *lh_share_table_next(lh_share_table *table, double pages_free) {
    lh_share *next = next_by_turn(table, pages_free), *starving = TAILQ_FIRST(&table->starving);
    bool has_something = next && next->places + next->places_elsewhere > 0;
    return has_something && starving && lh_share_is_starved(table, starving) ? starving : next;
}

/* It has more places here, or fewer. */
static void tell_around(lh_share_table *table, const lh_share *share, bool has_more) {
    for (lh_share_table *other = NULL; (other = next_beside(table, other));) {
        lh_share *its = find(other, share->tenant);
        if (!its)
            continue;
        assert(has_more || its->places_elsewhere > 0);
        its->places_elsewhere += has_more ? 1u : -1u;
        watch_starving(other, its);
    }
}

void lh_share_table_take(lh_share_table *table, lh_share *share) {
    share->places++;
    table->taken++;
    watch_starving(table, share);
    tell_around(table, share, true);
}

void lh_share_table_give_back(lh_share_table *table, lh_share *share) {
    assert(share->places > 0 && table->taken >= share->places);
    share->places--;
    table->taken--;
    watch_starving(table, share);
    tell_around(table, share, false);
}
