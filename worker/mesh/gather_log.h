/* When the latest gathers of a mesh were posted and complete, and how long they were waited for.
 * Plain numbers; who keeps it sees to the thread. */
#pragma once

#include "worker/compute/stage/gather.h"

#include <stdint.h>

/* As many as a step of a deep model has in halves. */
#define LH_MESH_GATHERS_LOGGED 512u

typedef struct lh_mesh_logged_gather {
    uint64_t number;
    lh_gather_times times;
} lh_mesh_logged_gather;

/* Zeroed: none. Gathers are counted from 0 in the order in which they are posted. */
typedef struct lh_mesh_gather_log {
    uint64_t posted;   /* so many have been */
    uint64_t complete; /* and of these so many, the first ones, are there from all others */
    lh_mesh_logged_gather gathers[LH_MESH_GATHERS_LOGGED];
} lh_mesh_gather_log;

/* come: how many of the gathers have come from all others so far. */
void lh_mesh_gather_log_post(lh_mesh_gather_log *log, uint64_t number, uint32_t bytes,
                             uint64_t come, int64_t now_us);
void lh_mesh_gather_log_come(lh_mesh_gather_log *log, uint64_t come, int64_t now_us);
/* One member's part of one of the latest gathers was waited for from then to then. */
void lh_mesh_gather_log_wait(lh_mesh_gather_log *log, uint64_t number, int64_t begin_us,
                             int64_t end_us);
/* Those from `first` on that are complete, of which the log holds all, or else the latest; `count`
 * at most. */
uint32_t lh_mesh_gather_log_read(const lh_mesh_gather_log *log, uint64_t first,
                                 lh_gather_times *times, uint32_t count);
