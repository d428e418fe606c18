/* The thread that carries large frames, so that they travel while the members compute.
 *
 *   compute thread   post n    compute      post n + 1   take n (it is there)  compute ...
 *   carrier              |---- writes n, reads the others' n --||-- n + 1 ...
 *
 * It has the sockets (links.h) from when it is asked to carry until all that was posted has gone
 * and the others' has come; the compute thread has them at all other times. To wake a thread takes
 * longer than what a small gather does: the compute thread sends and reads that itself. */
#pragma once

#include "worker/mesh/links.h"

typedef struct lh_mesh_carrier {
    lh_mesh_links *links;
    pthread_t thread;
    int wake; /* an eventfd */
    /* under the lock of the links: */
    bool is_carrying, is_stopped;
    int64_t began_us;   /* what it is carrying */
    int64_t carried_us; /* what it has carried before that took */
} lh_mesh_carrier;

/* The links outlive it. LH_ERR_IO: there is no thread, or no descriptor. */
lh_status lh_mesh_carrier_start(lh_mesh_carrier *carrier, lh_mesh_links *links, lh_error *error);
/* Where it has started: returns when the thread has ended, whatever it was carrying. */
void lh_mesh_carrier_stop(lh_mesh_carrier *carrier);

/* Thread: the compute thread. It has the sockets now, if it did not before, and looks at what there
 * is to do. */
void lh_mesh_carrier_carry(lh_mesh_carrier *carrier);
