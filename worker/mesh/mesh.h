/* The members of one stage, each joined with each other one by a TCP connection of their own,
 * inside a site. A gather is a write to each of the others and a read from each: nothing else lies
 * between a product and the wire.
 *
 *   member 0, the first:  order ... order      gather  gather  ...   order
 *   the others:           take them            gather  gather  ...   take it
 *
 * The first member says in orders what all of them do next; then all do it, and meet in the gathers
 * of it. Orders and gathers go over the same connections, in this order, so that neither overtakes.
 *
 * Small frames the compute thread writes and reads itself: who waits reads in a loop for spin_us
 * first, since being woken takes longer than what is waited for, and then sleeps. Large ones, and
 * what the kernel does not take of a small one at once, a thread of the mesh's carries (carrier.h):
 * they travel while this member computes, and two gathers at once. Whoever waits for them sleeps.
 *
 * A mesh fails as a whole and for good: a member that has closed its connections, or is silent for
 * wait_ms where something is awaited, a frame that is not the one that comes next. All connections
 * are shut then, so that every other member finds out at once and not after a wait of its own; and
 * every call from then on gives the first failure again. Whoever wants to go on forms another one,
 * of another epoch.
 *
 * Thread: one, the compute thread, unless said otherwise. */
#pragma once

#include "common/base/status.h"
#include "common/net/address.h"
#include "worker/compute/stage/gather.h"
#include "worker/mesh/handshake.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_mesh lh_mesh;

/* Read by lh_mesh_create alone. */
typedef struct lh_mesh_options {
    lh_mesh_identity identity;   /* 2 .. LH_MEMBERS_MAX members */
    const lh_address *addresses; /* [members]: where each accepts the others */
    /* a non-blocking listening socket, which stays the caller's; the last member needs none: -1 */
    int listener;
    int64_t forming_ms;            /* until all members are there */
    int64_t unreached_ms;          /* as in forming.h */
    const _Atomic bool *cancelled; /* ends the forming; NULL: nobody does */
    int64_t wait_ms;               /* for bytes that are awaited: a member is lost then */
    int64_t spin_us;               /* of a wait, before it sleeps */
    uint32_t payload_bytes_max;    /* of a frame */
} lh_mesh_options;

typedef struct lh_mesh_totals {
    uint64_t sent_bytes, taken_bytes; /* of payloads: to all others together, and from them */
    uint64_t gathers;                 /* that were posted */
    int64_t taking_us;                /* in takes, which are waits for the most part */
    /* What hides behind arithmetic is the rest of 1: waiting_us / under_way_us. */
    int64_t under_way_us; /* large gathers were: from the post until all had theirs here */
    int64_t waiting_us;   /* of taking_us: meanwhile */
} lh_mesh_totals;

/* Forms the mesh: it blocks until all members are there. LH_ERR_TIMEOUT: somebody has not come;
 * LH_ERR_UNAVAILABLE: somebody was not reached for unreached_ms;
 * LH_ERR_NOT_FOUND: a name of an address; LH_ERR_CANCELLED, LH_ERR_IO, LH_ERR_NO_MEMORY. Thread:
 * any. */
lh_status lh_mesh_create(const lh_mesh_options *options, lh_mesh **mesh, lh_error *error);
/* Closes the connections: what was posted and has not gone is lost, lh_mesh_flush waits for it.
 * NULL is allowed. Thread: any, while no other one is in a call. */
void lh_mesh_destroy(lh_mesh *mesh);
/* Ends it: every call that blocks, here or at another member, returns soon, and all from then on
 * fail (LH_ERR_CANCELLED here, LH_ERR_CLOSED there). Thread: any. */
void lh_mesh_end(lh_mesh *mesh);

uint32_t lh_mesh_members(const lh_mesh *mesh);
uint32_t lh_mesh_own(const lh_mesh *mesh);
/* Thread: any. */
lh_mesh_totals lh_mesh_count(lh_mesh *mesh);

/* How gathers went that were posted after `first` others, in their order, of which the latest
 * LH_MESH_GATHERS_LOGGED (gather_log.h) are known; `count` at most. Returns how many. Thread: any.
 */
uint32_t lh_mesh_gather_times(lh_mesh *mesh, uint64_t first, lh_gather_times *times,
                              uint32_t count);

/* All of the following: LH_ERR_CLOSED: a member is lost; LH_ERR_TIMEOUT: silent for wait_ms;
 * LH_ERR_MALFORMED, LH_ERR_STALE, LH_ERR_PROTOCOL: a frame of other length, epoch, kind or number;
 * LH_ERR_CANCELLED: lh_mesh_end; LH_ERR_LIMIT: more than payload_bytes_max; LH_ERR_NO_MEMORY,
 * LH_ERR_IO. The message names the member. */

/* Where the payload of the next frame goes, 64-byte aligned; the caller's until it posts. Frames
 * are posted in the order in which they are opened. Waits where the others are far behind. */
lh_status lh_mesh_open(lh_mesh *mesh, size_t payload_bytes, void **payload, lh_error *error);
/* To all others: gather `number`, which is any that they expect. Does not wait. */
lh_status lh_mesh_post_gather(lh_mesh *mesh, uint64_t number, lh_error *error);
/* Waits for gather `number` of a member, whose length is known. *payload, 64-byte aligned, stays
 * until the next take from that member. */
lh_status lh_mesh_take_gather(lh_mesh *mesh, uint64_t number, uint32_t member, size_t payload_bytes,
                              const void **payload, lh_error *error);

/* The first member's: what was opened is an order. That another one has closed its connection is
 * found out here, too. */
lh_status lh_mesh_post_order(lh_mesh *mesh, lh_error *error);
/* The others': waits for the first member's next order, for as long as it takes: that the first
 * member's machine is gone is found by TCP within a minute. *payload as of a gather. */
lh_status lh_mesh_take_order(lh_mesh *mesh, const void **payload, size_t *payload_bytes,
                             lh_error *error);

/* Waits until the kernel has all that was posted. */
lh_status lh_mesh_flush(lh_mesh *mesh, lh_error *error);
