/* A member of a team that is not the first: does with its stage what the first one orders, until
 * the mesh ends. Thread: one, which has the stage and the mesh to itself. */
#pragma once

#include "worker/compute/stage/stage.h"
#include "worker/mesh/mesh.h"

/* Blocks. LH_OK: the first member lets the others rest (leader.h); the mesh stays for another call.
 * Else the mesh fails, or is ended by lh_mesh_end, or this member cannot go on: then it ends the
 * mesh, so that all others find out, and the error says why it is over, LH_ERR_CANCELLED after
 * lh_mesh_end. No step is between begin and end afterwards. Besides the errors of the mesh
 * LH_ERR_MALFORMED, LH_ERR_PROTOCOL: an order that makes no sense; and those of lh_stage_begin,
 * where the first member's stage could. */
lh_status lh_follower_run(lh_stage *stage, lh_mesh *mesh, lh_error *error);
