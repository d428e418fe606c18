/* The scheduler's policy: what goes into the next step (the essay is in scheduler.c). */
#include "gateway/schedule/overlap_shape.h"
#include "gateway/schedule/pipeline_depth.h"
#include "gateway/schedule/scheduler_state.h"

#include <string.h>

/* Decode steps for each prefill step in the pipeline that may leave after one before decoding pauses for it.
 */
#define OVERTAKES_MAX 4u

/* Prompts that go whole share a step up to so many rows: more of them would hold up the first one's token. */
#define SHARED_ROWS_MAX 64u

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
 * without which nothing that was cancelled would ever land, and for decode steps beside those of prompts. */
static bool has_place(const lh_scheduler *s, lh_step_class step_class, uint32_t depth) {
    uint32_t kept = lh_release_depth() + (step_class == LH_STEP_PREFILL ? lh_decode_depth(s->stages) : 0);
    return lh_flight_table_count(s->flights, step_class) < depth &&
           lh_flight_table_total(s->flights) < LH_STEPS_OPEN_MAX - kept;
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
            s->decode_steps - f->decode_steps_before > OVERTAKES_MAX * s->prefill_depth)
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

/* ---- Prompts
 * ----------------------------------------------------------------------------------------------------- */

static const lh_overlap_spec *spec_of(const lh_scheduler *s, const lh_sequence *sequence) {
    return sequence->has_overlap ? &sequence->overlap : &s->options.overlap;
}

/* Made when its first rows are to leave, and once more for what is left where the chain is not what it was. */
static const lh_overlap_plan *plan_of(lh_scheduler *s, lh_sequence *sequence) {
    bool is_first = !sequence->has_plan;
    bool is_stale = sequence->plan.revision != lh_overlap_planner_revision(s->planner);
    if (is_first || is_stale) {
        bool follows = lh_flight_table_count(s->flights, LH_STEP_PREFILL) > 0;
        lh_overlap_planner_plan(s->planner, spec_of(s, sequence), sequence->fed,
                                lh_sequence_pending(sequence), follows, &sequence->plan);
        sequence->has_plan = true;
    }
    if (is_first) {
        sequence->predicted_us = sequence->plan.predicted_us;
        sequence->bound_us = sequence->plan.bound_us;
    }
    return &sequence->plan;
}

static bool is_short(const lh_scheduler *s, const lh_sequence *sequence) {
    return sequence->fed == 0 && spec_of(s, sequence)->mode == LH_OVERLAP_AUTO &&
           lh_sequence_pending(sequence) <= lh_least(SHARED_ROWS_MAX, s->options.rows_max);
}

/* As planned; but short prompts that are not alone go whole: they fill the pipe by their number, and sharing steps gets all
 * of them through sooner than cutting each for itself. */
static uint32_t chunk_of(lh_scheduler *s, lh_sequence *sequence, bool is_alone) {
    const lh_overlap_plan *plan = plan_of(s, sequence);
    uint32_t pending = lh_sequence_pending(sequence);
    if (!is_alone && is_short(s, sequence))
        return pending;
    return lh_least(lh_overlap_plan_rows_at(plan, sequence->fed, s->options.rows_max), pending);
}

static bool is_whole(const lh_sequence *sequence, uint32_t chunk) {
    return sequence->fed == 0 && chunk == lh_sequence_pending(sequence);
}

/* Without overlap a chunk leaves when the one before it has come around. */
static bool waits_for_itself(lh_scheduler *s, const lh_sequence *sequence) {
    if (!sequence->plan.is_serial || sequence->fed == 0)
        return false;
    for (lh_flight *f = NULL; (f = lh_flight_table_next(s->flights, f));)
        if (!f->is_through && lh_flight_holds(f, sequence))
            return true;
    return false;
}

static void use_cuts(lh_scheduler *s, const lh_overlap_plan *plan) {
    for (uint32_t h = 0; h < plan->cut_count; h++)
        if (plan->cuts[h])
            s->cut_count = s->stages - 1;
    for (uint32_t h = 0; h < s->cut_count; h++)
        s->cuts[h] = lh_overlap_cut(h < plan->cut_count ? plan->cuts[h] : 0, s->options.width);
}

static void add_chunk(lh_scheduler *s, lh_sequence *sequence, uint32_t rows) {
    lh_step_builder_add(s->builder, sequence, rows);
    if (lh_sequence_pending(sequence) == 0)
        begin_sampling(s, sequence, LH_STEP_PREFILL);
}

/* Further prompts that go whole, too. */
static void add_company(lh_scheduler *s, lh_flight *flight) {
    for (lh_sequence *sequence; (sequence = s->prefill.first);) {
        if (!may_join(flight, sequence) || !is_whole(sequence, chunk_of(s, sequence, false)) ||
            lh_step_builder_room(s->builder, sequence) < lh_sequence_pending(sequence))
            return;
        add_chunk(s, sequence, lh_sequence_pending(sequence));
    }
}

/* The next chunk of the first prompt, first come first served; short ones share a step. */
static void fill_prefill(lh_scheduler *s, lh_flight *flight) {
    lh_sequence *first = s->prefill.first;
    bool is_alone = s->prefill.count == 1 && lh_flight_table_count(s->flights, LH_STEP_PREFILL) == 0;
    uint32_t chunk = first ? chunk_of(s, first, is_alone) : 0, limit = chunk;
    bool has_company = first && is_whole(first, chunk);
    if (has_company && limit < SHARED_ROWS_MAX)
        limit = lh_least(SHARED_ROWS_MAX, s->options.rows_max);
    lh_step_builder_begin(s->builder, flight, LH_STEP_PREFILL, limit);
    if (!first || !has_place(s, LH_STEP_PREFILL, first->plan.depth) || waits_for_itself(s, first))
        return;
    s->prefill_depth = first->plan.depth;
    use_cuts(s, &first->plan);
    add_chunk(s, first, chunk);
    if (has_company)
        add_company(s, flight);
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
    s->cut_count = 0;
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
    manifest->cut_count = s->cut_count;
    manifest->cuts = s->cuts;
    return true;
}
