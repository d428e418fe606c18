/* The stage that this worker may be asked to serve next, prepared beside the one that serves
 * (CONTROL.md, "Changing places"): fetched and loaded, or only fetched where memory holds no two.
 * One that others compute together with this machine is prepared when the team has formed and been
 * timed; it rests then.
 *
 *             want                     built
 *     EMPTY ---------> BUILDING --------------------> HELD --- taken ---> EMPTY
 *       ^                 | not wanted any more         | not wanted any more
 *       +-----------------+-----------------------------+
 *
 * What fails is reported, and not tried again: the gateway looks for another worker, or asks for
 * something else.
 *
 * Thread: the loop's; waiting work runs on libuv's pool. */
#pragma once

#include "worker/control/stage_job.h"

#include <uv.h>

typedef struct lh_prepared_stage lh_prepared_stage;

/* job: its is_beside is set here; what it points to outlives it.
 * on_change: built, failed, or gone. LH_ERR_NO_MEMORY. */
lh_status lh_prepared_stage_create(uv_loop_t *loop, const lh_stage_job_options *job,
                                   void (*on_change)(void *context), void *context,
                                   lh_prepared_stage **prepared, lh_error *error);
/* Ends what is in progress and drops what is held; then on_closed (may be NULL). */
void lh_prepared_stage_close(lh_prepared_stage *prepared, void (*on_closed)(void *), void *context);

/* What is to be prepared, which is copied; NULL: nothing. The same again changes nothing. */
void lh_prepared_stage_want(lh_prepared_stage *prepared, const lh_control_assignment *wanted);
/* Whether one is being loaded now, not just fetched. */
bool lh_prepared_stage_is_loading(const lh_prepared_stage *prepared);
/* Whether this very stage is held, or being loaded. */
bool lh_prepared_stage_is_for(const lh_prepared_stage *prepared,
                              const lh_control_assignment *assignment);
/* The stage, and the team, which rests: the caller's from now on. False: it is not held. */
bool lh_prepared_stage_take(lh_prepared_stage *prepared, const lh_control_assignment *assignment,
                            lh_built_stage *built);
/* Fills in report->prepared. */
void lh_prepared_stage_report(const lh_prepared_stage *prepared, lh_worker_report *report);
