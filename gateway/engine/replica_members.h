/* Which worker belongs to which chain, over time: the first workers are dealt together, later ones
 * are placed one by one, and a worker moves only to mend a chain that has lost one. Sans-I/O.
 * Thread: one at a time. */
#pragma once

#include "common/protocol/worker_report.h"
#include "gateway/fleet/replica_deal.h"

typedef struct lh_replica_members lh_replica_members;

typedef struct lh_replica_members_options {
    uint32_t replicas, workers_expected;
    lh_planner_options planner;
    const lh_model_profile *model;
    int64_t plan_delay_us, lease_us;
} lh_replica_members_options;

/* What the options point to outlives it. LH_ERR_NO_MEMORY. */
lh_status lh_replica_members_create(const lh_replica_members_options *options, int64_t now_us,
                                    lh_replica_members **members, lh_error *error);
void lh_replica_members_destroy(lh_replica_members *members);

typedef struct lh_replica_place {
    /* LH_REPLICA_NONE: not known yet, since not all workers are there. */
    uint32_t replica;
    /* The chain for which it is to leave its own; LH_REPLICA_NONE: it stays. */
    uint32_t moving_to;
} lh_replica_place;

/* A worker reports; *place: where it belongs. LH_ERR_LIMIT: too many workers. */
lh_status lh_replica_members_note(lh_replica_members *members, const lh_worker_report *report,
                                  int64_t now_us, lh_replica_place *place, lh_error *error);
/* The chain that the worker was to leave has let it go: it belongs to the other one now. */
void lh_replica_members_moved(lh_replica_members *members, const char *worker);
