/* What a worker is told. */
#include "gateway/fleet/fleet_state.h"

#include "gateway/schedule/pipeline_depth.h"

#include <string.h>

/* So many times as often do workers report while their chain forms, or its successor is prepared. */
#define FORMING_HASTE 5

static lh_assignment stage_of(const lh_fleet *fleet, const lh_chain_stage *stage) {
    return (lh_assignment){.first_layer = stage->first_layer,
                           .last_layer = stage->last_layer,
                           .layers = fleet->model->layers,
                           .context = fleet->options.context,
                           .rows_max = fleet->options.rows_max,
                           .steps_max = LH_WORKER_PANELS,
                           .has_q16 = fleet->options.has_q16,
                           .wire = stage->wire};
}

static void fill_assignment(const lh_fleet *fleet, int index, lh_fleet_answer *answer) {
    const lh_chain *chain = &fleet->chain;
    const lh_chain_stage *stage = &chain->stages[index];
    bool is_last = (uint32_t)index + 1 == chain->stage_count;
    answer->has_assignment = true;
    answer->is_urgent = fleet->sequences > 0;
    answer->assignment = stage_of(fleet, stage);
    answer->assignment.chain = chain->name;
    answer->assignment.epoch = chain->epoch;
    answer->assignment.kv_epoch = stage->kv_epoch;
    answer->assignment.next = is_last ? NULL : stage + 1;
}

static void fill_prepare(const lh_fleet *fleet, const char *worker, lh_fleet_answer *answer) {
    const lh_succession *succession = &fleet->succession;
    bool is_one = succession->cause != LH_SUCCESSION_NONE;
    int index = is_one ? lh_chain_find(&succession->chain, worker) : -1;
    if (index < 0 || !lh_fleet_must_prepare(fleet, (uint32_t)index))
        return;
    answer->has_prepare = true;
    answer->prepare_holds = succession->holds[index];
    answer->prepare = stage_of(fleet, &succession->chain.stages[index]);
}

static void fill_leave(const lh_fleet *fleet, bool has_stage, lh_fleet_answer *answer) {
    answer->is_leaving = true;
    answer->may_go = !has_stage;
    if (!has_stage)
        answer->leave_reason = "it has no part in a chain";
    else if (fleet->succession.cause != LH_SUCCESSION_NONE)
        answer->leave_reason = "others load what it holds";
    else if (fleet->succession.problem[0])
        answer->leave_reason = fleet->succession.problem;
    else
        answer->leave_reason = "its chain is being formed";
}

void lh_fleet_fill_answer(const lh_fleet *fleet, const lh_worker_report *report, lh_fleet_answer *answer) {
    const lh_chain *chain = &fleet->chain;
    int index = lh_chain_find(chain, report->name);
    *answer = (lh_fleet_answer){.renew_us = fleet->options.renew_us,
                                .lease_us = fleet->options.lease_us,
                                .is_planned = chain->state != LH_CHAIN_NONE};
    if (index >= 0)
        fill_assignment(fleet, index, answer);
    fill_prepare(fleet, report->name, answer);
    if (report->leaving)
        fill_leave(fleet, index >= 0, answer);
    bool is_awaited =
        index >= 0 && (chain->state != LH_CHAIN_READY || fleet->succession.cause != LH_SUCCESSION_NONE);
    if (is_awaited || answer->has_prepare)
        answer->renew_us /= FORMING_HASTE;
}
