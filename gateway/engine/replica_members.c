/* A table of workers, and the places that replica_deal.h gives them. */
#include "gateway/engine/replica_members.h"

#include "common/base/log.h"
#include "gateway/fleet/aimed_deal.h"
#include "gateway/fleet/candidates.h"
#include "gateway/fleet/first_plan.h"
#include "gateway/fleet/registry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two looks for chains that have lost a worker. A chain waits that long as well before it
 * gets another worker, since the one that it lost may just be restarting. */
#define MEND_INTERVAL_US 1000000

typedef struct member {
    char name[LH_WORKER_NAME_BYTES], site[LH_WORKER_NAME_BYTES];
    lh_map_machine machine; /* as it says of itself */
    int64_t renewed_us;
    bool is_leaving;
    lh_replica_place place;
} member;

/* The workers whose lease runs, for the functions of replica_deal.h. */
typedef struct living {
    lh_replica_table table;
    member *members[LH_WORKERS_MAX];
    lh_map_machine machines[LH_WORKERS_MAX];
    const char *sites[LH_WORKERS_MAX];
    uint32_t replica_of[LH_WORKERS_MAX];
} living;

struct lh_replica_members {
    uint32_t replicas;
    lh_fleet_options options;
    int64_t created_us, changed_us, mended_us;
    bool is_dealt;
    uint32_t count;
    member members[LH_WORKERS_MAX];
    living living;
};

lh_status lh_replica_members_create(uint32_t replicas, const lh_fleet_options *fleet,
                                    int64_t now_us, lh_replica_members **members, lh_error *error) {
    lh_replica_members *m = calloc(1, sizeof *m);
    if (!m)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the workers of several chains");
    m->replicas = replicas;
    m->options = *fleet;
    m->created_us = m->changed_us = m->mended_us = now_us;
    *members = m;
    return LH_OK;
}

void lh_replica_members_destroy(lh_replica_members *members) {
    free(members);
}

void lh_replica_name(const char *chain_name, uint32_t replica, char name[LH_WORKER_NAME_BYTES]) {
    snprintf(name, LH_WORKER_NAME_BYTES, replica == 0 ? "%s" : "%s-%u", chain_name, replica + 1);
}

static bool is_living(const lh_replica_members *members, const member *one, int64_t now_us) {
    return now_us < one->renewed_us + members->options.lease_us;
}

/* A worker that moves belongs to the chain that it moves to. */
static uint32_t home_of(const member *one) {
    return one->place.moving_to != LH_REPLICA_NONE ? one->place.moving_to : one->place.replica;
}

static bool is_counted(const lh_replica_members *members, const member *one, int64_t now_us) {
    return !one->is_leaving && is_living(members, one, now_us);
}

static uint32_t count_living(const lh_replica_members *members, int64_t now_us) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < members->count; i++)
        count += is_counted(members, &members->members[i], now_us);
    return count;
}

/* Lists the living workers in members->living, whose split lasts until let_go. */
static lh_status gather(lh_replica_members *members, int64_t now_us, lh_error *error) {
    living *l = &members->living;
    uint32_t count = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        member *one = &members->members[i];
        if (!is_counted(members, one, now_us))
            continue;
        l->members[count] = one;
        l->machines[count] = one->machine;
        l->sites[count] = one->site;
        l->replica_of[count++] = home_of(one);
    }
    assert(count <= LH_WORKERS_MAX);
    l->table = (lh_replica_table){NULL, l->machines, l->sites, count, members->replicas};
    lh_even_compare_speeds(l->machines, count);
    lh_even_order_sites(l->machines, l->sites, count, members->options.aim.sites);
    return lh_even_split_create(members->options.model, l->machines, count, &members->options.aim,
                                &l->table.split, error);
}

static void let_go(lh_replica_members *members) {
    lh_even_split_destroy(members->living.table.split);
    members->living.table.split = NULL;
}

static member *find(lh_replica_members *members, const char *name) {
    for (uint32_t i = 0; i < members->count; i++)
        if (strcmp(members->members[i].name, name) == 0)
            return &members->members[i];
    return NULL;
}

/* A place for a new worker: a free one, or that of the worker whose lease ran out first. */
static member *make_place(lh_replica_members *members, int64_t now_us) {
    if (members->count < LH_WORKERS_MAX)
        return &members->members[members->count++];
    member *oldest = &members->members[0];
    for (uint32_t i = 1; i < members->count; i++)
        if (members->members[i].renewed_us < oldest->renewed_us)
            oldest = &members->members[i];
    return is_living(members, oldest, now_us) ? NULL : oldest;
}

static void deal(lh_replica_members *members, living *l) {
    assert(!members->is_dealt);
    uint32_t made = members->options.aim.goal != LH_GOAL_EVEN
                        ? lh_aimed_deal(&members->options, &l->table, l->replica_of)
                        : lh_replica_deal(&l->table, l->replica_of);
    for (uint32_t i = 0; i < l->table.count; i++) {
        assert(l->replica_of[i] < members->replicas);
        l->members[i]->place = (lh_replica_place){l->replica_of[i], LH_REPLICA_NONE};
        char chain[LH_WORKER_NAME_BYTES];
        lh_replica_name(members->options.chain_name, l->replica_of[i], chain);
        lh_log(LH_LOG_INFO, "fleet", "worker is dealt worker=%s chain=%s", l->members[i]->name,
               chain);
    }
    members->is_dealt = true;
    if (made < members->replicas)
        lh_log(LH_LOG_WARN, "fleet",
               "the workers make fewer chains than are wanted made=%u wanted=%u", made,
               members->replicas);
}

static bool is_time_to_deal(const lh_replica_members *members, int64_t now_us) {
    return now_us >= lh_first_plan_due_us(
                         count_living(members, now_us), members->options.workers_expected,
                         members->options.plan_delay_us, members->created_us, members->changed_us);
}

static bool is_time_to_mend(const lh_replica_members *members, int64_t now_us) {
    return now_us >= members->mended_us + MEND_INTERVAL_US;
}

static void settle_newcomer(const lh_replica_members *members, member *one, living *l) {
    char chain[LH_WORKER_NAME_BYTES];
    for (uint32_t i = 0; i < l->table.count; i++)
        if (l->members[i] == one)
            one->place.replica = l->replica_of[i] =
                lh_replica_of_newcomer(&l->table, l->replica_of, i);
    if (one->place.replica == LH_REPLICA_NONE)
        return;
    lh_replica_name(members->options.chain_name, one->place.replica, chain);
    lh_log(LH_LOG_INFO, "fleet", "worker joins a chain worker=%s chain=%s", one->name, chain);
}

static void mend(lh_replica_members *members, const living *l, int64_t now_us) {
    uint32_t worker, replica;
    char from[LH_WORKER_NAME_BYTES], to[LH_WORKER_NAME_BYTES];
    if (!is_time_to_mend(members, now_us))
        return;
    members->mended_us = now_us;
    if (!lh_replica_mend(&l->table, l->replica_of, &worker, &replica))
        return;
    assert(worker < l->table.count && replica < members->replicas);
    member *one = l->members[worker];
    lh_replica_name(members->options.chain_name, one->place.replica, from);
    lh_replica_name(members->options.chain_name, replica, to);
    lh_log(LH_LOG_INFO, "fleet", "worker is to mend a chain worker=%s from_chain=%s chain=%s",
           one->name, from, to);
    one->place.moving_to = replica == one->place.replica ? LH_REPLICA_NONE : replica;
}

/* Deals the workers, settles a newcomer and mends chains, each when it is time for it. */
static lh_status place(lh_replica_members *members, member *one, int64_t now_us, lh_error *error) {
    living *l = &members->living;
    const bool has_place = one->place.replica != LH_REPLICA_NONE;
    if (members->is_dealt ? has_place && !is_time_to_mend(members, now_us)
                          : !is_time_to_deal(members, now_us))
        return LH_OK;
    lh_status status = gather(members, now_us, error);
    if (status != LH_OK)
        return status;
    if (!members->is_dealt)
        deal(members, l);
    if (one->place.replica == LH_REPLICA_NONE)
        settle_newcomer(members, one, l);
    mend(members, l, now_us);
    let_go(members);
    return LH_OK;
}

lh_status lh_replica_members_note(lh_replica_members *members, const lh_worker_report *report,
                                  int64_t now_us, lh_replica_place *where, lh_error *error) {
    member *one = find(members, report->name);
    if (!one) {
        one = make_place(members, now_us);
        if (!one)
            return lh_fail(error, LH_ERR_LIMIT, "%u workers are registered already: no room for %s",
                           LH_WORKERS_MAX, report->name);
        *one = (member){.place = {LH_REPLICA_NONE, LH_REPLICA_NONE}};
        snprintf(one->name, sizeof one->name, "%s", report->name);
        members->changed_us = now_us;
    }
    snprintf(one->site, sizeof one->site, "%s", report->site);
    one->machine = lh_candidates_machine_of(report);
    one->renewed_us = now_us;
    one->is_leaving = report->leaving;
    lh_status status = place(members, one, now_us, error);
    *where = one->place;
    return status;
}

void lh_replica_members_moved(lh_replica_members *members, const char *worker) {
    member *one = find(members, worker);
    if (one && one->place.moving_to != LH_REPLICA_NONE)
        one->place = (lh_replica_place){one->place.moving_to, LH_REPLICA_NONE};
}
