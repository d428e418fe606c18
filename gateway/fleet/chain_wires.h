/* The wire types of a chain's hops, chosen from what its workers report. When they are chosen:
 *
 * - A chain that has been planned begins with what the policy gives where nothing is known.
 * - When all its workers hold their stages it is settled, once: where measurements call for other
 *   types, it forms again with those. The first chain of all may wait for its measurements; a later
 *   one does not, since sequences may be waiting for it.
 * - When it forms again for another reason, what is known by then counts, and the epoch is new
 *   anyway.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"
#include "gateway/fleet/wire_choice.h"

typedef struct lh_chain_wires {
    lh_wire_policy policy;
    uint32_t width; /* columns of an activation */
    lh_wire_type types[LH_PLAN_STAGES_MAX];
    bool is_settled;
    int64_t measuring_since_us; /* 0: not yet */
} lh_chain_wires;

/* For a chain with other stages. */
void lh_chain_wires_start(lh_chain_wires *wires, const lh_wire_policy *policy, uint32_t width);
/* Into the chain's stages. */
void lh_chain_wires_apply(const lh_chain_wires *wires, lh_chain *chain);
/* From the workers' last reports; returns whether a type has changed. A worker that is gone counts
 * as not measured. */
bool lh_chain_wires_choose(lh_chain_wires *wires, const lh_chain *chain,
                           const lh_registry *registry);
/* Whether a chain that could serve should rather wait for measurements; for some seconds at most.
 */
bool lh_chain_wires_are_awaited(lh_chain_wires *wires, const lh_chain *chain,
                                const lh_registry *registry, int64_t now_us);
