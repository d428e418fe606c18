/* A ring: gather n is in place n % LH_MESH_GATHERS_LOGGED. */
#include "worker/mesh/gather_log.h"

static lh_mesh_logged_gather *at(lh_mesh_gather_log *log, uint64_t index) {
    return &log->gathers[index % LH_MESH_GATHERS_LOGGED];
}

void lh_mesh_gather_log_post(lh_mesh_gather_log *log, uint64_t number, uint32_t bytes,
                             uint64_t come, int64_t now_us) {
    *at(log, log->posted++) =
        (lh_mesh_logged_gather){number, {.bytes = bytes, .posted_us = now_us}};
    lh_mesh_gather_log_come(log, come, now_us);
}

void lh_mesh_gather_log_come(lh_mesh_gather_log *log, uint64_t come, int64_t now_us) {
    for (; log->complete < come && log->complete < log->posted; log->complete++)
        at(log, log->complete)->times.there_us = now_us;
}

void lh_mesh_gather_log_wait(lh_mesh_gather_log *log, uint64_t number, int64_t begin_us,
                             int64_t end_us) {
    for (uint64_t i = 0; i < LH_GATHERS_AHEAD && i < log->posted; i++) {
        lh_mesh_logged_gather *gather = at(log, log->posted - 1 - i);
        if (gather->number != number)
            continue;
        if (gather->times.taken_us == 0)
            gather->times.taken_us = begin_us;
        gather->times.waited_us += end_us - begin_us;
        return;
    }
}

uint32_t lh_mesh_gather_log_read(const lh_mesh_gather_log *log, uint64_t first,
                                 lh_gather_times *times, uint32_t count) {
    const uint64_t oldest =
        log->posted > LH_MESH_GATHERS_LOGGED ? log->posted - LH_MESH_GATHERS_LOGGED : 0;
    uint32_t done = 0;
    for (uint64_t i = first > oldest ? first : oldest; i < log->complete && done < count; i++)
        times[done++] = log->gathers[i % LH_MESH_GATHERS_LOGGED].times;
    return done;
}
