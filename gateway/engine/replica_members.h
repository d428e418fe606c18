/* Which worker belongs to which chain, over time: the first workers are dealt together, later ones
 * are placed one by one, and a worker moves only to mend a chain that has lost one. Sans-I/O.
 * Thread: one at a time. */
#pragma once

#include "gateway/fleet/fleet_options.h"
#include "gateway/fleet/replica_deal.h"

typedef struct lh_replica_members lh_replica_members;

/* replicas: 1..LH_REPLICAS_MAX; fleet: of all chains together. LH_ERR_NO_MEMORY. */
lh_status lh_replica_members_create(uint32_t replicas, const lh_fleet_options *fleet,
                                    int64_t now_us, lh_replica_members **members, lh_error *error);
void lh_replica_members_destroy(lh_replica_members *members);

/* How a chain is called: chain_name, chain_name-2, ... The first `replica` is 0. */
void lh_replica_name(const char *chain_name, uint32_t replica, char name[LH_WORKER_NAME_BYTES]);

typedef struct lh_replica_place {
    /* LH_REPLICA_NONE: not known yet, since not all workers are there. */
    uint32_t replica;
    /* The chain for which it is to leave its own; LH_REPLICA_NONE: it stays. */
    uint32_t moving_to;
} lh_replica_place;

/* A worker reports; *where: where it belongs. LH_ERR_LIMIT: too many workers; LH_ERR_NO_MEMORY. */
lh_status lh_replica_members_note(lh_replica_members *members, const lh_worker_report *report,
                                  int64_t now_us, lh_replica_place *where, lh_error *error);
/* The chain that the worker was to leave has let it go: it belongs to the other one now. */
void lh_replica_members_moved(lh_replica_members *members, const char *worker);
