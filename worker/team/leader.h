/* The first member of a team: what its stage is asked goes to the others as orders, and the steps
 * that finish gather over the mesh. Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/stage_order.h"
#include "worker/mesh/mesh_gather.h"

#include <stdbool.h>

typedef struct lh_leader {
    lh_mesh_step finishing; /* the step that was ordered to finish last */
    uint64_t first_gather;  /* of it, among those of the mesh */
    uint32_t finished;      /* how many have been */
    bool has_failed;
    void (*on_failed)(void *context, const lh_error *error);
    void *context;
} lh_leader;

/* Steps are counted from the mesh's beginning. on_failed comes once, with the first order that does
 * not go out: the one that ends a step which could not gather, at the latest. Leader and mesh
 * outlive the stage's leading. */
void lh_leader_init(lh_leader *leader, lh_mesh *mesh,
                    void (*on_failed)(void *context, const lh_error *error), void *context);
/* For lh_stage_lead; its errors are those of the mesh, and LH_ERR_LIMIT (order_code.h), after which
 * the mesh has ended. */
lh_stage_leading lh_leader_leading(lh_leader *leader);
/* The others have nothing to do any more (lh_follower_run returns), until a leader is made of the
 * same mesh anew. No step is under way, and the stage is led no more. Waits until it has gone out;
 * errors of the mesh. */
lh_status lh_leader_rest(lh_leader *leader, lh_error *error);
