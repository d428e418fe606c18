/* Which worker belongs to which of several chains of one model (replicas). Pure functions: the same
 * input gives the same answer, in whatever order the workers registered.
 *
 * Workers of one site form a chain together unless that makes the slowest chain much slower, since
 * a chain inside one site has no slow link in it. A worker that comes later joins the chain that
 * needs it most; nobody else moves for its sake. */
#pragma once

#include "gateway/plan/even_split.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_REPLICAS_MAX 8u
#define LH_REPLICA_NONE UINT32_MAX

/* The workers, and how many chains are wanted of them. Beside it goes replica_of[count]: the chain
 * of each worker, LH_REPLICA_NONE where it has none. */
typedef struct lh_replica_table {
    lh_even_split *split;           /* of these machines: whether some of them hold the model */
    const lh_map_machine *machines; /* the workers */
    const char *const *sites;       /* what their sites are called */
    uint32_t count;                 /* 0..LH_WORKERS_MAX */
    uint32_t replicas;              /* wanted: 1..LH_REPLICAS_MAX */
} lh_replica_table;

/* Whether a replica's workers can hold the model. */
bool lh_replica_is_complete(const lh_replica_table *table, const uint32_t *replica_of,
                            uint32_t replica);
/* Divides all workers into complete chains: as many as are wanted, or as can be made; more than 64
 * of them into even parts in the order of their sites and names. Returns how many that are; 0: not
 * even one can be made, and all workers belong to the first. */
uint32_t lh_replica_deal(const lh_replica_table *table, uint32_t *replica_of);
/* The chain for a worker that has none yet: one that it completes, else one that is incomplete,
 * else the weakest. */
uint32_t lh_replica_of_newcomer(const lh_replica_table *table, const uint32_t *replica_of,
                                uint32_t newcomer);
/* Looks for a chain that can no longer hold the model, and for a worker that should move to it:
 * from a chain that is complete without it as well, or from a later one that is incomplete too.
 * False: all chains are complete or empty, or no worker can be spared. */
bool lh_replica_mend(const lh_replica_table *table, const uint32_t *replica_of, uint32_t *worker,
                     uint32_t *replica);
