/* How much of what workers say of their own speed is believed.
 *
 * Plans go by what workers measure of themselves: of their machine at the start, and of their
 * stage as it computes. One that claims to be faster than it is gets more layers than it should
 * have, and every request pays for that. The gateway's own clock shows it: a step that is alone on
 * the chain takes longer than all claims together allow. The workers' accounts of single steps
 * would not do, since those of the workers behind it pass through its hands.
 *
 * So of steps that had the chain for themselves the one that came nearest to its prediction is
 * taken, out of LH_CLAIMS_STEPS and some seconds. Where even that took half as long again, those
 * who claim most are believed least: there is one time for each MiB of weights with which, taken
 * for the claims of all who say that they need less, the stages together take as long as was
 * measured.
 *
 *      said      a 50 us, b 500 us for each layer, of which a has 11 and b 1:  1,050 us
 *      measured                                                                6,000 us
 *      believed  a 500 us, b 500 us                                            6,000 us
 *
 * Whoever is LH_CLAIMS_TIMES times as slow then as it says is believed to be that slow where
 * layers are dealt, until a later review contradicts that. A machine that is honest and many times
 * as fast as the others of its chain would be held to be slower where something else takes as much
 * time as all of them; the cost model is right to a tenth or two where nothing does. How prompts
 * are cut goes by what was said: an excess of each step says nothing of many rows.
 *
 * What a worker says of its machine is compared with what it says of its stage, as it was when that
 * was calibrated: how these differ depends on the model, but not much on the worker. Of prompts
 * that counts only for a worker that is not believed in single rows, either.
 *
 * Plain arithmetic; time is an argument. Thread: one at a time. */
#pragma once

#include "gateway/cost/cost_model.h"
#include "gateway/fleet/chain.h"
#include "gateway/fleet/model_profile.h"

#define LH_CLAIMS_STEPS 16u
/* Measurements of the same machine differ by less. */
#define LH_CLAIMS_TIMES 2.0
/* Of more workers than that, the first ones are forgotten. */
#define LH_CLAIMS_MAX 256u

/* How many times as slow a worker is as it says; 1: it is believed. */
typedef struct lh_claim {
    char worker[LH_WORKER_NAME_BYTES];
    double steps; /* in all that it says */
    /* beyond that, in what it says of its machine: of a row alone, and of one of many */
    double token, prompt;
} lh_claim;

/* All zero: all are believed. Of all chains of a gateway. */
typedef struct lh_claims {
    uint32_t count, oldest;
    lh_claim claims[LH_CLAIMS_MAX];
} lh_claims;

/* A chain's steps since it was last looked at. All zero: none. */
typedef struct lh_claim_review {
    uint32_t epoch, count;
    int64_t since_us;
    double least;
    bool has_last; /* what the last review of this epoch found of each stage */
    lh_claim last[LH_LAYOUT_STAGES_MAX];
} lh_claim_review;

/* What is reviewed: costs are those by which steps of the chain are predicted. */
typedef struct lh_claim_view {
    const lh_chain *chain;
    const lh_registry *registry; /* of whose machines' speeds that is kept which is believed */
    const lh_model_profile *model;
    const lh_cost_chain *costs;
} lh_claim_view;

/* A step that had the chain for itself took `times` as long as predicted. Chains with teams are not
 * looked at. */
void lh_claims_note_step(lh_claims *claims, lh_claim_review *review, const lh_claim_view *view,
                         double times, int64_t now_us);
/* NULL: it is believed. Valid until the next _note_step. */
const lh_claim *lh_claims_find(const lh_claims *claims, const char *worker);
/* How many times as slow as it says it computes its stage; claims may be NULL: as it says. */
double lh_claims_times(const lh_claims *claims, const char *worker);
/* Makes of what a worker says of its machine what is believed of it. */
void lh_claim_correct(const lh_claim *claim, lh_machine_speed *speed);
