/* The connections of a mesh: one with every other member, each made sure of (handshake.h). A member
 * connects to those before it and accepts those behind it, so that all may begin in any order: who
 * finds nobody yet tries again, and who has come and gone again before all were there is waited for
 * anew.
 *
 * What a stranger can do: hold one of 64 places for three seconds, which a newcomer gets sooner
 * where all are taken (common/net/connection_places.h), so that a member that has said its hello
 * does not wait for those who say nothing; and cause a line of the log every two seconds. Thread:
 * any; it blocks. */
#pragma once

#include "common/base/status.h"
#include "common/net/address.h"
#include "worker/mesh/handshake.h"

#include <stdatomic.h>

typedef struct lh_mesh_forming_options {
    const lh_mesh_identity *identity;
    const lh_address *addresses; /* [members]: where each accepts; those behind are not looked at */
    int listener;       /* non-blocking; it stays the caller's. The last member needs none: -1 */
    int64_t forming_ms; /* until all are there */
    /* to whom no connection opens for so long is not awaited any more; 0: everybody is. Whoever
     * opens one and says nothing, since it still builds its stage, is awaited */
    int64_t unreached_ms;
    int64_t dead_after_ms; /* of a connection: common/net/socket_options.h */
    /* set by any thread: it returns LH_ERR_CANCELLED soon; NULL: nobody does */
    const _Atomic bool *cancelled;
} lh_mesh_forming_options;

/* descriptors[members]: non-blocking sockets, the caller's from now on; -1 in the own place.
 * LH_ERR_TIMEOUT: somebody has not come, whom the message names, and why, where that is known;
 * LH_ERR_UNAVAILABLE: somebody was not reached for unreached_ms, the same;
 * LH_ERR_NOT_FOUND: a name of an address; LH_ERR_CANCELLED, LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_mesh_form_connections(const lh_mesh_forming_options *options, int *descriptors,
                                   lh_error *error);
