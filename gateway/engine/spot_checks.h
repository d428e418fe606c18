/* Spot checks: a share of the answers is computed again on another chain of the same model, and
 * compared. A worker that forges tokens, or has bad memory, gives answers that look right; but
 * sound chains give the same bits, so where two differ one is wrong, and further opinions tell
 * which (spot_case.h).
 *
 *     sequence ends --record--> case --a chain rests--> opinion --> verdict
 *                                ^                         |OPEN
 *                                +-------------------------+
 *
 * Nothing waits for a check. It runs on a chain that has had no sequence for QUIET_US, and ends
 * when one comes, to begin again later; it is nobody's work and takes only pages that are free.
 * What is kept of answers is bounded: CASES_MAX of them, CASES_BYTES together; those that came
 * first go first, but for those about which opinions differ already.
 *
 * Chains are compared where they must give the same bits (lh_chain_gives_same_bits), and blamed
 * only for what their present workers computed (lh_chain_has_computed). Where a worker of a chain
 * is no longer trusted, all answers of that chain are checked until it is again.
 *
 * Failure modes: a fleet that never rests checks nothing, which the figures show. Of two chains
 * one that gives the same wrong answer each time is not told from a sound one: UNDECIDED, and
 * nobody is blamed.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/engine/chain_controller.h"
#include "gateway/engine/spot_case.h"
#include "gateway/fleet/replica_deal.h"

typedef struct lh_spot_checks lh_spot_checks;

typedef struct lh_spot_options {
    double rate;     /* the share of answers that are checked: 0 to 1 */
    uint64_t secret; /* so that nobody can tell which */
    uint32_t chain_count;
    lh_chain_controller *const *controllers; /* [chain_count]; they outlive the checks */
    lh_misconduct *misconduct;               /* likewise */
} lh_spot_options;

typedef struct lh_spot_figures {
    double rate;
    bool is_possible; /* two chains that are up give the same bits */
    uint32_t waiting; /* answers that are kept to be checked, or are being checked */
    uint64_t verdicts[LH_SPOT_VERDICTS]; /* since start */
} lh_spot_figures;

/* LH_ERR_NO_MEMORY. */
lh_status lh_spot_checks_create(const lh_spot_options *options, lh_spot_checks **checks,
                                lh_error *error);
/* NULL is allowed. */
void lh_spot_checks_destroy(lh_spot_checks *checks);
/* Decides whether the answer of a sequence is checked that is about to be submitted to this chain.
 */
void lh_spot_checks_choose(lh_spot_checks *checks, uint32_t chain, lh_sequence *sequence,
                           int64_t now_us);
/* Takes records and opinions, and begins what is due. True: a chain has something to do now. */
bool lh_spot_checks_act(lh_spot_checks *checks, int64_t now_us);
/* When _act is to be called though nothing happens; INT64_MAX: not. */
int64_t lh_spot_checks_deadline_us(const lh_spot_checks *checks);
lh_spot_figures lh_spot_checks_figures(const lh_spot_checks *checks);
