/* The bytes that steps have on the wire of one hop, for the cost model, and the rate by which it is
 * planned: of a hop that is, or of one that might be. Thread: any. */
#pragma once

#include "common/protocol/wire_type.h"
#include "gateway/cost/cost_model.h"

typedef enum lh_hop_place {
    LH_HOP_FIRST, /* gateway to first worker: manifests */
    LH_HOP_INNER, /* between workers: manifests and activations */
    LH_HOP_LAST   /* last worker to gateway: tokens */
} lh_hop_place;

/* Fills the hop's bytes, and leaves its rate and delay. wire, width: of the activations of an inner
 * hop. */
void lh_cost_hop_set_bytes(lh_cost_hop *hop, lh_hop_place place, lh_wire_type wire, uint32_t width);

/* Where nothing has been measured: 100 Mbit/s. The outer hops carry a few hundred bytes a step, so
 * that it hardly matters; an inner one of which only a lower bound is known, since nothing has
 * filled it, is planned as one of this rate: cut as finely as the bound alone would ask for, a
 * prompt pays for each piece, and on a slow link chunks that suit this rate overlap nearly as
 * well. */
#define LH_HOP_UNKNOWN_BYTES_PER_US 12.5

/* The rate as measured, or that one where this is only known to be at least a lower one; 0 stays 0.
 */
static inline double lh_hop_planned_rate(double bytes_per_us, bool is_bound) {
    bool is_low = is_bound && bytes_per_us > 0 && bytes_per_us < LH_HOP_UNKNOWN_BYTES_PER_US;
    return is_low ? LH_HOP_UNKNOWN_BYTES_PER_US : bytes_per_us;
}
