#include "tests/worker/support/scripted_trials.h"

#include "worker/control/stage_trials.h"

double scripted_trials_budget_us;

lh_status lh_stage_trials_run(lh_stage *stage, lh_wire_type wire, double budget_us,
                              const _Atomic bool *cancelled, lh_compute_profile *profile,
                              lh_error *error) {
    (void)stage;
    (void)wire;
    (void)cancelled;
    (void)error;
    scripted_trials_budget_us = budget_us;
    *profile = (lh_compute_profile){.point_count = 0};
    return LH_OK;
}
