/* The control of one chain: joins the fleet (which workers form the chain) and the scheduler (what
 * runs on it). With the router it is the whole gateway behind the API, sans-I/O: engine.c connects
 * it to sockets and the clock, tests/fleet to a simulated fleet. Tell it what happens, then pull
 * actions until there are none. Thread: one at a time. */
#pragma once

#include "common/net/tls_identity.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/load_progress.h"
#include "gateway/schedule/scheduler.h"

typedef struct lh_chain_controller lh_chain_controller;

typedef enum lh_action_kind {
    /* Connect to the first worker. The connection that was there is closed, with all its steps. */
    LH_ACTION_CONNECT,
    /* Try a hop to another first worker beside that connection; a CONNECT to the same address uses
     * it. "": no hop is to be tried any more. */
    LH_ACTION_TRY,
    /* Run a search for a better chain on another thread, then give it to _studied. */
    LH_ACTION_STUDY,
    /* Submit a step. */
    LH_ACTION_SUBMIT,
    /* Reset a step's request; its step_done still comes. */
    LH_ACTION_CANCEL,
    /* The chain went down: reset the request of every step. Their step_done no longer counts. */
    LH_ACTION_ABANDON
} lh_action_kind;

typedef struct lh_action {
    lh_action_kind kind;
    /* CONNECT, TRY: to the first worker; without an address: no hop is tried any more. Until the
     * next call of the chain controller. */
    const lh_way *way;
    uint32_t width;       /* TRY: columns of an activation */
    lh_plan_study *study; /* STUDY: owned by who acts */
    /* SUBMIT; until the next call of the chain controller. */
    const lh_step_manifest *manifest;
    /* CANCEL */
    uint64_t step;
} lh_action;

/* All that the options point to outlives the controller. Errors of lh_fleet_create and
 * lh_scheduler_create, LH_ERR_NO_MEMORY. */
lh_status lh_chain_controller_create(const lh_fleet_options *fleet_options,
                                     const lh_scheduler_options *scheduler_options,
                                     const lh_scheduler_sink *sink, int64_t now_us,
                                     lh_chain_controller **controller, lh_error *error);
/* NULL is allowed. */
void lh_chain_controller_destroy(lh_chain_controller *controller);

/* As lh_fleet_put. */
lh_status lh_chain_controller_put(lh_chain_controller *controller, const lh_worker_report *report,
                                  int64_t now_us, lh_fleet_answer *answer, lh_error *error);
/* The state of the connection that the last CONNECT asked for; call _measure_first_hop before it.
 */
void lh_chain_controller_first_hop(lh_chain_controller *controller, bool connected, int64_t now_us,
                                   const char *reason);
/* What has become of the hop that the last TRY named. */
void lh_chain_controller_first_trial(lh_chain_controller *controller,
                                     const lh_hop_trial_report *trial, int64_t now_us);
/* What has been measured of that connection: kept for the cost model. */
void lh_chain_controller_measure_first_hop(lh_chain_controller *controller,
                                           const lh_hop_profile *profile);
/* Whether results may come from this peer: it is the chain's last worker. True while there is no
 * chain: the results will be stale. */
bool lh_chain_controller_takes_results_of(const lh_chain_controller *controller,
                                          const lh_tls_identity *peer);
/* As lh_scheduler_results. */
lh_status lh_chain_controller_results(lh_chain_controller *controller, uint32_t epoch,
                                      uint64_t step, const lh_step_result *results, uint32_t count,
                                      int64_t now_us, lh_error *error);
/* As lh_scheduler_refuse_results. */
void lh_chain_controller_refuse_results(lh_chain_controller *controller, uint32_t epoch,
                                        uint64_t step, const char *message, int64_t now_us);
/* As lh_scheduler_step_done. blamed: the worker where it went wrong; "": none is named. */
void lh_chain_controller_step_done(lh_chain_controller *controller, uint32_t epoch, uint64_t step,
                                   lh_status status, const char *blamed, const char *message,
                                   int64_t now_us);
/* As lh_fleet_forget. */
void lh_chain_controller_forget(lh_chain_controller *controller, const char *worker,
                                int64_t now_us);
/* It has given an answer that is wrong: all its workers are held responsible, since nobody knows
 * which one made it so, and nothing that they keep is relied upon any more. */
void lh_chain_controller_blame(lh_chain_controller *controller, const char *reason, int64_t now_us);
/* Whether its sequences could go on with another chain: then they do not keep a worker that is to
 * leave. */
void lh_chain_controller_note_stand_in(lh_chain_controller *controller, bool has_stand_in);
/* The study of the last STUDY, which has been run. */
void lh_chain_controller_studied(lh_chain_controller *controller, lh_plan_study *study,
                                 int64_t now_us);
/* As lh_fleet_hold. */
void lh_chain_controller_hold(lh_chain_controller *controller, const char *reason);
/* Timeouts. Call at lh_chain_controller_deadline_us; INT64_MAX: there is none. */
void lh_chain_controller_tick(lh_chain_controller *controller, int64_t now_us);
int64_t lh_chain_controller_deadline_us(const lh_chain_controller *controller);
/* What is to be done next. False: nothing. Pull until false after every call above. */
bool lh_chain_controller_next_action(lh_chain_controller *controller, int64_t now_us,
                                     lh_action *action);

/* Its parts, which live as long as the controller: the fleet, to be read, and the scheduler, which
 * is told of sequences (submit, cancel, migrate) directly, and of the chain by the controller. */
const lh_fleet *lh_chain_controller_fleet(const lh_chain_controller *controller);
lh_scheduler *lh_chain_controller_scheduler(const lh_chain_controller *controller);
/* How far the workers are with what the chain needs, by their latest reports. */
lh_load_estimate lh_chain_controller_load(const lh_chain_controller *controller, int64_t now_us);
