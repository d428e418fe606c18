/* A search for the chain that would be the best one now, which may take as long as a second: it is
 * begun and read where the fleet is, and run on another thread meanwhile. */
#pragma once

#include "gateway/fleet/live_map.h"
#include "gateway/fleet/move_decision.h"
#include "gateway/plan/idle_reason.h"

typedef struct lh_plan_study {
    lh_live_map live; /* of workers alone */
    lh_team_policy policy;
    lh_aim aim;
    lh_team_map *present_map; /* in which they are one machine each; owned */
    lh_layout present;        /* the chain as it is, in that map's machines */
    int64_t begun_us;

    /* What _run found. Values are the aim's: less is better. */
    lh_status status;     /* LH_OK: there is a plan */
    lh_error error;       /* why there is none */
    lh_team_map *map;     /* in which those that would compute together are one; owned */
    lh_layout_plan plan;  /* in that map's machines */
    double present_value; /* INFINITY: it does not keep the aim's bound */
    double prompt_row_us; /* of the plan: what each of many rows takes on its busiest part */
    double loading_us;    /* what the machine that lacks most needs to fetch it */
    lh_idle_reason idle[LH_WORKERS_MAX]; /* of that map's machines */
} lh_plan_study;

/* Of these candidates, who are alone, beside this chain. LH_ERR_UNAVAILABLE: one of the chain has
 * not measured its stage or its link yet; LH_ERR_LIMIT as lh_live_map_make; LH_ERR_NO_MEMORY.
 * Thread: the fleet's. */
lh_status lh_plan_study_create(const lh_fleet_options *options, const lh_candidates *candidates,
                               const lh_stage_speeds *speeds, const lh_chain *chain,
                               const lh_aim *aim, int64_t now_us, lh_plan_study **study,
                               lh_error *error);
void lh_plan_study_destroy(lh_plan_study *study);
/* Searches. Touches nothing but the study. Thread: any, one at a time. */
void lh_plan_study_run(lh_plan_study *study);

/* Whether it found nothing that is clearly better than what is there. */
bool lh_plan_study_is_content(const lh_plan_study *study);
/* Whether both found the same plan. */
bool lh_plan_study_agrees(const lh_plan_study *study, const lh_plan_study *other);
/* Whether the chain is the one that the study knew. */
bool lh_plan_study_knows(const lh_plan_study *study, const lh_chain *chain);
/* What became of a worker in the plan: the machine of the study's map that it is, or is of;
 * UINT32_MAX: the study did not know it. */
uint32_t lh_plan_study_machine(const lh_plan_study *study, const char *worker);
/* The plan in indices of these workers, who were alone and are teams then as the plan has them.
 * False: one of the plan is not there, or was restarted; the workers are as they were. */
bool lh_plan_study_plan(const lh_plan_study *study, lh_candidates *workers, lh_layout *plan);
