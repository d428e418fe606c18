/* Traced steps under way, and the clocks of the ring that they run on. */
#include "gateway/trace/step_recorder.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

typedef struct open_step {
    TAILQ_ENTRY(open_step) links;
    lh_trace_step known; /* its frames are `frames`, what is believed of it `believed_us` */
    uint8_t *frames;     /* malloc'd */
    double believed_us[LH_CLOCK_RING_MAX - 1];
    uint32_t part_count;
    lh_trace_part parts[];
} open_step;

struct lh_step_recorder {
    lh_trace_store *store;
    TAILQ_HEAD(, open_step) steps;
    uint32_t epoch;     /* that the clocks belong to */
    uint32_t hop_count; /* the most in the times of a step of this epoch */
    lh_clock_hop hops[LH_CLOCK_RING_MAX];
    lh_step_times times[2]; /* of a worker and the one before it */
    lh_log_limit unreadable_lines;
};

lh_status lh_step_recorder_create(lh_trace_store *store, lh_step_recorder **recorder,
                                  lh_error *error) {
    lh_step_recorder *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the recorder of steps");
    made->store = store;
    TAILQ_INIT(&made->steps);
    *recorder = made;
    return LH_OK;
}

static void drop(lh_step_recorder *recorder, open_step *step) {
    TAILQ_REMOVE(&recorder->steps, step, links);
    free(step->frames);
    free(step);
}

void lh_step_recorder_destroy(lh_step_recorder *recorder) {
    if (!recorder)
        return;
    while (!TAILQ_EMPTY(&recorder->steps))
        drop(recorder, TAILQ_FIRST(&recorder->steps));
    free(recorder);
}

static open_step *find(lh_step_recorder *recorder, uint32_t epoch, uint64_t number) {
    open_step *step;
    TAILQ_FOREACH(step, &recorder->steps, links) {
        if (step->known.epoch == epoch && step->known.step == number)
            break;
    }
    return step;
}

void lh_step_recorder_submit(lh_step_recorder *recorder, const lh_step_manifest *manifest,
                             const lh_trace_part *parts, uint32_t count, int64_t formed_us,
                             int64_t now_us) {
    open_step *step = calloc(1, sizeof *step + count * sizeof step->parts[0]);
    if (!step)
        return;
    step->known = (lh_trace_step){.epoch = manifest->epoch,
                                  .step = manifest->step,
                                  .step_class = manifest->step_class,
                                  .rows = manifest->rows,
                                  .formed_us = formed_us,
                                  .submitted_us = now_us};
    step->part_count = count;
    memcpy(step->parts, parts, count * sizeof step->parts[0]);
    TAILQ_INSERT_TAIL(&recorder->steps, step, links);
    lh_trace_store_begin_step(recorder->store, parts, count, formed_us);
}

void lh_step_recorder_believe(lh_step_recorder *recorder, uint32_t epoch, uint64_t number,
                              const double *us, uint32_t stage_count) {
    open_step *step = find(recorder, epoch, number);
    if (!step || stage_count >= LH_CLOCK_RING_MAX)
        return;
    memcpy(step->believed_us, us, stage_count * sizeof us[0]);
    step->known.believed_us = step->believed_us;
    step->known.believed_count = stage_count;
}

void lh_step_recorder_results(lh_step_recorder *recorder, uint32_t epoch, uint64_t number,
                              int64_t now_us) {
    open_step *step = find(recorder, epoch, number);
    if (step && step->known.results_us == 0)
        step->known.results_us = now_us;
}

/* What is sound of the frames is kept. */
void lh_step_recorder_times(lh_step_recorder *recorder, uint32_t epoch, uint64_t number,
                            const uint8_t *frames, size_t length) {
    open_step *step = find(recorder, epoch, number);
    size_t offset = 0, sound = 0;
    uint32_t count = 0;
    lh_error error;
    lh_status status = LH_OK;
    if (!step || step->frames)
        return;
    while (count + 1 < LH_CLOCK_RING_MAX &&
           (status = lh_step_times_read(frames, length, &offset, &recorder->times[0], &error)) ==
               LH_OK) {
        sound = offset;
        count++;
    }
    unsigned long long left_out;
    if (status != LH_OK && status != LH_AGAIN &&
        lh_log_limit_take(&recorder->unreadable_lines, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "trace", "times of step %llu cannot be read: %s left_out=%llu",
               (unsigned long long)number, error.message, left_out);
    step->frames = sound ? malloc(sound) : NULL;
    if (!step->frames)
        return;
    memcpy(step->frames, frames, sound);
    step->known.frames = step->frames;
    step->known.frames_bytes = sound;
    step->known.hop_count = count + 1;
}

/* ---- Clocks ---- */

/* Moments are 0 where something did not happen. */
static void forth(lh_clock_hop *hop, int64_t left_us, int64_t came_us) {
    if (left_us && came_us)
        lh_clock_hop_forth(hop, left_us, came_us);
}

static void back(lh_clock_hop *hop, int64_t left_us, int64_t came_us) {
    if (left_us && came_us)
        lh_clock_hop_back(hop, left_us, came_us);
}

/* The hop between two workers: the request, its shards, and the answer. */
static void observe_hop(lh_clock_hop *hop, const lh_step_times *from, const lh_step_times *to) {
    forth(hop, lh_trace_moment(from, from->submitted_us), (int64_t)to->base_us);
    back(hop, lh_trace_moment(to, to->answered_us), lh_trace_moment(from, from->passed_us));
    for (uint32_t i = 0; i < to->taken_count && i < LH_STEP_TIMES_SHARDS_MAX; i++) {
        const lh_step_shard_given *given = lh_trace_find_given(from, &to->taken[i]);
        if (given)
            forth(hop, lh_trace_moment(from, given->handed_us),
                  lh_trace_moment(to, to->taken[i].came_us));
    }
}

/* near_us[hop_count]: a moment of the step in each hop's near clock. */
static void observe(lh_step_recorder *recorder, const lh_trace_step *step, int64_t *near_us) {
    size_t offset = 0;
    uint32_t workers = step->hop_count - 1;
    near_us[0] = step->submitted_us;
    for (uint32_t i = 0; i < workers; i++) {
        lh_step_times *one = &recorder->times[i % 2], *before = &recorder->times[(i + 1) % 2];
        lh_step_times_read(step->frames, step->frames_bytes, &offset, one, NULL);
        near_us[i + 1] = (int64_t)one->base_us;
        if (i > 0) {
            observe_hop(&recorder->hops[i], before, one);
            continue;
        }
        forth(&recorder->hops[0], step->submitted_us, (int64_t)one->base_us);
        back(&recorder->hops[0], lh_trace_moment(one, one->answered_us), step->answered_us);
    }
    const lh_step_times *last = &recorder->times[(workers - 1) % 2];
    lh_clock_hop *home = &recorder->hops[workers];
    forth(home, lh_trace_moment(last, last->submitted_us), step->results_us);
    back(home, step->results_us, lh_trace_moment(last, last->passed_us));
}

/* Another epoch may have other workers. A step whose answer was cut has no times of the ring's last
 * hop: it counts as one without times; where it was the first, what it told of its last hop is none
 * of that hop's. */
static void align(lh_step_recorder *recorder, lh_trace_step *step, lh_clock_bounds *hops) {
    int64_t near_us[LH_CLOCK_RING_MAX];
    bool is_same = step->epoch == recorder->epoch;
    if (is_same && step->hop_count < recorder->hop_count) {
        step->hop_count = 0;
        step->frames_bytes = 0;
        return;
    }
    if (!is_same || step->hop_count > recorder->hop_count)
        memset(recorder->hops, 0, sizeof recorder->hops);
    recorder->epoch = step->epoch;
    recorder->hop_count = step->hop_count;
    assert(step->hop_count > 1 && step->hop_count <= LH_CLOCK_RING_MAX);
    observe(recorder, step, near_us);
    for (uint32_t i = 0; i < step->hop_count; i++)
        lh_clock_hop_at(&recorder->hops[i], near_us[i], &hops[i]);
    step->hops = hops;
}

void lh_step_recorder_done(lh_step_recorder *recorder, uint32_t epoch, uint64_t number,
                           lh_status status, int64_t now_us) {
    open_step *step = find(recorder, epoch, number);
    lh_clock_bounds hops[LH_CLOCK_RING_MAX];
    if (!step)
        return;
    step->known.status = status;
    step->known.answered_us = now_us;
    if (step->known.hop_count)
        align(recorder, &step->known, hops);
    lh_trace_step *whole = lh_trace_step_create(&step->known);
    lh_trace_store_end_step(recorder->store, step->parts, step->part_count, whole);
    lh_trace_step_release(whole);
    drop(recorder, step);
}
