/* Which wire type each hop of a chain gets (PROTOCOL.md): decided when the chain has formed, fixed
 * for its epoch, since with a lossy type the tokens depend on it.
 *
 * auto: f16, which halves the bytes, unless the hop is the bottleneck and q8 is allowed. A hop is
 * the bottleneck where prompts wait for it: a row, in f16, keeps it busy for longer than the
 * slowest stage needs for one, by a margin. So nothing is given up where it would not pay, and a
 * hop near the line does not change with each epoch.
 *
 * What is known is what the workers have reported last; one that is gone counts as not measured.
 * Pure; thread: any. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_wire_policy {
    bool is_auto;
    lh_wire_type type; /* of all hops; auto: not read */
    bool allows_q8;    /* auto: not read otherwise */
} lh_wire_policy;

/* What all hops of a chain have while nothing is known of it. */
void lh_wire_choice_begin(const lh_wire_policy *policy, lh_chain *chain);

/* Whether all is known that the policy asks for: the times of all stages and the rate of every hop
 * between two of them, or a lower bound that is enough. At once where the choice depends on none of
 * it. width: columns of an activation. */
bool lh_wire_choice_is_known(const lh_wire_policy *policy, uint32_t width, const lh_chain *chain,
                             const lh_registry *registry);

/* Sets the chain's wire types. A hop of which too little is known keeps the type that it has, and
 * so do all while no stage's time is known. The last stage's hop, which carries no activation, gets
 * what it had in the beginning. Returns whether one has changed. */
bool lh_wire_choice_make(const lh_wire_policy *policy, uint32_t width, lh_chain *chain,
                         const lh_registry *registry);
