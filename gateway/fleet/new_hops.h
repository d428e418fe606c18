/* The hops that the next chain would have and the present one has not, and how the trials of them
 * stand (CONTROL.md, "Trying a hop"). A hop is meant by the stage to which it leads: 0 begins at
 * the gateway, the next chain's stage_count ends there. Pure; thread: any. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_new_hops {
    const lh_chain *present, *next;
    const lh_registry *registry;
    const lh_hop_trial_report *first; /* of the gateway's own trial */
} lh_new_hops;

/* Whether this hop is new. */
bool lh_new_hops_has(const lh_new_hops *hops, uint32_t hop);
/* How the trial of a new hop stands; NONE: nobody has said anything of it yet. */
lh_hop_trial_state lh_new_hops_state(const lh_new_hops *hops, uint32_t hop);
/* The first new hop whose trial has failed; -1: none has. */
int lh_new_hops_failed(const lh_new_hops *hops);
/* The first new hop that is not proven; -1: all are, or there is none. */
int lh_new_hops_unproven(const lh_new_hops *hops);
/* The stage whose worker is to be done without where this hop fails: the end that the present
 * chain has not; where that says nothing, the far one. */
uint32_t lh_new_hops_culprit(const lh_new_hops *hops, uint32_t hop);
/* "worker b does not reach worker attic at 10.0.0.3:7070: connection refused". */
void lh_new_hops_describe(const lh_new_hops *hops, uint32_t hop, char *text, size_t bytes);
