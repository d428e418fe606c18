/* Reports become costs. */
#include "gateway/fleet/chain_costs.h"

/* Bytes around what a step carries: HEADERS, most of them from the table, and the heads of the
 * first and the last DATA frame. */
#define REQUEST_BYTES 68.0
/* The heads of the frame, of the shard in it, and of a DATA frame. */
#define SHARD_HEAD_BYTES 49.0

/* Where nothing has been measured. The outer hops carry a few hundred bytes a step, so that it
 * hardly matters; an inner one of which only a lower bound is known, since nothing has filled it,
 * is planned as one of this rate: cut as finely as the bound alone would ask for, a prompt pays for
 * each piece, and on a slow link chunks that suit this rate overlap nearly as well. */
#define UNKNOWN_BYTES_PER_US 12.5 /* 100 Mbit/s */

/* Of that many segments of that many rows. */
static double manifest_bytes(uint32_t rows, uint32_t segments, bool draws) {
    const lh_step_segment segment = {.rows = rows, .sample = draws};
    return (double)lh_step_manifest_bytes(
        &(lh_step_manifest){.rows = rows, .segment_count = segments, .segments = &segment});
}

static double results_bytes(uint32_t count) {
    return (double)lh_step_results_bytes(&(lh_step_result){.sequence = 0}, count);
}

static lh_cost_hop hop_of(const lh_hop_profile *profile) {
    bool is_low = profile->bytes_per_us_is_bound && profile->bytes_per_us > 0 &&
                  profile->bytes_per_us < UNKNOWN_BYTES_PER_US;
    return (lh_cost_hop){.bytes_per_us = is_low ? UNKNOWN_BYTES_PER_US : profile->bytes_per_us,
                         .delay_us = (double)profile->round_trip_us / 2,
                         .ready_bytes = profile->ready_bytes,
                         .step_bytes = REQUEST_BYTES + manifest_bytes(0, 1, false),
                         .step_row_bytes =
                             manifest_bytes(1, 0, false) - manifest_bytes(0, 0, false),
                         .draw_bytes = manifest_bytes(1, 1, true) - manifest_bytes(0, 0, false),
                         .shard_bytes = SHARD_HEAD_BYTES};
}

static void assume_rate(lh_cost_hop *hop) {
    if (hop->bytes_per_us == 0)
        hop->bytes_per_us = UNKNOWN_BYTES_PER_US;
}

void lh_chain_costs_read(const lh_fleet *fleet, uint32_t width, const lh_hop_profile *first_hop,
                         lh_cost_chain *costs) {
    const lh_chain *chain = lh_fleet_chain(fleet);
    const lh_registry *registry = lh_fleet_registry(fleet);
    *costs = (lh_cost_chain){
        .stage_count = chain->stage_count, .width = width, .hops = {hop_of(first_hop)}};
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, s);
        lh_cost_hop *hop = &costs->hops[s + 1];
        *hop = hop_of(&(lh_hop_profile){0});
        if (lh_chain_stage_state(chain, registry, s) == LH_WORKER_READY) {
            costs->stages[s] = worker->report.compute;
            *hop = hop_of(&worker->report.next);
        }
        if (s + 1 < chain->stage_count)
            hop->row_bytes = (double)lh_wire_bytes(chain->stages[s].wire, 1, width);
        else {
            hop->step_bytes = REQUEST_BYTES + manifest_bytes(0, 0, false) + results_bytes(1);
            hop->draw_bytes = results_bytes(1) - results_bytes(0);
        }
    }
    assume_rate(&costs->hops[0]);
    assume_rate(&costs->hops[chain->stage_count]);
}
