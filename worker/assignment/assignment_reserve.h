/* The stage that this worker may be asked to serve next, prepared beside the one that serves (CONTROL.md, "Changing
 * places"): fetched and loaded, or only fetched where memory holds no two.
 *
 *             want                     built
 *     EMPTY ---------> BUILDING --------------------> HELD --- taken ---> EMPTY
 *       ^                 | not wanted any more         | not wanted any more
 *       +-----------------+-----------------------------+
 *
 * What fails is reported, and not tried again: the gateway looks for another worker, or asks for something else.
 *
 * Thread: the loop's; waiting work runs on libuv's pool. */
#pragma once

#include "worker/assignment/assignment_job.h"

#include <uv.h>

typedef struct lh_reserve lh_reserve;

/* job: its is_beside and fetches_only are set by the reserve; what it points to outlives it. on_change: built, failed, or
 * gone. LH_ERR_NO_MEMORY. */
lh_status lh_reserve_create(uv_loop_t *loop, const lh_assignment_job_options *job,
                            void (*on_change)(void *context), void *context, lh_reserve **reserve,
                            lh_error *error);
/* Before it was asked for anything; NULL is allowed. */
void lh_reserve_destroy(lh_reserve *reserve);
/* Ends what is in progress and drops what is held; then on_closed. */
void lh_reserve_close(lh_reserve *reserve, void (*on_closed)(void *), void *context);

/* What is to be prepared, which is copied; NULL: nothing. holds: it is loaded, too. The same again changes nothing. */
void lh_reserve_want(lh_reserve *reserve, const lh_control_assignment *wanted, bool holds);
/* Whether this very stage is held, or being loaded. */
bool lh_reserve_is_for(const lh_reserve *reserve, const lh_control_assignment *assignment);
/* The stage, which is the caller's from now on, the width of its activations and what its steps cost. NULL: it is not held. */
lh_stage *lh_reserve_take(lh_reserve *reserve, const lh_control_assignment *assignment, uint32_t *width,
                          lh_compute_profile *profile);
/* Fills in report->prepared. */
void lh_reserve_report(const lh_reserve *reserve, lh_worker_report *report);
