/* The machines of a site that compute one stage together, as each of them sees it: a stage of its
 * own with its part of the weights, and the mesh that joins them.
 *
 *   first member      what its stage is asked is ordered of the others (leader.h)
 *   the others        a thread of the team's does with the stage what is ordered (follower.h)
 *
 * So whoever has the first member's stage uses it like any other, and whoever has another one's
 * leaves it alone until the team is gone. A team may be formed long before it is needed, tried, and
 * then rest:
 *
 *   first member   _form   _begin   its stage is tried   _rest  ......  _begin
 *   the others     _form   _follow ........................... |......  _begin
 *
 * A team that has failed does not recover: its stages are to be joined by a new mesh. Thread: one
 * at a time, unless said otherwise. */
#pragma once

#include "common/base/status.h"
#include "common/net/address.h"
#include "worker/compute/stage/stage.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/mesh.h"

#include <stdatomic.h>

typedef struct lh_team lh_team;

/* Read by lh_team_form alone. */
typedef struct lh_team_options {
    lh_mesh_identity identity;
    const lh_address *addresses; /* [members]: where each accepts the others */
    int listener;                /* non-blocking; stays the caller's. The last needs none: -1 */
    int64_t forming_ms;          /* until all others are there */
    int64_t unreached_ms;        /* as in worker/mesh/forming.h */
    const _Atomic bool *cancelled;
    /* Once, where the team fails after it has formed: on a thread that computes, which must not
     * destroy the team. lh_team_failure says why. */
    void (*on_failed)(void *context);
    void *context;
} lh_team_options;

/* Waits for the others, who have to build their stages first, and agrees with them on the pages of
 * the KV cache; then it rests. The stage outlives the team, but for the first member's, whose owner
 * destroys it before where it has begun. LH_ERR_CANCELLED; LH_ERR_TIMEOUT: somebody has not come,
 * whom the message names; LH_ERR_UNAVAILABLE: nothing reaches it; LH_ERR_NOT_FOUND: a name of an
 * address; LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_team_form(const lh_team_options *options, lh_stage *stage, lh_team **team,
                       lh_error *error);
/* Of one that rests: each member has its role from now on. Nobody has to wait for the others to
 * begin, too. LH_ERR_IO: there is no thread. */
lh_status lh_team_begin(lh_team *team, lh_error *error);
/* The first member's, which has begun; no step of its stage is under way: all rest again. In any
 * case its stage orders nothing more. LH_ERR_CLOSED: a member is lost; the mesh's errors. */
lh_status lh_team_rest(lh_team *team, lh_error *error);
/* Another member's, which has not begun: does what the first one orders until that lets it rest, on
 * the caller's thread. Errors of lh_follower_run. */
lh_status lh_team_follow(lh_team *team, lh_error *error);
/* Why the team cannot go on; LH_OK: it can. LH_ERR_CLOSED: a member is lost; the mesh's errors, and
 * lh_follower_run's. Thread: any. */
lh_status lh_team_failure(lh_team *team, lh_error *error);
/* What has been gathered so far. Thread: any. */
lh_mesh_totals lh_team_count(lh_team *team);
/* Every call of the first member's stage fails from now on, and the others find out. Thread: any.
 */
void lh_team_end(lh_team *team);
/* Ends it, and waits until its thread is gone. NULL is allowed. */
void lh_team_destroy(lh_team *team);
