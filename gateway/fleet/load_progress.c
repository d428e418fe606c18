/* Each stage's pace is its own: bytes since its first report over the time since then. The chain is
 * ready when its slowest stage is. */
#include "gateway/fleet/load_progress.h"

#include "common/base/arithmetic.h"

#include <assert.h>

/* A pace is believed after this time. */
#define PACE_AFTER_US 1000000

/* The bytes of the stage's worker and of those that compute it together with that one. */
static void sum_bytes(const lh_chain *chain, const lh_registry *registry, uint32_t stage,
                      uint64_t *done_bytes, uint64_t *total_bytes) {
    const lh_worker *member;
    *done_bytes = *total_bytes = 0;
    for (uint32_t k = 0; lh_chain_member(chain, registry, stage, k, &member); k++)
        if (member && member->report.assignment.generation == chain->epoch) {
            *done_bytes += lh_min_u64(member->report.assignment.done_bytes,
                                      member->report.assignment.total_bytes);
            *total_bytes += member->report.assignment.total_bytes;
        }
}

static void observe_stage(lh_load_progress *progress, uint32_t stage, uint64_t done_bytes,
                          uint64_t total_bytes, int64_t now_us) {
    assert(stage < LH_LAYOUT_STAGES_MAX);
    bool is_first = progress->stages[stage].since_us == 0;
    /* What was fetched is counted from 0 once more while it is loaded. */
    bool is_restarted = total_bytes != progress->stages[stage].total_bytes ||
                        done_bytes < progress->stages[stage].done_bytes;
    if (is_first || is_restarted) {
        /* The first bytes may lie on the worker's disk already: they say nothing of its pace. */
        progress->stages[stage].since_us = now_us;
        progress->stages[stage].since_bytes = done_bytes;
        progress->stages[stage].grown_us = now_us;
    } else if (done_bytes > progress->stages[stage].done_bytes)
        progress->stages[stage].grown_us = progress->grown_us = now_us;
    progress->stages[stage].done_bytes = done_bytes;
    progress->stages[stage].total_bytes = total_bytes;
}

void lh_load_progress_observe(lh_load_progress *progress, const lh_chain *chain,
                              const lh_registry *registry, int64_t now_us) {
    progress->is_loading = lh_chain_is_loading(chain, registry);
    if (!progress->is_loading)
        return;
    if (progress->epoch != chain->epoch)
        *progress = (lh_load_progress){
            .epoch = chain->epoch, .is_loading = true, .grown_us = progress->grown_us};
    progress->stage_count = chain->stage_count;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        uint64_t done_bytes, total_bytes;
        sum_bytes(chain, registry, i, &done_bytes, &total_bytes);
        observe_stage(progress, i, done_bytes, total_bytes, now_us);
    }
}

/* INT64_MAX: its pace is not known. */
static int64_t stage_ready_us(const lh_load_progress *progress, uint32_t stage, int64_t now_us) {
    uint64_t done_bytes = progress->stages[stage].done_bytes;
    uint64_t total_bytes = progress->stages[stage].total_bytes;
    uint64_t came_bytes = done_bytes - lh_min_u64(done_bytes, progress->stages[stage].since_bytes);
    int64_t passed_us = progress->stages[stage].grown_us - progress->stages[stage].since_us;
    if (done_bytes >= total_bytes)
        return now_us;
    if (came_bytes == 0 || passed_us < PACE_AFTER_US)
        return INT64_MAX;
    double left_us = (double)(total_bytes - done_bytes) * (double)passed_us / (double)came_bytes;
    return left_us < 1e15 ? lh_max_i64(now_us, progress->stages[stage].grown_us + (int64_t)left_us)
                          : INT64_MAX;
}

lh_load_estimate lh_load_progress_estimate(const lh_load_progress *progress, int64_t now_us) {
    lh_load_estimate estimate = {.is_loading = progress->is_loading, .ready_us = now_us};
    uint64_t done_bytes = 0, total_bytes = 0;
    for (uint32_t i = 0; i < progress->stage_count && progress->is_loading; i++) {
        done_bytes += progress->stages[i].done_bytes;
        total_bytes += progress->stages[i].total_bytes;
        estimate.ready_us = lh_max_i64(estimate.ready_us, stage_ready_us(progress, i, now_us));
    }
    if (total_bytes > 0)
        estimate.percent = (uint32_t)(100.0 * (double)done_bytes / (double)total_bytes);
    return estimate;
}
