/* Choosing for a chain. */
#include "gateway/fleet/chain_wires.h"

#include "common/base/log.h"

/* A slow link takes a second or two to be measured. A fast and long one may stay a bound until it
 * is used: that chain serves with what it has. */
#define MEASURING_PATIENCE_US 5000000

void lh_chain_wires_start(lh_chain_wires *wires, const lh_wire_policy *policy, uint32_t width) {
    *wires = (lh_chain_wires){.policy = *policy, .width = width};
    for (uint32_t i = 0; i < LH_PLAN_STAGES_MAX; i++)
        wires->types[i] = lh_wire_choice_first(policy);
}

void lh_chain_wires_apply(const lh_chain_wires *wires, lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        chain->stages[i].wire = wires->types[i];
}

static void gather(const lh_chain_wires *wires, const lh_chain *chain, const lh_registry *registry,
                   lh_wire_stage *stages) {
    static const lh_compute_profile no_compute;
    static const lh_hop_profile no_hop;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        stages[i] = (lh_wire_stage){.compute = worker ? &worker->report.compute : &no_compute,
                                    .next = worker ? &worker->report.next : &no_hop,
                                    .wire = wires->types[i]};
    }
}

bool lh_chain_wires_choose(lh_chain_wires *wires, const lh_chain *chain,
                           const lh_registry *registry) {
    lh_wire_stage stages[LH_PLAN_STAGES_MAX];
    gather(wires, chain, registry, stages);
    if (!lh_wire_choice_make(&wires->policy, wires->width, stages, chain->stage_count))
        return false;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        if (stages[i].wire != wires->types[i])
            lh_log(LH_LOG_INFO, "fleet", "wire type changes chain=%s worker=%s from=%s to=%s",
                   chain->name, chain->stages[i].name, lh_wire_name(wires->types[i]),
                   lh_wire_name(stages[i].wire));
        wires->types[i] = stages[i].wire;
    }
    return true;
}

bool lh_chain_wires_are_awaited(lh_chain_wires *wires, const lh_chain *chain,
                                const lh_registry *registry, int64_t now_us) {
    lh_wire_stage stages[LH_PLAN_STAGES_MAX];
    if (chain->ready_us > 0)
        return false;
    if (wires->measuring_since_us == 0)
        wires->measuring_since_us = now_us;
    gather(wires, chain, registry, stages);
    return !lh_wire_choice_is_known(&wires->policy, wires->width, stages, chain->stage_count) &&
           now_us < wires->measuring_since_us + MEASURING_PATIENCE_US;
}
