/* From the stages of two chains. */
#include "gateway/fleet/answer.h"

/* How many times as often workers report while their chain forms, or its successor is prepared. */
#define FORMING_HASTE 5

static lh_assignment assignment_of(const lh_chain *chain, uint32_t index) {
    bool has_next = index + 1 < chain->stage_count;
    return (lh_assignment){.chain = chain->name,
                           .epoch = chain->epoch,
                           .stage = chain->stages[index],
                           .next = chain->stages[has_next ? index + 1 : index],
                           .has_next = has_next,
                           .previous = index > 0 ? chain->stages[index - 1].name : NULL};
}

static const char *why_it_stays(const lh_handover *handover) {
    if (lh_handover_successor(handover))
        return "others load what it holds";
    if (handover->problem[0])
        return handover->problem;
    return "its chain is being formed";
}

void lh_answer_make(const lh_fleet_options *options, const lh_handover *handover,
                    const lh_handover_view *view, const lh_worker_report *report,
                    lh_fleet_answer *answer) {
    const lh_chain *chain = view->chain;
    int index = lh_chain_find(chain, report->name);
    bool has_stage = index >= 0;
    *answer = (lh_fleet_answer){.options = options,
                                .renew_us = options->renew_us,
                                .lease_us = options->lease_us,
                                .is_planned = chain->state != LH_CHAIN_NONE,
                                .has_assignment = has_stage,
                                .is_urgent = has_stage && view->sequences > 0,
                                .is_leaving = report->leaving,
                                .may_go = report->leaving && !has_stage};
    if (has_stage)
        answer->assignment = assignment_of(chain, (uint32_t)index);
    const lh_chain_stage *next =
        lh_handover_task(handover, chain, report->name, &answer->prepare_holds);
    answer->has_prepare = next;
    if (next)
        answer->prepare = *next;
    int trial = lh_handover_trial(handover, view, report->name);
    answer->has_trial = trial >= 0;
    if (trial >= 0)
        answer->trial = assignment_of(lh_handover_successor(handover), (uint32_t)trial);
    if (report->leaving)
        answer->leave_reason = has_stage ? why_it_stays(handover) : "it has no part in a chain";
    bool is_awaited =
        has_stage && (chain->state != LH_CHAIN_READY || lh_handover_successor(handover));
    if (is_awaited || next || trial >= 0)
        answer->renew_us /= FORMING_HASTE;
}
