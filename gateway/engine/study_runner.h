/* Runs a plan study (gateway/fleet/plan_study.h) on one of the loop's threads, one at a time.
 * Embedded in its owner; thread: the loop's. */
#pragma once

#include "gateway/fleet/plan_study.h"

#include <uv.h>

typedef struct lh_study_runner {
    uv_loop_t *loop;
    uv_work_t work;
    lh_plan_study *study; /* that runs, owned; NULL: none does */
    /* From the loop: it has been run, and is the callee's now. */
    void (*on_studied)(void *context, lh_plan_study *study);
    void *context;
    void (*on_closed)(void *);
    void *closed_context;
} lh_study_runner;

void lh_study_runner_init(lh_study_runner *runner, uv_loop_t *loop,
                          void (*on_studied)(void *context, lh_plan_study *study), void *context);
/* Takes the study. None runs. */
void lh_study_runner_run(lh_study_runner *runner, lh_plan_study *study);
/* No on_studied comes any more. on_closed: when no thread touches the runner; perhaps before this
 * returns. */
void lh_study_runner_close(lh_study_runner *runner, void (*on_closed)(void *), void *context);
