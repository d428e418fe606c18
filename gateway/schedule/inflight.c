/* Steps in flight: a few dozen records, so that a linear search is the fastest.
 *
 * When a step is overdue. A hop may stand still without being silent: its PINGs are answered, but
 * the end of a step's body was lost to a flipped bit, so the next stage waits for bytes that nobody
 * will send. No answer comes then, and no error. What a step should take is known, though, where
 * the stages and hops have been measured: at worst all steps that are under way go one after the
 * other, without any overlap. One that takes TIMES as long, and a tenth of the step timeout at
 * least, is a fault of the chain.
 *
 * What must not look like one:
 *  - Something became slow while the step was under way: it is judged by what is known when it is
 *    due, not by what was known when it left.
 *  - Nobody here looked: the gateway itself was stopped, and what came is still to be read. Then it
 *    is looked at again later.
 *  - The estimate is wrong, as where others took the processors. Each such fault doubles the
 *    patience until a step with rows has come back, up to the step timeout. */
#include "gateway/schedule/inflight.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/pipeline_depth.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define TIMES         20.0
#define TIMEOUT_PART  10 /* of the step timeout: the least */
#define DOUBLINGS_MAX 4u
#define LONGEST_US    3.6e9
/* A tick may come so late when the machine is busy. */
#define LATE_US 500000

struct lh_inflight {
    lh_inflight_options options;
    uint64_t next_step;
    /* under way by class, those without rows, and all whose answer is due */
    uint32_t under_way[2], empties, total;
    /* since it left, no other one with rows has been under way; 0: there is none */
    uint64_t lone_step;
    uint32_t end;                  /* steps[end] and those behind it are free */
    uint32_t overdue_faults;       /* since rows last came back; at most DOUBLINGS_MAX */
    lh_inflight_segment *segments; /* [steps_max][segments_max] */
    lh_block_table **truncations;  /* [steps_max][LH_INFLIGHT_TRUNCATIONS_MAX] */
    lh_kept_mask **mask_drops;     /* [steps_max][LH_STEP_MASK_DROPS_MAX] */
    lh_inflight_step steps[];
};

lh_status lh_inflight_create(const lh_inflight_options *options, lh_inflight **inflight,
                             lh_error *error) {
    uint32_t steps_max = options->steps_max, segments_max = options->segments_max;
    lh_inflight *made = calloc(1, sizeof *made + steps_max * sizeof made->steps[0]);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u steps", steps_max);
    made->options = *options;
    made->next_step = 1;
    made->segments = calloc((size_t)steps_max * segments_max, sizeof *made->segments);
    made->truncations =
        calloc((size_t)steps_max * LH_INFLIGHT_TRUNCATIONS_MAX, sizeof *made->truncations);
    made->mask_drops = calloc((size_t)steps_max * LH_STEP_MASK_DROPS_MAX, sizeof *made->mask_drops);
    if (!made->segments || !made->truncations || !made->mask_drops) {
        lh_inflight_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u steps of %u sequences", steps_max,
                       segments_max);
    }
    for (uint32_t i = 0; i < steps_max; i++) {
        made->steps[i].segments = made->segments + (size_t)i * segments_max;
        made->steps[i].truncations = made->truncations + (size_t)i * LH_INFLIGHT_TRUNCATIONS_MAX;
        made->steps[i].mask_drops = made->mask_drops + (size_t)i * LH_STEP_MASK_DROPS_MAX;
    }
    *inflight = made;
    return LH_OK;
}

void lh_inflight_destroy(lh_inflight *inflight) {
    if (!inflight)
        return;
    free(inflight->segments);
    free(inflight->truncations);
    free(inflight->mask_drops);
    free(inflight);
}

/* Walks the steps in flight: NULL starts, NULL ends. The order is that of the records. */
static lh_inflight_step *next_of(const lh_inflight *inflight, const lh_inflight_step *step) {
    uint32_t i = step ? (uint32_t)(step - inflight->steps) + 1 : 0;
    for (; i < inflight->end; i++)
        if (inflight->steps[i].step != 0)
            return (lh_inflight_step *)&inflight->steps[i];
    return NULL;
}

/* ---- What a step may take ---- */

static int64_t least_us(const lh_inflight *inflight) {
    return inflight->options.step_timeout_us / TIMEOUT_PART;
}

/* Alone on the chain, as one piece. */
static double alone_us(const lh_cost_chain *costs, const lh_inflight_step *step) {
    uint32_t position = 0;
    for (uint32_t i = 0; i < step->segment_count; i++)
        position = lh_max_u32(position, step->segments[i].first_position + step->segments[i].rows);
    if (step->rows == 0)
        return 0;
    return step->step_class == LH_STEP_DECODE
               ? lh_cost_decode_step(costs, position, step->rows).ring_us
               : lh_cost_off_us(costs, position, step->rows, step->rows);
}

/* What is under way may take so long, one step after the other. */
static int64_t patience_us(const lh_inflight *inflight) {
    double us = 0;
    for (const lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        us += step->alone_us;
    double least = (double)least_us(inflight), most = least * (1u << DOUBLINGS_MAX);
    double doubled = fmax(us * TIMES, least) * (1u << inflight->overdue_faults);
    return (int64_t)fmin(fmax(us * TIMES, fmin(doubled, most)), LONGEST_US);
}

/* ---- Leaving ---- */

lh_inflight_step *lh_inflight_blank(lh_inflight *inflight) {
    for (uint32_t i = 0; i < inflight->options.steps_max; i++) {
        lh_inflight_step *step = &inflight->steps[i];
        if (step->step == 0) {
            *step = (lh_inflight_step){.segments = step->segments,
                                       .truncations = step->truncations,
                                       .mask_drops = step->mask_drops};
            return step;
        }
    }
    return NULL;
}

static uint32_t *counter_of(lh_inflight *inflight, const lh_inflight_step *step) {
    return step->rows == 0 ? &inflight->empties : &inflight->under_way[step->step_class];
}

static void count_down(uint32_t *counter) {
    assert(*counter > 0);
    --*counter;
}

static bool has_rows_under_way(const lh_inflight *inflight) {
    return inflight->under_way[LH_STEP_DECODE] + inflight->under_way[LH_STEP_PREFILL] > 0;
}

void lh_inflight_launch(lh_inflight *inflight, lh_inflight_step *step, int64_t now_us) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(inflight->options.planner);
    assert(step->step == 0 && !step->is_through);
    step->step = inflight->next_step++;
    inflight->end = lh_max_u32(inflight->end, (uint32_t)(step - inflight->steps) + 1);
    step->submitted_us = now_us;
    if (step->rows > 0)
        inflight->lone_step = has_rows_under_way(inflight) ? 0 : step->step;
    ++*counter_of(inflight, step);
    inflight->total++;
    step->alone_us = costs ? alone_us(costs, step) : 0;
    step->due_us = costs ? now_us + patience_us(inflight) : INT64_MAX;
}

bool lh_inflight_has_place(const lh_inflight *inflight, lh_step_class step_class, uint32_t depth) {
    uint32_t kept = LH_TRUNCATION_DEPTH + (step_class == LH_STEP_PREFILL ? LH_DECODE_DEPTH_MAX : 0);
    return inflight->under_way[step_class] < depth &&
           inflight->total < inflight->options.steps_max - kept;
}

uint32_t lh_inflight_count(const lh_inflight *inflight, lh_step_class step_class) {
    return inflight->under_way[step_class];
}

uint32_t lh_inflight_empties(const lh_inflight *inflight) {
    return inflight->empties;
}

uint32_t lh_inflight_total(const lh_inflight *inflight) {
    return inflight->total;
}

/* ---- Coming back ---- */

lh_inflight_step *lh_inflight_find(const lh_inflight *inflight, uint64_t step) {
    for (lh_inflight_step *at = NULL; (at = next_of(inflight, at));)
        if (at->step == step)
            return at;
    return NULL;
}

lh_inflight_segment *lh_inflight_step_awaits(lh_inflight_step *step, const lh_step_result *result) {
    for (uint32_t i = 0; i < step->segment_count; i++) {
        lh_inflight_segment *segment = &step->segments[i];
        if (lh_block_table_number(segment->block_table) == result->sequence &&
            segment->first_position + segment->rows == result->position)
            return lh_row_due_is_any(&segment->due) && !segment->has_come ? segment : NULL;
    }
    return NULL;
}

void lh_inflight_step_note_result(lh_inflight_step *step, lh_inflight_segment *segment) {
    assert(lh_row_due_is_any(&segment->due) && !segment->has_come && step->results_due > 0);
    segment->has_come = true;
    step->results_due--;
    lh_block_table_note_written(segment->block_table, segment->first_position + segment->rows);
}

double lh_inflight_times_as_long(const lh_inflight *inflight, const lh_inflight_step *step,
                                 int64_t now_us) {
    bool is_lone = step->step == inflight->lone_step && !step->is_through;
    return is_lone && step->alone_us > 0 && !step->draws_often
               ? (double)(now_us - step->submitted_us) / step->alone_us
               : 0;
}

void lh_inflight_pass(lh_inflight *inflight, lh_inflight_step *step) {
    assert(step->step != 0 && step->results_due == 0);
    if (step->is_through)
        return;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_inflight_segment *segment = &step->segments[i];
        lh_kv_store_pass(segment->block_table, segment->source,
                         segment->first_position + segment->rows, step->step_class);
        if (segment->brings_mask)
            lh_kept_mask_note_known(segment->mask);
    }
    count_down(counter_of(inflight, step));
    step->is_through = true;
}

/* Its record is free. */
static void remove_step(lh_inflight *inflight, lh_inflight_step *step) {
    for (uint32_t i = 0; i < step->segment_count; i++) {
        lh_kv_store_land(step->segments[i].block_table, step->segments[i].source, step->is_through,
                         step->step_class);
        if (step->segments[i].mask)
            lh_kept_mask_return(step->segments[i].mask);
    }
    if (!step->is_through)
        count_down(counter_of(inflight, step));
    count_down(&inflight->total);
    step->step = 0;
    while (inflight->end > 0 && inflight->steps[inflight->end - 1].step == 0)
        inflight->end--;
}

/* What it took away from the workers is gone. */
static void finish_taking(lh_inflight *inflight, const lh_inflight_step *step) {
    for (uint32_t i = 0; i < step->truncation_count; i++)
        lh_kv_store_finish_truncation(inflight->options.store, step->truncations[i]);
    for (uint32_t i = 0; i < step->mask_drop_count; i++)
        lh_mask_ledger_finish_drop(inflight->options.masks, step->mask_drops[i]);
}

/* A reset request is closed here at once, but its step may still be somewhere on the chain. It
 * counts as in flight until a step that went out after it has been taken by all: so the workers
 * never have more steps than they allocated for. */
static void land_cancelled(lh_inflight *inflight, uint64_t before) {
    for (lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        if (step->is_answered && step->step < before) {
            assert(step->is_cancelled && step->truncation_count + step->mask_drop_count == 0);
            remove_step(inflight, step);
        }
}

void lh_inflight_land(lh_inflight *inflight, lh_inflight_step *step) {
    uint64_t number = step->step;
    bool has_rows = step->rows > 0; /* what resynchronizes caches has none, and takes no time */
    lh_inflight_pass(inflight, step);
    remove_step(inflight, step);
    finish_taking(inflight, step);
    land_cancelled(inflight, number);
    if (has_rows)
        inflight->overdue_faults = 0;
}

void lh_inflight_drop_all(lh_inflight *inflight) {
    for (lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        remove_step(inflight, step);
    assert(inflight->total == 0 && inflight->empties == 0);
    assert(inflight->under_way[LH_STEP_DECODE] + inflight->under_way[LH_STEP_PREFILL] == 0);
    lh_mask_ledger_reset(inflight->options.masks);
    inflight->next_step = 1;
    inflight->lone_step = 0;
}

/* ---- Sequences ---- */

static bool step_holds(const lh_inflight_step *step, const lh_sequence *sequence) {
    for (uint32_t i = 0; i < step->segment_count; i++)
        if (step->segments[i].sequence == sequence)
            return true;
    return false;
}

bool lh_inflight_holds(const lh_inflight *inflight, const lh_sequence *sequence) {
    for (const lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        if (!step->is_through && step_holds(step, sequence))
            return true;
    return false;
}

void lh_inflight_detach(lh_inflight *inflight, const lh_sequence *sequence) {
    for (lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        for (uint32_t i = 0; i < step->segment_count; i++)
            if (step->segments[i].sequence == sequence)
                step->segments[i].sequence = NULL;
}

/* ---- What nobody needs any more ---- */

static bool is_awaited(const lh_inflight_step *step) {
    return !step->wants_cancel && !step->is_cancelled;
}

/* Rows of the same sequence, or such as fork from it: from positions of this segment, or from a
 * sequence that would not be there without it. */
static bool goes_on_from(const lh_inflight_step *later, const lh_inflight_segment *segment) {
    for (uint32_t i = 0; i < later->segment_count; i++) {
        const lh_inflight_segment *other = &later->segments[i];
        bool forks = other->source == segment->block_table &&
                     (segment->source || other->first_position > segment->first_position);
        if (other->block_table == segment->block_table || forks)
            return true;
    }
    return false;
}

/* A later step that goes on would not continue the positions of this one's sequences, if this one
 * were reset. */
static bool is_built_upon(const lh_inflight *inflight, const lh_inflight_step *step) {
    for (const lh_inflight_step *later = NULL; (later = next_of(inflight, later));) {
        if (later->step <= step->step || !is_awaited(later))
            continue;
        for (uint32_t i = 0; i < step->segment_count; i++)
            if (goes_on_from(later, &step->segments[i]))
                return true;
    }
    return false;
}

/* Whether resetting the request of a step harms nobody: no live sequence is in it, no truncation or
 * drop of a mask, which would be lost, and nothing is built upon it or will be. */
static bool is_futile(const lh_inflight *inflight, const lh_inflight_step *step) {
    if (!is_awaited(step) || step->rows == 0 || step->truncation_count + step->mask_drop_count > 0)
        return false;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_inflight_segment *segment = &step->segments[i];
        if (segment->sequence || segment->has_come ||
            lh_block_table_is_pinned(segment->block_table))
            return false;
    }
    return !is_built_upon(inflight, step);
}

static lh_inflight_step *find_futile(const lh_inflight *inflight) {
    for (lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        if (is_futile(inflight, step))
            return step;
    return NULL;
}

void lh_inflight_cancel_futile(lh_inflight *inflight) {
    for (lh_inflight_step *futile; (futile = find_futile(inflight));)
        futile->wants_cancel = true;
}

bool lh_inflight_next_cancel(lh_inflight *inflight, uint64_t *step) {
    lh_inflight_step *last = NULL;
    for (lh_inflight_step *at = NULL; (at = next_of(inflight, at));)
        if (at->wants_cancel && (!last || at->step > last->step))
            last = at;
    if (!last)
        return false;
    assert(!last->is_cancelled);
    last->wants_cancel = false;
    last->is_cancelled = true;
    *step = last->step;
    return true;
}

/* ---- Tracing ---- */

/* Its plan is told with its first rows. */
static void begin_part(lh_trace_part *part, const lh_inflight_segment *segment) {
    const lh_sequence_schedule *schedule = &segment->sequence->schedule;
    *part = (lh_trace_part){.trace = segment->sequence->request.trace,
                            .first_position = segment->first_position};
    if (!schedule->has_plan || !segment->is_first)
        return;
    part->predicted_us = (int64_t)schedule->plan.predicted_us;
    lh_overlap_plan_text(&schedule->plan, part->plan, sizeof part->plan);
}

/* A request with several choices may have several segments in a step. */
uint32_t lh_inflight_step_traced_parts(const lh_inflight_step *step, lh_trace_part *parts,
                                       uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_inflight_segment *segment = &step->segments[i];
        uint64_t trace = segment->sequence ? segment->sequence->request.trace : 0;
        uint32_t at = 0;
        while (at < count && parts[at].trace != trace)
            at++;
        if (trace == 0 || at == max)
            continue;
        if (at == count)
            begin_part(&parts[count++], segment);
        parts[at].rows += segment->rows;
        parts[at].draws += segment->due.draws;
        parts[at].shared += segment->is_first ? segment->first_position : 0;
    }
    return count;
}

uint32_t lh_inflight_step_believed_us(const lh_inflight *inflight, const lh_inflight_step *step,
                                      double *us) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(inflight->options.planner);
    if (!costs || step->step_class != LH_STEP_PREFILL || step->segment_count != 1)
        return 0;
    const lh_inflight_segment *rows = &step->segments[0];
    for (uint32_t s = 0; s < costs->stage_count; s++)
        us[s] = lh_cost_stage_us(&costs->stages[s], rows->first_position, rows->rows);
    us[costs->stage_count - 1] +=
        rows->due.draws ? costs->stages[costs->stage_count - 1].draw_us : 0;
    return costs->stage_count;
}

/* ---- What does not come back ---- */

int64_t lh_inflight_overdue_us(const lh_inflight *inflight) {
    int64_t due_us = INT64_MAX;
    for (const lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        if (is_awaited(step))
            due_us = lh_min_i64(due_us, step->due_us);
    return due_us;
}

/* By what is known now. */
static int64_t due_now_us(lh_inflight *inflight, const lh_inflight_step *step) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(inflight->options.planner);
    if (!costs)
        return INT64_MAX;
    for (lh_inflight_step *at = NULL; (at = next_of(inflight, at));)
        at->alone_us = alone_us(costs, at);
    return step->submitted_us + patience_us(inflight);
}

static bool is_overdue(lh_inflight *inflight, lh_inflight_step *step, int64_t now_us) {
    if (!is_awaited(step) || step->due_us > now_us)
        return false;
    bool is_seen_late = now_us - step->due_us > LATE_US;
    step->due_us = due_now_us(inflight, step);
    if (is_seen_late)
        step->due_us = lh_max_i64(step->due_us, now_us + least_us(inflight));
    return step->due_us <= now_us;
}

const lh_inflight_step *lh_inflight_find_overdue(lh_inflight *inflight, int64_t now_us) {
    for (lh_inflight_step *step = NULL; (step = next_of(inflight, step));)
        if (is_overdue(inflight, step, now_us)) {
            inflight->overdue_faults += inflight->overdue_faults < DOUBLINGS_MAX;
            return step;
        }
    return NULL;
}
