/* The gathers of one step (worker/compute/stage/gather.h) over a mesh. */
#pragma once

#include "worker/compute/stage/gather.h"
#include "worker/mesh/mesh.h"

/* Steps are counted from 0 in the order in which they finish, which is the same on all members. */
typedef struct lh_mesh_step {
    lh_mesh *mesh;
    uint32_t step;
} lh_mesh_step;

/* The step outlives what is returned. Its errors are those of the mesh. Thread: the compute thread.
 * */
lh_gather lh_mesh_gather(lh_mesh_step *step);
