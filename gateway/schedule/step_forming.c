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

bool lh_scheduler_next_step(lh_scheduler *scheduler, int64_t now_us, lh_step_manifest *manifest) {
    lh_scheduler *s = scheduler;
    if (!s->is_up || s->has_fault)
        return false;
    lh_scheduler_expire(s, now_us);
    lh_scheduler_supply_pages(s);
    lh_scheduler_admit(s, now_us);
    lh_flight *flight = lh_flight_table_blank(s->flights);
    if (!flight)
        return false;
    s->cut_count = 0;
    lh_forming_fill_decode(s, flight);
    fill_releases(s, flight);
    if (flight->rows == 0 && flight->release_count == 0) {
        lh_forming_fill_prefill(s, flight);
        fill_releases(s, flight);
    }
    if (flight->rows == 0 && flight->release_count == 0)
        return false;
    if (lh_flight_table_total(s->flights) == 0)
        s->progress_us = now_us;
    s->decode_steps += flight->step_class == LH_STEP_DECODE && flight->rows > 0;
    lh_flight_table_launch(s->flights, flight, s->next_step++, now_us);
    lh_scheduler_expect_back(s, flight, now_us);
    s->figures.steps++;
    s->figures.rows += flight->rows;
    *manifest = lh_step_builder_manifest(s->builder, s->epoch, flight->step);
    manifest->timed = lh_flight_is_traced(flight);
    manifest->cut_count = s->cut_count;
    manifest->cuts = s->cuts;
    return true;
}
