/* Which worker belongs to which of several chains of one model (replicas). Pure functions: the same
 * input gives the same answer, in whatever order the workers registered.
 *
 * A chain of workers inside one site has no slow link within it, so sites stay together where the
 * slowest chain is not much slower for it. A worker that has come goes where it is needed most, and
 * nobody else moves. */
#pragma once

#include "common/base/status.h"
#include "gateway/fleet/planner.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_REPLICAS_MAX 8u
#define LH_REPLICA_NONE UINT32_MAX

/* What all questions are about. replica_of[count]: NONE for those that are not dealt, or not there.
 */
typedef struct lh_replica_table {
    const lh_model_profile *model;
    const lh_planner_options *options;
    const lh_plan_worker *workers; /* their speeds are comparable (planner.h) */
    uint32_t count;                /* 0..LH_PLAN_STAGES_MAX */
    uint32_t replicas;             /* wanted: 1..LH_REPLICAS_MAX */
} lh_replica_table;

/* Whether those of a replica can hold the model. */
bool lh_replica_is_complete(const lh_replica_table *table, const uint32_t *replica_of,
                            uint32_t replica);
/* Deals all of them, into as many complete chains as are wanted or can be made; returns how many;
 * 0: not even one, and everybody belongs to the first. */
uint32_t lh_replica_deal(const lh_replica_table *table, uint32_t *replica_of);
/* Where one that has come belongs: to a chain that it completes, to one that is being gathered, or
 * to the weakest one. replica_of[newcomer] is NONE. */
uint32_t lh_replica_of_newcomer(const lh_replica_table *table, const uint32_t *replica_of,
                                uint32_t newcomer);
/* A chain has lost a worker and cannot hold the model: who should come to it, from a chain that is
 * whole without it too, or from a later one that is torn as well. False: nobody can, or nobody
 * need. */
bool lh_replica_mend(const lh_replica_table *table, const uint32_t *replica_of, uint32_t *worker,
                     uint32_t *replica);
