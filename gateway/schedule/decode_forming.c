/* Decode steps: which sequences' next rows leave together, and how many such steps are under way. */
#include "gateway/schedule/pipeline_depth.h"
#include "gateway/schedule/step_forming.h"

/* A deal is good for so many steps: costs and positions change slowly. */
#define DEAL_STEPS 32u

/* Of those that decode, on average. */
static uint32_t position_of(const lh_scheduler *s) {
    uint64_t sum = 0;
    for (const lh_sequence *sequence = s->ready.first; sequence; sequence = sequence->next)
        sum += sequence->length;
    for (const lh_sequence *sequence = s->sampling.first; sequence; sequence = sequence->next)
        sum += sequence->length;
    return (uint32_t)(sum / (s->ready.count + s->sampling.count));
}

/* Into how many steps so many sequences are dealt. */
static uint32_t deal(lh_scheduler *s, uint32_t sequences) {
    lh_decode_deal *now = &s->deal;
    if (sequences == 0 || lh_overlap_planner_lacks(s->planner))
        return lh_decode_depth_unmeasured(s->stages);
    if (now->sequences != sequences || s->decode_steps - now->made_at >= DEAL_STEPS) {
        now->sequences = sequences;
        now->made_at = s->decode_steps;
        now->groups = lh_decode_groups_choose(lh_overlap_planner_chain(s->planner), position_of(s), sequences,
                                              LH_DECODE_DEPTH_MAX, s->options.rows_max);
    }
    return now->groups.count;
}

static bool is_prompt(const lh_sequence *sequence) {
    return sequence->state == LH_SEQUENCE_PREFILL || sequence->sampling_class == LH_STEP_PREFILL;
}

/* Whether one tenant has most of the chain, and a prompt of another's is on it. Workers do decode steps first: those of the
 * one would hold up the others' prompts, however few. With one such step under way at a time each stage does one for each
 * time around the ring, and the rest of its time is the prompts'. */
static bool yields(const lh_scheduler *s) {
    const lh_sequence_list *lists[] = {&s->prefill, &s->ready, &s->sampling};
    bool is_crowded = false, has_others_prompt = false;
    for (int i = 0; i < 3; i++)
        for (const lh_sequence *sequence = lists[i]->first; sequence; sequence = sequence->next) {
            bool crowds = lh_wait_queue_crowds(s->waiting, sequence);
            is_crowded |= crowds;
            has_others_prompt |= !crowds && is_prompt(sequence);
        }
    return is_crowded && has_others_prompt;
}

/* One row of each ready sequence, but no more than its share of the pipeline: the others are to fill the
 * other steps. */
void lh_forming_fill_decode(lh_scheduler *s, lh_flight *flight) {
    uint32_t decoding = s->ready.count + s->sampling.count;
    uint32_t depth = yields(s) ? 1 : deal(s, decoding);
    uint32_t group = lh_least((decoding + depth - 1) / depth, s->options.rows_max);
    lh_step_builder_begin(s->builder, flight, LH_STEP_DECODE, group);
    if (!lh_forming_has_place(s, LH_STEP_DECODE, depth))
        return;
    for (lh_sequence *sequence; (sequence = s->ready.first);) {
        if (!lh_forming_may_join(flight, sequence) || lh_step_builder_room(s->builder, sequence) == 0)
            return;
        if (!lh_scheduler_has_page(s, sequence))
            continue;
        lh_step_builder_add(s->builder, sequence, 1);
        lh_forming_begin_sampling(s, sequence, LH_STEP_DECODE);
    }
}
