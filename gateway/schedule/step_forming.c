/* What goes into the next step (the essay is in scheduler.c): admission, then decode rows, else a piece of a prompt;
 * releases ride along. */
#include "gateway/schedule/step_forming.h"

#include "gateway/schedule/pipeline_depth.h"

bool lh_forming_may_join(const lh_flight *flight, const lh_sequence *sequence) {
    return flight->segment_count == 0 ||
           (!lh_sequence_is_suspect(sequence) && !lh_sequence_is_suspect(flight->segments[0].sequence));
}

void lh_forming_begin_sampling(lh_scheduler *s, lh_sequence *sequence, lh_step_class step_class) {
    sequence->sampling_class = step_class;
    lh_scheduler_move(s, sequence, LH_SEQUENCE_SAMPLING);
}

/* Whether the pipeline takes one more step with rows of this class. Some places are kept for releases,
 * without which nothing that was cancelled would ever land, and for decode steps beside those of prompts. */
bool lh_forming_has_place(const lh_scheduler *s, lh_step_class step_class, uint32_t depth) {
    uint32_t kept = lh_release_depth() + (step_class == LH_STEP_PREFILL ? LH_DECODE_DEPTH_MAX : 0);
    return lh_flight_table_count(s->flights, step_class) < depth &&
           lh_flight_table_total(s->flights) < LH_STEPS_OPEN_MAX - kept;
}

/* They ride along, or go by themselves: not more than a few such steps at a time. */
static void fill_releases(lh_scheduler *s, const lh_flight *flight) {
    if (flight->rows > 0 || lh_flight_table_empties(s->flights) < lh_release_depth())
        lh_step_builder_add_releases(s->builder);
}

static void launch(lh_scheduler *s, lh_flight *flight, int64_t now_us, lh_step_manifest *manifest) {
    if (lh_flight_table_total(s->flights) == 0)
        s->progress_us = now_us;
    lh_flight_table_launch(s->flights, flight, s->next_step++, now_us);
    lh_scheduler_expect_back(s, flight, now_us);
    s->figures.steps++;
    s->figures.rows += flight->rows;
    *manifest = lh_step_builder_manifest(s->builder, s->epoch, flight->step);
}

/* The first step of its epoch: it is of the class that nothing overtakes. */
static void call_roll(lh_scheduler *s, int64_t now_us, lh_step_manifest *manifest) {
    lh_flight *flight = lh_flight_table_blank(s->flights);
    s->owes_roll_call = false;
    lh_step_builder_begin(s->builder, flight, LH_STEP_DECODE, 0);
    launch(s, flight, now_us, manifest);
    manifest->calls_roll = true;
    manifest->release_count = lh_kv_store_call_roll(s->store, s->roll, LH_STEP_RELEASES_MAX);
    manifest->releases = s->roll;
}

static void count_replayed(lh_scheduler *s, const lh_flight *flight) {
    for (uint32_t i = 0; i < flight->segment_count; i++) {
        const lh_flight_segment *segment = &flight->segments[i];
        uint32_t first = segment->first_position, end = first + segment->rows;
        uint32_t *reached = &segment->sequence->reached;
        if (*reached > first)
            s->figures.replayed_rows += lh_least(*reached, end) - first;
        *reached = end > *reached ? end : *reached;
    }
}

bool lh_scheduler_next_step(lh_scheduler *scheduler, int64_t now_us, lh_step_manifest *manifest) {
    lh_scheduler *s = scheduler;
    if (!s->is_up || s->has_fault)
        return false;
    if (s->owes_roll_call) {
        call_roll(s, now_us, manifest);
        return true;
    }
    lh_scheduler_expire(s, now_us);
    lh_scheduler_supply_pages(s);
    lh_scheduler_admit(s, now_us);
    lh_flight *flight = lh_flight_table_blank(s->flights);
    if (!flight)
        return false;
    s->cut_count = s->reach = 0;
    lh_forming_fill_decode(s, flight);
    fill_releases(s, flight);
    if (flight->rows == 0 && flight->release_count == 0) {
        lh_forming_fill_prefill(s, flight);
        fill_releases(s, flight);
    }
    if (flight->rows == 0 && flight->release_count == 0)
        return false;
    s->decode_steps += flight->step_class == LH_STEP_DECODE && flight->rows > 0;
    count_replayed(s, flight);
    launch(s, flight, now_us, manifest);
    manifest->timed = lh_flight_is_traced(flight);
    manifest->cut_count = s->cut_count;
    manifest->cuts = s->cuts;
    manifest->reach = s->reach;
    return true;
}
