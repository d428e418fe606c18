/* What machines have measured of themselves while they computed stages, for each MiB of weights: so
 * stages of different sizes compare, and a plan can be made for layers that a machine has not had.
 * A machine that has had no stage is taken for one like it that had: lh_machine_speed, which both
 * measured at their start, says how many times as fast; and what the head would take is what it
 * takes where it is, as many times as the layers.
 *
 * What a team measured says nothing of its members alone, and the other way round: both are kept.
 * Pure; thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_stage_speed {
    char worker[LH_WORKER_NAME_BYTES]; /* of a team: that leads it */
    uint64_t instance;
    uint32_t follower_count; /* of the team; 0: it computed alone */
    char followers[LH_TEAM_MEMBERS_MAX - 1][LH_WORKER_NAME_BYTES];
    int64_t noted_us;
    lh_machine_speed start; /* as measured at its start; zeros: not */
    uint32_t point_count;   /* of points, for each MiB that a row meets */
    lh_compute_point points[LH_COMPUTE_POINTS_MAX];
    double attention_us; /* of each row, for each position before it, in each layer */
    double step_us;      /* of each step, outside of the arithmetic */
    /* of the head: the first row that draws a token, and each further one; 0: it has never had the
     * last stage */
    double draw_us, draw_more_us;
} lh_stage_speed;

/* Of workers that have had a stage, alone and in teams: as many as four of the longest chains have.
 */
#define LH_STAGE_SPEEDS_MAX (4 * LH_LAYOUT_STAGES_MAX)

/* All zero: nothing is known. Of more workers than there is room for, the last ones. */
typedef struct lh_stage_speeds {
    uint32_t count;
    lh_stage_speed speeds[LH_STAGE_SPEEDS_MAX];
} lh_stage_speeds;

/* Takes what the worker of this stage has measured of it, and is believed to need so many times as
 * long as that; nothing while it has not. */
void lh_stage_speeds_note(lh_stage_speeds *speeds, const lh_model_profile *model,
                          const lh_chain *chain, uint32_t stage, const lh_registry *registry,
                          double times, int64_t now_us);
/* The speed of the worker that sent this report, alone. False: neither it nor one like it has
 * measured anything alone. */
bool lh_stage_speeds_find(const lh_stage_speeds *speeds, const lh_worker_report *report,
                          lh_stage_speed *speed);
/* Nothing but who computes the stage. */
lh_stage_speed lh_stage_speeds_names(const lh_chain_stage *stage);
/* What some team has measured in which this worker is, the one that was noted last; NULL: none. */
const lh_stage_speed *lh_stage_speeds_with(const lh_stage_speeds *speeds, const char *worker);
