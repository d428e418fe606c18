/* The connections of a mesh with the frames that are on their way over them: one ring of those that
 * go out, to all others, and an inlet for each member that they come from.
 *
 * Two threads share them: the compute thread opens, seals and takes frames, and one of the two at a
 * time, which carrier.h decides, has the sockets. What both touch is under one lock, which nobody
 * holds while the kernel copies.
 *
 * The first failure is that of all from then on; the connections are shut then, so that every other
 * member finds out. */
#pragma once

#include "common/base/status.h"
#include "worker/compute/stage/gather.h"
#include "worker/mesh/frame_ring.h"
#include "worker/mesh/gather_log.h"
#include "worker/mesh/inlet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Another member. */
typedef struct lh_mesh_peer {
    lh_mesh_inlet inlet;
    uint64_t gathers; /* of it that have come */
    bool has_ended;   /* nothing more will come: why is told once more is needed */
    int code;         /* of errno; 0: it has closed the connection */
} lh_mesh_peer;

typedef struct lh_mesh_links {
    uint32_t members, own;
    int descriptors[LH_MEMBERS_MAX]; /* -1: the own place */
    atomic_bool ended;
    pthread_mutex_t lock;   /* guards all that follows */
    pthread_cond_t changed; /* a frame has come or gone, or nothing more will; CLOCK_MONOTONIC */
    lh_mesh_peer peers[LH_MEMBERS_MAX];
    lh_mesh_frame_ring *ring; /* a reader for each other member, in their order */
    lh_mesh_gather_log log;
    lh_error failure; /* the first one; its status is LH_OK while there is none */
} lh_mesh_links;

/* Without connections yet. The links, zeroed, are the caller's, and can be reset after an error.
 * LH_ERR_NO_MEMORY. */
lh_status lh_mesh_links_init(lh_mesh_links *links, uint32_t members, uint32_t own,
                             uint32_t payload_bytes_max, lh_error *error);
/* Closes the connections. */
void lh_mesh_links_reset(lh_mesh_links *links);

/* ---- Under the lock ---- */

/* Whether something of the ring has not gone to a member. */
bool lh_mesh_links_owe(const lh_mesh_links *links, uint32_t member);
bool lh_mesh_links_owe_any(const lh_mesh_links *links);
/* How many gathers have come from all others. */
uint64_t lh_mesh_links_gathers_come(const lh_mesh_links *links);
/* Whether a gather that has been posted here has not come from a member from which more may come.
 */
bool lh_mesh_links_expect_any(const lh_mesh_links *links);

/* ---- Without it; thread: any ---- */

/* LH_OK: there is none. */
lh_status lh_mesh_links_failure(lh_mesh_links *links, lh_error *error);
/* What is said in `why` has happened, by a member; LH_ERR_CANCELLED where the mesh has been ended
 * here. Returns the first failure. */
lh_status lh_mesh_links_fail(lh_mesh_links *links, uint32_t member, lh_status status,
                             const char *why);
/* Something of this member's own. */
lh_status lh_mesh_links_fail_here(lh_mesh_links *links, const lh_error *why);
/* A member owes something that will not come. */
lh_status lh_mesh_links_fail_ended(lh_mesh_links *links, uint32_t member);
void lh_mesh_links_end(lh_mesh_links *links);

/* ---- Whoever has the sockets; failures as above ---- */

/* As much as the kernel takes, to everybody. */
lh_status lh_mesh_links_write(lh_mesh_links *links);
/* What is there of a member's frames, until so many wait. expected: as of lh_mesh_inlet_next. */
lh_status lh_mesh_links_read(lh_mesh_links *links, uint32_t member, size_t expected,
                             uint32_t frames);
/* Sleeps until something can be read, of those of whom fewer than `frames` wait, or written, or
 * `woken` (a descriptor; -1: none) is readable, and reads and writes all that it can. timeout_ms
 * -1: none. */
lh_status lh_mesh_links_sleep(lh_mesh_links *links, uint32_t frames, int woken, int timeout_ms);
