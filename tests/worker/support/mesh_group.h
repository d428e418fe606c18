/* The members of a mesh on loopback, each a thread of the test's. */
#pragma once

#include "worker/compute/stage/gather.h"
#include "worker/mesh/mesh.h"

typedef struct mesh_group mesh_group;

typedef struct mesh_member {
    mesh_group *group;
    lh_mesh_options options;
    lh_mesh *mesh; /* NULL: it has not been formed */
    lh_status status;
    lh_error error;
    void *context; /* the test's */
} mesh_member;

struct mesh_group {
    uint32_t count;
    lh_address addresses[LH_MEMBERS_MAX];
    int listeners[LH_MEMBERS_MAX];
    mesh_member members[LH_MEMBERS_MAX];
};

/* Listeners and options of so many members, who then wait for 20 s where a test does not say
 * otherwise: nobody is lost on a busy machine who is not lost. */
void mesh_group_begin(mesh_group *group, uint32_t count);
/* Each member in a thread of its own: forms its mesh, where that succeeds calls `act`, and destroys
 * it. Returns when all have ended. `status` and `error` are those of forming it. */
void mesh_group_run(mesh_group *group, void (*act)(mesh_member *member));
void mesh_group_end(mesh_group *group);

/* A member that the test plays itself: a blocking socket to member `to` after a handshake as member
 * `own`, in epoch `epoch`. */
int mesh_group_pose(const mesh_group *group, uint32_t own, uint32_t to);
