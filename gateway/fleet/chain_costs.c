/* Reports become costs. */
#include "gateway/fleet/chain_costs.h"

#include "gateway/cost/hop_bytes.h"

static lh_cost_hop hop_of(const lh_hop_profile *profile, lh_hop_place place, lh_wire_type wire,
                          uint32_t width) {
    lh_cost_hop hop = {
        .bytes_per_us = lh_hop_planned_rate(profile->bytes_per_us, profile->bytes_per_us_is_bound),
        .delay_us = (double)profile->round_trip_us / 2,
        .ready_bytes = profile->ready_bytes};
    lh_cost_hop_set_bytes(&hop, place, wire, width);
    return hop;
}

/* Through a relay: its leg to the worker is a part of the hop, and what comes on one leg leaves on
 * the other at once. */
static void add_leg(lh_cost_hop *hop, const lh_relays *relays, const lh_chain_stage *stage) {
    lh_hop_profile leg;
    if (!stage->way.via[0] || !lh_relays_read_hop(relays, stage->way.via, stage->name, &leg))
        return;
    hop->delay_us += (double)leg.round_trip_us / 2;
    if (leg.bytes_per_us > 0 && !leg.bytes_per_us_is_bound && leg.bytes_per_us < hop->bytes_per_us)
        hop->bytes_per_us = leg.bytes_per_us;
}

static void assume_rate(lh_cost_hop *hop) {
    if (hop->bytes_per_us == 0)
        hop->bytes_per_us = LH_HOP_UNKNOWN_BYTES_PER_US;
}

void lh_chain_costs_read(const lh_fleet *fleet, uint32_t width, const lh_hop_profile *first_hop,
                         lh_cost_chain *costs) {
    const lh_chain *chain = lh_fleet_chain(fleet);
    const lh_registry *registry = lh_fleet_registry(fleet);
    const lh_relays *relays = lh_fleet_relays(fleet);
    static const lh_hop_profile unknown;
    *costs = (lh_cost_chain){.stage_count = chain->stage_count,
                             .width = width,
                             .hops = {hop_of(first_hop, LH_HOP_FIRST, LH_WIRE_F32, width)}};
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, s);
        bool is_ready = lh_chain_stage_state(chain, registry, s) == LH_WORKER_READY;
        lh_hop_place place = s + 1 < chain->stage_count ? LH_HOP_INNER : LH_HOP_LAST;
        if (is_ready)
            costs->stages[s] = worker->report.compute;
        costs->hops[s + 1] =
            hop_of(is_ready ? &worker->report.next : &unknown, place, chain->stages[s].wire, width);
    }
    assume_rate(&costs->hops[0]);
    assume_rate(&costs->hops[chain->stage_count]);
    for (uint32_t s = 0; s < chain->stage_count; s++)
        add_leg(&costs->hops[s], relays, &chain->stages[s]);
}
