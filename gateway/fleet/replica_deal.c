/* Dealing workers to chains. */
#include "gateway/fleet/replica_deal.h"

#include "gateway/fleet/registry.h"

#include <assert.h>
#include <string.h>

/* Each time that a chain goes from one site to another costs this share of its speed. */
#define CROSSING_COST 0.25

/* So many workers are cut into runs in all ways; more would take minutes. */
#define CUT_WORKERS_MAX 64u
/* Of many workers so many are looked at for a chain that has lost one, evenly among them. */
#define MEND_TRIES_MAX 64u

/* ---- Of a group ---- */

/* With one more, or one fewer, worker than belong to it; NONE: neither. */
static bool holds_model(const lh_replica_table *t, const uint32_t *replica_of, uint32_t replica,
                        uint32_t with, uint32_t without) {
    uint32_t group[LH_WORKERS_MAX], count = 0;
    lh_layout layout;
    for (uint32_t i = 0; i < t->count; i++)
        if ((replica_of[i] == replica || i == with) && i != without)
            group[count++] = i;
    return lh_even_split_find(t->split, group, count, &layout, NULL) == LH_OK;
}

bool lh_replica_is_complete(const lh_replica_table *table, const uint32_t *replica_of,
                            uint32_t replica) {
    return holds_model(table, replica_of, replica, LH_REPLICA_NONE, LH_REPLICA_NONE);
}

static uint32_t size_of(const lh_replica_table *t, const uint32_t *replica_of, uint32_t replica) {
    uint32_t size = 0;
    for (uint32_t i = 0; i < t->count; i++)
        size += replica_of[i] == replica;
    return size;
}

/* Layers in a while, in the planner's terms: what is dealt evenly. */
static double strength_of(const lh_replica_table *t, uint32_t worker) {
    return 1 / t->machines[worker].start.prompt_us;
}

static double sum_strength(const lh_replica_table *t, const uint32_t *replica_of,
                           uint32_t replica) {
    double strength = 0;
    for (uint32_t i = 0; i < t->count; i++)
        strength += replica_of[i] == replica ? strength_of(t, i) : 0;
    return strength;
}

static bool is_at_site(const lh_replica_table *t, const uint32_t *replica_of, uint32_t replica,
                       uint32_t site) {
    for (uint32_t i = 0; i < t->count; i++)
        if (replica_of[i] == replica && t->machines[i].site == site)
            return true;
    return false;
}

/* ---- All at once ---- */

/* Workers in the order of their sites and names, cut into runs: best[k][n] is the cut of the first
 * n into k runs whose worst run is as good as can be. */
typedef struct cut {
    double worst; /* < 0: none */
    uint32_t previous;
} cut;

typedef struct dealing {
    const lh_replica_table *table;
    uint32_t order[LH_WORKERS_MAX];
    cut best[LH_REPLICAS_MAX + 1][CUT_WORKERS_MAX + 1];
} dealing;

static void sort_by_place(dealing *d) {
    const lh_replica_table *t = d->table;
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = i;
        for (; at > 0; at--) {
            const uint32_t before = d->order[at - 1];
            int sites = strcmp(t->sites[before], t->sites[i]);
            if (sites < 0 ||
                (sites == 0 && strcmp(t->machines[before].name, t->machines[i].name) < 0))
                break;
            d->order[at] = d->order[at - 1];
        }
        d->order[at] = i;
    }
}

/* < 0: it cannot hold the model. */
static double value_of_run(const dealing *d, uint32_t first, uint32_t last) {
    const lh_replica_table *t = d->table;
    lh_layout layout;
    double strength = 0;
    uint32_t crossings = 0;
    for (uint32_t i = first; i < last; i++) {
        strength += strength_of(t, d->order[i]);
        crossings +=
            i > first && t->machines[d->order[i]].site != t->machines[d->order[i - 1]].site;
    }
    if (lh_even_split_find(t->split, d->order + first, last - first, &layout, NULL) != LH_OK)
        return -1;
    return strength / (1 + CROSSING_COST * crossings);
}

static void find_cuts(dealing *d) {
    uint32_t count = d->table->count;
    for (uint32_t k = 0; k <= d->table->replicas; k++)
        for (uint32_t n = 0; n <= count; n++)
            d->best[k][n].worst = -1;
    for (uint32_t first = 0; first < count; first++) {
        for (uint32_t last = first + 1; last <= count; last++) {
            double value = value_of_run(d, first, last);
            for (uint32_t k = 1; k <= d->table->replicas; k++) {
                double before = k == 1 ? (first == 0 ? value : -1) : d->best[k - 1][first].worst;
                double worst = before < value ? before : value;
                if (before >= 0 && worst > d->best[k][last].worst)
                    d->best[k][last] = (cut){worst, first};
            }
        }
    }
}

/* Cut where each has its share of what all are worth. */
static void cut_evenly(const dealing *d, uint32_t replicas, uint32_t *replica_of) {
    const lh_replica_table *t = d->table;
    double all = 0, before = 0;
    for (uint32_t i = 0; i < t->count; i++)
        all += strength_of(t, i);
    for (uint32_t i = 0; i < t->count; i++) {
        double strength = strength_of(t, d->order[i]);
        uint32_t replica = (uint32_t)((before + strength / 2) / all * replicas);
        replica_of[d->order[i]] = replica < replicas ? replica : replicas - 1;
        before += strength;
    }
}

/* As many as are complete in even parts. */
static uint32_t deal_many(const dealing *d, uint32_t *replica_of) {
    for (uint32_t replicas = d->table->replicas; replicas > 0; replicas--) {
        uint32_t complete = 0;
        cut_evenly(d, replicas, replica_of);
        for (uint32_t r = 0; r < replicas; r++)
            complete += lh_replica_is_complete(d->table, replica_of, r);
        if (complete == replicas)
            return replicas;
    }
    memset(replica_of, 0, d->table->count * sizeof *replica_of);
    return 0;
}

uint32_t lh_replica_deal(const lh_replica_table *table, uint32_t *replica_of) {
    dealing d = {.table = table};
    assert(table->count <= LH_WORKERS_MAX && table->replicas <= LH_REPLICAS_MAX);
    sort_by_place(&d);
    if (table->count > CUT_WORKERS_MAX)
        return deal_many(&d, replica_of);
    find_cuts(&d);
    uint32_t replicas = table->replicas;
    while (replicas > 0 && d.best[replicas][table->count].worst < 0)
        replicas--;
    memset(replica_of, 0, table->count * sizeof *replica_of);
    for (uint32_t k = replicas, last = table->count; k > 0; k--) {
        uint32_t first = d.best[k][last].previous;
        for (uint32_t i = first; i < last; i++)
            replica_of[d.order[i]] = k - 1;
        assert(first < last);
        last = first;
    }
    return replicas;
}

/* ---- One by one ---- */

uint32_t lh_replica_of_newcomer(const lh_replica_table *table, const uint32_t *replica_of,
                                uint32_t newcomer) {
    const lh_replica_table *t = table;
    const uint32_t site = t->machines[newcomer].site;
    uint32_t gathered = LH_REPLICA_NONE, weakest = 0;
    for (uint32_t r = 0; r < t->replicas; r++) {
        if (lh_replica_is_complete(t, replica_of, r))
            continue;
        if (holds_model(t, replica_of, r, newcomer, LH_REPLICA_NONE))
            return r;
        if (gathered == LH_REPLICA_NONE)
            gathered = r;
    }
    if (gathered != LH_REPLICA_NONE)
        return gathered;
    for (uint32_t r = 1; r < t->replicas; r++) {
        double strength = sum_strength(t, replica_of, r),
               least = sum_strength(t, replica_of, weakest);
        if (strength < least || (strength == least && is_at_site(t, replica_of, r, site) &&
                                 !is_at_site(t, replica_of, weakest, site)))
            weakest = r;
    }
    return weakest;
}

/* Of a torn one's, all might come, one after the other. */
static bool would_be_whole_together(const lh_replica_table *t, const uint32_t *replica_of,
                                    uint32_t torn, uint32_t donor) {
    uint32_t together[LH_WORKERS_MAX];
    for (uint32_t i = 0; i < t->count; i++)
        together[i] = replica_of[i] == donor ? torn : replica_of[i];
    return lh_replica_is_complete(t, together, torn);
}

/* Whether a worker may come from its chain to the torn one: how good that is, or -1. From one that
 * is torn as well any may come; else from the one that has most, and of these the one that is
 * missed least. */
static double worth_of_move(const lh_replica_table *t, const uint32_t *replica_of, uint32_t torn,
                            uint32_t worker) {
    uint32_t donor = replica_of[worker];
    if (donor == LH_REPLICA_NONE || donor == torn)
        return -1;
    if (!lh_replica_is_complete(t, replica_of, donor))
        return donor > torn && would_be_whole_together(t, replica_of, torn, donor)
                   ? LH_WORKERS_MAX + 1.0
                   : -1;
    if (!holds_model(t, replica_of, donor, LH_REPLICA_NONE, worker) ||
        !holds_model(t, replica_of, torn, worker, LH_REPLICA_NONE))
        return -1;
    double strength = strength_of(t, worker), all = sum_strength(t, replica_of, donor);
    return size_of(t, replica_of, donor) + 1 - strength / all;
}

bool lh_replica_mend(const lh_replica_table *table, const uint32_t *replica_of, uint32_t *worker,
                     uint32_t *replica) {
    const uint32_t step = (table->count + MEND_TRIES_MAX - 1) / MEND_TRIES_MAX;
    for (uint32_t torn = 0; torn < table->replicas; torn++) {
        double best = -1;
        if (size_of(table, replica_of, torn) == 0 ||
            lh_replica_is_complete(table, replica_of, torn))
            continue;
        for (uint32_t i = 0; i < table->count; i += step) {
            double worth = worth_of_move(table, replica_of, torn, i);
            if (worth <= best)
                continue;
            best = worth;
            *worker = i;
            *replica = torn;
        }
        if (best >= 0)
            return true;
    }
    return false;
}
