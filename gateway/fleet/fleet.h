/* The owner of a fleet's parts: takes the workers' reports, plans and forms the chain, forms it
 * again when something breaks, and answers each worker with the assignment that it should have.
 * Sans-I/O: time is an argument; what it wants done it says in its state, which the caller reads
 * after each call.
 *
 * Happy path: workers register; when they have been the same for plan_delay_us (or as many as
 * expected are there) the planner splits the model, the chain begins to form, each worker learns of
 * its stage with its next report, loads, connects, and says so; when all have, the chain is ready.
 *
 * Failure modes:
 * - a step or a hop fails: lh_fleet_fault. The same stages form again under the next epoch, with
 *   the KV caches that they have (lh_chain_inherit); the workers are put on probation: one that
 *   does not report soon is taken for gone long before its lease would end. Other evidence is
 *   quicker still (failure_detector.h).
 * - a worker is gone: what is left is planned anew, at once; a spare takes its place where there is
 *   one. When the model does not fit, the chain waits for workers.
 * - a worker is to leave, or one has come with which the chain would be clearly faster, or a better
 *   chain is found by what has been measured: the next chain is prepared while this one serves
 *   (handover.h).
 * - two workers that are well do not reach each other: planned around their hop (link_avoidance.h);
 *   where that shows before the chain relies on it, nothing else happens (new_hops.h).
 * - a worker restarted: the same stages, the next epoch.
 * - a worker cannot load its stage: it is left out for a while (until it has restarted, where it
 *   says that it can compute no stage of the model), where a plan is possible without it; else the
 *   chain waits for it, and it tries again by itself.
 * - the gateway restarts: workers keep reporting, and keep their stages until there is a plan,
 *   which is the one that they have loaded where that is nearly as good as another (held_plan.h);
 *   epochs do not repeat (epoch_counter.h).
 * - the last worker's results cannot be: it is suspended when that happens again (misconduct.h),
 *   and what is left is planned; where nothing could serve without it, it is used all the same. So
 *   are both ends of a hop at which step after step is refused.
 * - the chain keeps failing with the same workers: it is formed again once a second at most.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/fleet/answer.h"
#include "gateway/fleet/cover.h"
#include "gateway/fleet/worker_role.h"

typedef struct lh_fleet lh_fleet;

/* LH_ERR_NO_MEMORY. */
lh_status lh_fleet_create(const lh_fleet_options *options, int64_t now_us, lh_fleet **fleet,
                          lh_error *error);
void lh_fleet_destroy(lh_fleet *fleet);

/* Takes a worker's report, ticks, and answers; the answer's pointers live until the next call.
 * LH_ERR_LIMIT: there are too many workers. */
lh_status lh_fleet_put(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us,
                       lh_fleet_answer *answer, lh_error *error);
/* A worker belongs to another fleet from now on. */
void lh_fleet_forget(lh_fleet *fleet, const char *worker, int64_t now_us);
/* The gateway's own connection to the first worker of the current epoch. refused: there is none,
 * since nobody listens at the address. */
void lh_fleet_first_hop(lh_fleet *fleet, bool connected, bool refused, int64_t now_us,
                        const char *reason);
/* What has become of the gateway's own trial of a hop; its next tick acts upon it. */
void lh_fleet_first_trial(lh_fleet *fleet, const lh_hop_trial_report *trial);
/* The chain does not work (a step failed or timed out). Ignored when `epoch` is not the current
 * one, or the chain is not ready. */
void lh_fleet_fault(lh_fleet *fleet, uint32_t epoch, int64_t now_us, const char *reason);
/* The same, and its last worker is to blame, whose results are at fault. Where it is suspended for
 * that, and a plan is possible without it or another chain of the model serves, the chain is
 * planned without it. */
void lh_fleet_blame_last(lh_fleet *fleet, uint32_t epoch, lh_worker_fault fault, int64_t now_us,
                         const char *reason);
/* Each of its workers had a part in something that is wrong, and which of them made it so is not
 * known. Who is suspended for that is left out as above. */
void lh_fleet_blame_all(lh_fleet *fleet, lh_worker_fault fault, int64_t now_us, const char *reason);
/* The same, and the worker of this name, or another one before it, says that it refuses what a step
 * holds: it and the one that sends to it are to blame together (misconduct.h). */
void lh_fleet_blame_hop(lh_fleet *fleet, uint32_t epoch, const char *worker, int64_t now_us,
                        const char *reason);
/* A step has come around the ring: all workers of the chain live, and the last one's results, where
 * it had any to send, were fine. */
void lh_fleet_moved(lh_fleet *fleet, int64_t now_us);
/* Steps are under way and none has moved since progress_us: whoever has not reported for as long is
 * taken for gone, and the next tick acts. Call when it is time by lh_fleet_failure_due_us. */
void lh_fleet_stalled(lh_fleet *fleet, int64_t progress_us, int64_t now_us);
int64_t lh_fleet_failure_due_us(const lh_fleet *fleet, int64_t progress_us);
/* No chain is planned until this is called again with NULL; the text, which must outlive that, says
 * why. */
void lh_fleet_hold(lh_fleet *fleet, const char *reason);
typedef struct lh_fleet_load {
    uint32_t sequences; /* that need the chain now */
    uint64_t positions; /* that they have on it */
    bool has_stand_in;  /* another chain of the model serves meanwhile */
    lh_request_mix mix; /* of those that have ended */
} lh_fleet_load;

void lh_fleet_note_load(lh_fleet *fleet, const lh_fleet_load *load);
/* A search for a better chain (live_planner.h), to be run on another thread and then given to
 * _studied; NULL: none is due. */
lh_plan_study *lh_fleet_next_study(lh_fleet *fleet, int64_t now_us);
void lh_fleet_studied(lh_fleet *fleet, lh_plan_study *study, int64_t now_us);
/* Leases, plans, readiness. Call after each report and at lh_fleet_deadline_us. */
void lh_fleet_tick(lh_fleet *fleet, int64_t now_us);
/* When lh_fleet_tick is to be called next, where nothing happens before. */
int64_t lh_fleet_deadline_us(const lh_fleet *fleet);

const lh_chain *lh_fleet_chain(const lh_fleet *fleet);
/* The chain that is being prepared to take its place; NULL: none. *cause: why, static text; ""
 * where there is none. */
const lh_chain *lh_fleet_successor(const lh_fleet *fleet, const char **cause);
/* What is planned for the loss of each of the chain's workers. */
const lh_cover *lh_fleet_cover(const lh_fleet *fleet);
/* SHA-256 of the model's header, in hex. */
const char *lh_fleet_model_digest(const lh_fleet *fleet);
/* The successor's first stage, where the gateway's hop to it is to be tried; NULL: it is not. */
const lh_chain_stage *lh_fleet_first_try(const lh_fleet *fleet);
const lh_registry *lh_fleet_registry(const lh_fleet *fleet);
/* Of all fleets together; NULL: there are none. */
const lh_relays *lh_fleet_relays(const lh_fleet *fleet);
/* What the live planner found last; NULL: nothing yet, or the fleet has no aim. Valid until the
 * next _studied. */
const lh_plan_study *lh_fleet_latest_study(const lh_fleet *fleet);
/* Its workers, as measured, into a map, which is begun where this is the first fleet of it. Errors
 * of lh_live_map_add. */
lh_status lh_fleet_add_to_map(const lh_fleet *fleet, bool is_first, int64_t now_us,
                              lh_live_map *map);
/* For lh_worker_role_of, of the registry's workers. Valid until the next call that is not const. */
lh_role_inquiry lh_fleet_ask_roles(const lh_fleet *fleet, int64_t now_us);
/* The chain has just taken over from another and is being told so: a pause, not a failure. */
bool lh_fleet_is_changing_over(const lh_fleet *fleet, int64_t now_us);
/* Why the gateway is not connected to the first worker; "" where it is, or nothing has failed. */
const char *lh_fleet_first_hop_error(const lh_fleet *fleet);
/* Why a worker that the chain waits for can compute no stage of the model, in its own words; "":
 * the chain is ready, or waits for something else. Valid until the next call. */
const char *lh_fleet_refusal(const lh_fleet *fleet);
/* That the model does not fit the workers, with figures and without their names; "" where it is not
 * known not to. */
const char *lh_fleet_shortfall(const lh_fleet *fleet);
/* Why the chain is not ready; "" when it is. */
const char *lh_fleet_reason(const lh_fleet *fleet);
