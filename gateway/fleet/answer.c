/* From the stages of two chains. */
#include "gateway/fleet/answer.h"

#include "gateway/cost/pipeline_depth.h"

/* How many times as often workers report while their chain forms, or its successor is prepared. */
#define FORMING_HASTE 5

static lh_assignment stage_of(const lh_answer_terms *terms, const lh_chain_stage *stage) {
    return (lh_assignment){.first_layer = stage->first_layer,
                           .last_layer = stage->last_layer,
                           .layers = terms->layers,
                           .context = terms->context,
                           .rows_max = terms->rows_max,
                           .steps_max = LH_WORKER_BUFFERS,
                           .has_q16 = terms->has_q16,
                           .wire = stage->wire};
}

static lh_assignment assignment_of(const lh_answer_terms *terms, const lh_chain *chain,
                                   uint32_t index) {
    const lh_chain_stage *stage = &chain->stages[index];
    lh_assignment assignment = stage_of(terms, stage);
    assignment.chain = chain->name;
    assignment.epoch = chain->epoch;
    assignment.kv_epoch = stage->kv_epoch;
    assignment.next = index + 1 == chain->stage_count ? NULL : stage + 1;
    return assignment;
}

static const char *why_it_stays(const lh_handover *handover) {
    if (lh_handover_successor(handover))
        return "others load what it holds";
    if (lh_handover_problem(handover)[0])
        return lh_handover_problem(handover);
    return "its chain is being formed";
}

void lh_answer_make(const lh_answer_terms *terms, const lh_chain *chain,
                    const lh_handover *handover, bool has_load, const lh_worker_report *report,
                    lh_fleet_answer *answer) {
    int index = lh_chain_find(chain, report->name);
    bool has_stage = index >= 0;
    *answer = (lh_fleet_answer){.renew_us = terms->renew_us,
                                .lease_us = terms->lease_us,
                                .is_planned = chain->state != LH_CHAIN_NONE,
                                .has_assignment = has_stage,
                                .is_urgent = has_stage && has_load,
                                .is_leaving = report->leaving,
                                .may_go = report->leaving && !has_stage};
    if (has_stage)
        answer->assignment = assignment_of(terms, chain, (uint32_t)index);
    const lh_chain_stage *next =
        lh_handover_task(handover, chain, report->name, &answer->prepare_holds);
    answer->has_prepare = next;
    if (next)
        answer->prepare = stage_of(terms, next);
    if (report->leaving)
        answer->leave_reason = has_stage ? why_it_stays(handover) : "it has no part in a chain";
    bool is_awaited =
        has_stage && (chain->state != LH_CHAIN_READY || lh_handover_successor(handover));
    if (is_awaited || next)
        answer->renew_us /= FORMING_HASTE;
}
