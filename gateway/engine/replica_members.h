/* Which worker belongs to which chain, over time: dealt when the first ones are there, then one by one, and moved only to mend a chain that
 * has lost somebody. Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/replica_deal.h"
#include "worker/api/worker_report.h"

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
    uint32_t replica;   /* NONE: it is not known yet, since not all are there */
    uint32_t moving_to; /* NONE, or it is to leave its chain for this one */
} lh_replica_place;

/* A worker reports: where it belongs. LH_ERR_LIMIT: too many workers. */
lh_status lh_replica_members_note(lh_replica_members *members, const lh_worker_report *report, int64_t now_us,
                                  lh_replica_place *place, lh_error *error);
/* Its old chain has let it go. */
void lh_replica_members_moved(lh_replica_members *members, const char *worker);
