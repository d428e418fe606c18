/* Runs the trials of a calibration (calibration.h) on a stage that has just been loaded:
 * real steps of a sequence of its own, which is released again, so that the KV cache is as it was.
 */
#pragma once

#include "common/protocol/measurements.h"
#include "common/protocol/step.h"
#include "worker/compute/stage/stage.h"

#include <stdatomic.h>

/* On a stage that holds no sequence. wire: of its results, since encoding is a part of the time;
 * cancelled is looked at between layers. Blocking; for the thread that owns the stage. Times are
 * those of a machine that does nothing else (core_clock.h). On an error (LH_ERR_CANCELLED,
 * LH_ERR_NO_MEMORY, those of the stage) *profile holds what was found before it. */
lh_status lh_stage_trials_run(lh_stage *stage, lh_wire_type wire, double budget_us,
                              const _Atomic bool *cancelled, lh_compute_profile *profile,
                              lh_error *error);
