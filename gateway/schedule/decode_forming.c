/* Decode steps: which sequences' next rows leave together, and how many such steps are under way. */
#include "gateway/schedule/fair_share.h"
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

/* While a prompt of another is under way, whose turn is before that of the tenant that has most of the chain, the rows of that one
 * leave once for so many steps of prompts. */
#define CROWD_SHARE 4u

/* Of the tenant that has most of the chain; NULL: none has. */
static const lh_share *crowd_of(const lh_scheduler *s) {
    const lh_sequence_list *lists[] = {&s->prefill, &s->ready, &s->sampling};
    for (int i = 0; i < 3; i++)
        for (const lh_sequence *sequence = lists[i]->first; sequence; sequence = sequence->next)
            if (lh_wait_queue_crowds(s->waiting, sequence))
                return sequence->share;
    return NULL;
}

/* Whether a prompt is on the chain of one whose turn is before that of the crowd. Workers do decode steps first: those of the
 * crowd would hold up the other's prompt, however few. So no more than one is under way then, and not always one. */
static bool yields(const lh_scheduler *s, const lh_share *crowd) {
    const lh_sequence_list *lists[] = {&s->prefill, &s->ready, &s->sampling};
    for (int i = 0; i < 3; i++)
        for (const lh_sequence *sequence = lists[i]->first; sequence; sequence = sequence->next)
            if (sequence->share != crowd && is_prompt(sequence) && lh_share_precedes(sequence->share, crowd))
                return true;
    return false;
}

/* One row of each ready sequence, but no more than its share of the pipeline: the others are to fill the
 * other steps. */
void lh_forming_fill_decode(lh_scheduler *s, lh_flight *flight) {
    const lh_share *crowd = crowd_of(s);
    bool has_to_yield = crowd && yields(s, crowd);
    bool stays = has_to_yield && s->prompts_since_crowd < CROWD_SHARE;
    uint32_t decoding = s->ready.count + s->sampling.count;
    uint32_t depth = has_to_yield ? 1 : deal(s, decoding);
    uint32_t group = lh_least((decoding + depth - 1) / depth, s->options.rows_max);
    lh_step_builder_begin(s->builder, flight, LH_STEP_DECODE, group);
    if (!lh_forming_has_place(s, LH_STEP_DECODE, depth))
        return;
    for (lh_sequence *sequence = s->ready.first, *next; sequence; sequence = next) {
        next = sequence->next;
        if (stays && sequence->share == crowd)
            continue;
        if (!lh_forming_may_join(flight, sequence) || lh_step_builder_room(s->builder, sequence) == 0)
            return;
        if (!lh_scheduler_has_page(s, sequence))
            continue;
        if (sequence->share == crowd)
            s->prompts_since_crowd = 0;
        lh_step_builder_add(s->builder, sequence, 1);
        lh_forming_begin_sampling(s, sequence, LH_STEP_DECODE);
    }
}
