/* Runs the trials of a calibration (calibration.h) on a stage that has just been loaded:
 * real steps of a sequence of its own, which is released again, so that the KV cache is as it was.
 */
#pragma once

#include "common/protocol/measurements.h"
#include "common/protocol/step.h"
#include "worker/compute/slowdown.h"
#include "worker/compute/stage/stage.h"

#include <stdatomic.h>

typedef struct lh_stage_trials_options {
    lh_stage *stage; /* holds no sequence */
    lh_layer_range range;
    const lh_model_config *config;
    uint32_t context, rows_max; /* as the stage was created with */
    lh_wire_type wire;          /* of its results: encoding is a part of the time */
    double budget_us;
    const lh_slowdown *slowdown;   /* of the stage's thread pool */
    const _Atomic bool *cancelled; /* looked at between layers */
} lh_stage_trials_options;

/* Blocking; for the thread that owns the stage. Times are those of a machine that does nothing else
 * (core_clock.h). On an error (LH_ERR_CANCELLED, LH_ERR_NO_MEMORY, those of the stage) *profile
 * holds what was found before it. */
lh_status lh_stage_trials_run(const lh_stage_trials_options *options, lh_compute_profile *profile,
                              lh_error *error);
