/* The bytes that steps have on the wire of one hop, for the cost model: of a hop that is, or of one
 * that might be. Thread: any. */
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
