/* The scheduler's policy: what goes into the next step (the essay is in scheduler.c). */
#include "gateway/pipeline_depth.h"
#include "gateway/scheduler_state.h"

#include <string.h>

/* Decode steps for each prefill step in the pipeline that may leave after one before decoding pauses for it.
 */
#define OVERTAKES_MAX 4u

/* From the head of the queue, in order: the first one that does not fit holds up the rest, so that a long one
 * is not overtaken for ever. */
static void admit(lh_scheduler *s) {
    for (lh_sequence *sequence; (sequence = s->waiting.first);) {
        uint32_t positions = lh_sequence_positions(sequence);
        if (positions > lh_kv_ledger_positions(&s->ledger)) {
            lh_scheduler_emit_failed(s, sequence, LH_ERR_UNAVAILABLE,
                                     "the KV cache of the workers that are left is too small");
            lh_scheduler_forget(s, sequence);
            continue;
        }
        if (lh_scheduler_running(s) + s->releasing.count >= s->options.sequences_max ||
            !lh_kv_ledger_promise(&s->ledger, positions))
            return;
        lh_scheduler_move(s, sequence, LH_SEQUENCE_PREFILL);
    }
}

static bool may_join(const lh_flight *flight, const lh_sequence *sequence) {
    return flight->segment_count == 0 ||
           (!lh_sequence_is_suspect(sequence) && !lh_sequence_is_suspect(flight->segments[0].sequence));
}

static void begin_sampling(lh_scheduler *s, lh_sequence *sequence, lh_step_class step_class) {
    sequence->sampling_class = step_class;
    lh_scheduler_move(s, sequence, LH_SEQUENCE_SAMPLING);
}

/* Whether the pipeline takes one more step with rows of this class. Some places are kept for releases,
 * without which nothing that was cancelled would ever land. */
static bool has_place(const lh_scheduler *s, lh_step_class step_class, uint32_t depth) {
    return lh_flight_table_count(s->flights, step_class) < depth &&
           lh_flight_table_total(s->flights) < lh_steps_open_max(s->stages) - lh_release_depth();
}

/* Workers run decode steps first. So that prompts get through nevertheless, there is one decode step less
 * while any are about, which leaves gaps at stages of equal speed; where the steps queue up at a slow stage
 * all the same, decoding pauses until the oldest prefill step has landed. */
static uint32_t decode_depth(lh_scheduler *s) {
    uint32_t depth = lh_decode_depth(s->stages);
    if (s->prefill.count == 0 && lh_flight_table_count(s->flights, LH_STEP_PREFILL) == 0)
        return depth;
    for (lh_flight *f = NULL; (f = lh_flight_table_next(s->flights, f));)
        if (f->step_class == LH_STEP_PREFILL && f->rows > 0 && !f->is_through &&
            s->decode_steps - f->decode_steps_before > OVERTAKES_MAX * lh_prefill_depth(s->stages))
            return 0;
    return depth > 1 ? depth - 1 : 1;
}

/* One row of each ready sequence, but no more than its share of the pipeline: the others are to fill the
 * other steps. */
static void fill_decode(lh_scheduler *s, lh_flight *flight) {
    uint32_t depth = decode_depth(s), decoding = s->ready.count + s->sampling.count;
    uint32_t group = depth ? lh_least((decoding + depth - 1) / depth, s->options.rows_max) : 0;
    lh_step_builder_begin(s->builder, flight, LH_STEP_DECODE, group);
    if (!has_place(s, LH_STEP_DECODE, depth))
        return;
    for (lh_sequence *sequence; (sequence = s->ready.first);) {
        if (!may_join(flight, sequence) || lh_step_builder_room(s->builder, sequence) == 0)
            return;
        lh_step_builder_add(s->builder, sequence, 1);
        begin_sampling(s, sequence, LH_STEP_DECODE);
    }
}

/* The next rows of the prompts, first come first served: several short ones share a step. */
static void fill_prefill(lh_scheduler *s, lh_flight *flight) {
    uint32_t chunk = s->options.chunk_rows ? s->options.chunk_rows : s->options.rows_max;
    lh_step_builder_begin(s->builder, flight, LH_STEP_PREFILL, lh_least(chunk, s->options.rows_max));
    if (!has_place(s, LH_STEP_PREFILL, lh_prefill_depth(s->stages)))
        return;
    for (lh_sequence *sequence; (sequence = s->prefill.first);) {
        uint32_t rows = may_join(flight, sequence) ? lh_step_builder_room(s->builder, sequence) : 0;
        if (rows == 0)
            return;
        lh_step_builder_add(s->builder, sequence, rows);
        if (lh_sequence_pending(sequence) > 0)
            return;
        begin_sampling(s, sequence, LH_STEP_PREFILL);
    }
}

static void fill_releases(lh_scheduler *s, lh_flight *flight) {
    lh_step_class step_class = flight->step_class;
    lh_sequence **queue = s->release_queue[step_class];
    uint32_t taken = 0, count = s->release_count[step_class];
    if (flight->rows == 0 && lh_flight_table_empties(s->flights) >= lh_release_depth())
        return;
    while (taken < count && lh_step_builder_release(s->builder, queue[taken]))
        taken++;
    memmove(queue, queue + taken, (count - taken) * sizeof *queue);
    s->release_count[step_class] -= taken;
}

bool lh_scheduler_next_step(lh_scheduler *scheduler, int64_t now_us, lh_step_manifest *manifest) {
    lh_scheduler *s = scheduler;
    if (!s->is_up || s->has_fault)
        return false;
    admit(s);
    lh_flight *flight = lh_flight_table_blank(s->flights);
    if (!flight)
        return false;
    fill_decode(s, flight);
    fill_releases(s, flight);
    if (flight->rows == 0 && flight->release_count == 0) {
        fill_prefill(s, flight);
        fill_releases(s, flight);
    }
    if (flight->rows == 0 && flight->release_count == 0)
        return false;
    if (lh_flight_table_total(s->flights) == 0)
        s->progress_us = now_us;
    flight->decode_steps_before = s->decode_steps;
    s->decode_steps += flight->step_class == LH_STEP_DECODE && flight->rows > 0;
    lh_flight_table_launch(s->flights, flight, s->next_step++, now_us);
    s->figures.steps++;
    s->figures.rows += flight->rows;
    *manifest = lh_step_builder_manifest(s->builder, s->epoch, flight->step);
    manifest->timed = lh_flight_is_traced(flight);
    if (flight->rows > 0 && s->options.column_shards > 1) {
        manifest->cut_count = s->stages - 1;
        manifest->cuts = s->cuts;
    }
    return true;
}
