/* Looks for a better chain while one serves, by what stages and links have measured: which machines
 * to use, in which order, with which layers (gateway/plan), for what the gateway is to be good at.
 *
 * A search may take a second, so it is a study (plan_study.h) that its owner runs on another
 * thread:
 *
 *   fleet      _begin ------> study                     _end: what it found is kept
 *   thread                    lh_plan_study_run ------>
 *
 * It is begun when figures have drifted since the last one, and again where one proposes a move:
 * two that agree, some time apart, are needed, so that one bad measurement moves nothing. Whether
 * the gain is worth the move is decided by move_decision.h; the move itself is a handover.
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/cost/request_mix.h"
#include "gateway/fleet/plan_study.h"

/* All zero but for the options: nothing is known. */
typedef struct lh_live_planner {
    const lh_fleet_options *options;
    lh_stage_speeds speeds;
    lh_plan_study *latest; /* the last one that ended, owned; NULL: none */
    bool is_searching;     /* one has been begun, and not ended */
    bool has_told;         /* that the fleet is too large for one */
    int64_t begun_us;      /* the last one */
    int64_t unchanged_us;  /* since then figures have been as they are */
    uint32_t agreements;   /* studies in a row that found what the latest did */
    uint64_t positions;    /* of sequences that a move would replay */
    lh_request_mix mix;    /* which the aim is for, as soon as it says something */
} lh_live_planner;

void lh_live_planner_reset(lh_live_planner *planner);

/* What the stage's worker has measured. To be called at each of its reports. */
void lh_live_planner_note(lh_live_planner *planner, const lh_chain *chain, uint32_t stage,
                          const lh_registry *registry, int64_t now_us);
/* What a chain is to be good at now: requests as they have been. */
lh_aim lh_live_planner_aim(const lh_live_planner *planner);
/* A study of what this chain could become, which is to be run now and then given to _end; NULL:
 * none is due. */
lh_plan_study *lh_live_planner_begin(lh_live_planner *planner, const lh_chain *chain,
                                     const lh_registry *registry,
                                     const lh_link_avoidance *avoidance, int64_t now_us);
/* Takes the study, which has been run. */
void lh_live_planner_end(lh_live_planner *planner, lh_plan_study *study, int64_t now_us);
/* A plan, in indices of these workers, to which a move from this chain is worthwhile; they are
 * teams then as in plan_study.h. */
bool lh_live_planner_proposes(const lh_live_planner *planner, const lh_chain *chain,
                              lh_candidates *workers, int64_t now_us, lh_layout *plan);
/* Why a worker is not in the chain, by the latest study: at least LH_ERROR_MESSAGE_BYTES. False:
 * that did not know it, or has it in its plan. */
bool lh_live_planner_explain(const lh_live_planner *planner, const char *worker, char *reason);
