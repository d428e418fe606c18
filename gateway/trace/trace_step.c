/* Records of steps, counted by their holders. */
#include "gateway/trace/trace_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t lh_trace_step_bytes(const lh_trace_step *step) {
    return sizeof *step + step->hop_count * sizeof *step->hops +
           step->believed_count * sizeof *step->believed_us + step->frames_bytes;
}

lh_trace_step *lh_trace_step_create(const lh_trace_step *content) {
    lh_trace_step *step = malloc(lh_trace_step_bytes(content));
    if (!step)
        return NULL;
    memcpy(step, content, sizeof *step);
    lh_clock_bounds *hops = (lh_clock_bounds *)(step + 1);
    double *believed_us = (double *)(hops + content->hop_count);
    uint8_t *frames = (uint8_t *)(believed_us + content->believed_count);
    if (content->hop_count)
        memcpy(hops, content->hops, content->hop_count * sizeof *hops);
    if (content->believed_count)
        memcpy(believed_us, content->believed_us, content->believed_count * sizeof *believed_us);
    if (content->frames_bytes)
        memcpy(frames, content->frames, content->frames_bytes);
    step->hops = hops;
    step->believed_us = believed_us;
    step->frames = frames;
    atomic_init(&step->holders, 1);
    return step;
}

lh_trace_step *lh_trace_step_acquire(lh_trace_step *step) {
    unsigned before = atomic_fetch_add(&step->holders, 1);
    assert(before > 0);
    return step;
}

void lh_trace_step_release(lh_trace_step *step) {
    if (!step)
        return;
    unsigned before = atomic_fetch_sub(&step->holders, 1);
    assert(before > 0);
    if (before == 1)
        free(step);
}

static bool holds(uint32_t first, uint32_t count, uint32_t value) {
    return value >= first && value - first < count;
}

const lh_step_shard_given *lh_trace_find_given(const lh_step_times *from,
                                               const lh_step_shard_taken *taken) {
    for (uint32_t i = 0; i < from->given_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        const lh_step_shard_given *given = &from->given[i];
        if (holds(given->first_row, given->rows, taken->first_row) &&
            holds(given->first_column, given->columns, taken->first_column))
            return given;
    }
    return NULL;
}

int64_t lh_trace_moment(const lh_step_times *times, uint32_t offset_us) {
    return offset_us == LH_STEP_TIMES_NEVER ? 0 : (int64_t)times->base_us + offset_us;
}
