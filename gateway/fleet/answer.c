/* From the stages of two chains. */
#include "gateway/fleet/answer.h"

#include <assert.h>

/* How many times as often workers report while their chain forms, or its successor is prepared. */
#define FORMING_HASTE 5

static lh_assignment assignment_of(const lh_chain *chain, const lh_registry *registry,
                                   uint32_t index, uint32_t number) {
    bool has_next = index + 1 < chain->stage_count;
    const lh_worker *member;
    lh_assignment a = {.chain = chain->name,
                       .epoch = chain->epoch,
                       .stage = chain->stages[index],
                       .next =
                           has_next ? chain->stages[index + 1].way : (lh_way){.is_gateway = true},
                       .member = number,
                       .previous = index > 0 ? chain->stages[index - 1].name : NULL};
    for (uint32_t i = 0; lh_chain_member(chain, registry, index, i, &member); i++)
        a.member_addresses[i] = member ? member->report.member_address : "";
    return a;
}

static const char *why_it_stays(const lh_handover *handover) {
    if (lh_handover_successor(handover))
        return "others load what it holds";
    if (handover->problem[0])
        return handover->problem;
    return "its chain is being formed";
}

/* False: it has none. */
static bool find_assignment(const lh_handover_view *view, const char *name, lh_assignment *a) {
    uint32_t number;
    int index = lh_chain_find_member(view->chain, name, &number);
    if (index >= 0)
        *a = assignment_of(view->chain, view->registry, (uint32_t)index, number);
    return index >= 0;
}

/* What it is to do for the next chain. */
static void add_successor(const lh_handover *handover, const lh_handover_view *view,
                          const char *name, lh_fleet_answer *answer) {
    const lh_chain *next = lh_handover_successor(handover);
    uint32_t number;
    int task = lh_handover_task(handover, view->chain, name, &number, &answer->prepare_holds);
    int trial = lh_handover_trial(handover, view, name);
    answer->has_prepare = task >= 0;
    if (task >= 0)
        answer->prepare = assignment_of(next, view->registry, (uint32_t)task, number);
    answer->has_trial = trial >= 0;
    if (trial >= 0)
        answer->trial = assignment_of(next, view->registry, (uint32_t)trial, 0);
}

void lh_answer_make(const lh_fleet_options *options, const lh_handover *handover,
                    const lh_handover_view *view, const lh_worker_report *report,
                    lh_fleet_answer *answer) {
    const lh_chain *chain = view->chain;
    lh_assignment assignment = {0};
    bool has_stage = find_assignment(view, report->name, &assignment);
    *answer = (lh_fleet_answer){.options = options,
                                .renew_us = options->renew_us,
                                .lease_us = options->lease_us,
                                .is_planned = chain->state != LH_CHAIN_NONE,
                                .has_assignment = has_stage,
                                .assignment = assignment,
                                .is_urgent = has_stage && view->sequences > 0,
                                .is_leaving = report->leaving,
                                .may_go = report->leaving && !has_stage};
    add_successor(handover, view, report->name, answer);
    if (report->leaving)
        answer->leave_reason = has_stage ? why_it_stays(handover) : "it has no part in a chain";
    bool is_awaited =
        has_stage && (chain->state != LH_CHAIN_READY || lh_handover_successor(handover));
    if (is_awaited || answer->has_prepare || answer->has_trial)
        answer->renew_us /= FORMING_HASTE;
}

void lh_answer_add_cover(lh_fleet_answer *answer, const lh_chain *chain, uint32_t first_layer,
                         uint32_t last_layer, uint64_t bytes_per_s) {
    assert(!answer->has_prepare && chain->stage_count > 0 && first_layer < last_layer);
    answer->has_prepare = true;
    answer->prepare_holds = false;
    answer->prepare_bytes_per_s = bytes_per_s;
    answer->prepare = (lh_assignment){.chain = chain->name,
                                      .stage = {.first_layer = first_layer,
                                                .last_layer = last_layer,
                                                .wire = chain->stages[0].wire}};
}
