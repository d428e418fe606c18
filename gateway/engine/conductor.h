/* Joins the fleet (who forms the chain) and the scheduler (what runs on it). The whole gateway behind the
 * API, sans-I/O: engine.c plugs it to sockets and the clock, tests/fleet to a simulated fleet. Feed it, then
 * pull actions until there are none. Thread: one at a time. */
#pragma once

#include "gateway/fleet/fleet.h"
#include "gateway/schedule/scheduler.h"

typedef struct lh_conductor lh_conductor;

typedef enum lh_action_kind {
    LH_ACTION_CONNECT, /* to the first worker, closing the connection that was: all steps of the old one are
                          gone */
    LH_ACTION_SUBMIT,  /* a step */
    LH_ACTION_CANCEL,  /* reset a step's request; its step_done still comes */
    LH_ACTION_ABANDON  /* reset every step's request: the chain went down. No step_done of theirs counts any
                          more */
} lh_action_kind;

typedef struct lh_action {
    lh_action_kind kind;
    const char *address; /* CONNECT */
    bool tls;
    const lh_step_manifest *manifest; /* SUBMIT; until the next call */
    uint64_t step;                    /* CANCEL */
} lh_action;

lh_status lh_conductor_create(const lh_fleet_options *fleet_options,
                              const lh_scheduler_options *scheduler_options, const lh_model_profile *model,
                              const lh_scheduler_sink *sink, int64_t now_us, lh_conductor **conductor,
                              lh_error *error);
void lh_conductor_destroy(lh_conductor *conductor);

lh_status lh_conductor_put(lh_conductor *conductor, const lh_worker_report *report, int64_t now_us,
                           lh_fleet_answer *answer, lh_error *error);
/* The state of the connection that the last CONNECT asked for; _measure_first_hop before it. */
void lh_conductor_first_hop(lh_conductor *conductor, bool connected, int64_t now_us, const char *reason);
/* What has been measured of that connection: kept for the cost model. */
void lh_conductor_measure_first_hop(lh_conductor *conductor, const lh_hop_profile *profile);
/* As lh_scheduler_submit, _cancel, _results, _step_done. */
lh_status lh_conductor_submit(lh_conductor *conductor, lh_sequence *sequence, int64_t now_us,
                              lh_error *error);
void lh_conductor_cancel(lh_conductor *conductor, uint64_t handle);
lh_status lh_conductor_results(lh_conductor *conductor, uint32_t epoch, uint64_t step,
                               const lh_step_result *results, uint32_t count, int64_t now_us,
                               lh_error *error);
void lh_conductor_step_done(lh_conductor *conductor, uint32_t epoch, uint64_t step, lh_status status,
                            const char *message, int64_t now_us);
/* As lh_scheduler_surrender, _adopt. */
lh_sequence *lh_conductor_surrender(lh_conductor *conductor, uint64_t positions_max, int64_t now_us);
void lh_conductor_adopt(lh_conductor *conductor, lh_sequence *sequence, int64_t now_us);
/* As lh_fleet_forget. */
void lh_conductor_forget(lh_conductor *conductor, const char *worker, int64_t now_us);
/* Whether its sequences could go on with another conductor: then they do not keep a worker that is to leave. */
void lh_conductor_note_stand_in(lh_conductor *conductor, bool has_stand_in);
/* As lh_fleet_hold. */
void lh_conductor_hold(lh_conductor *conductor, const char *reason);
void lh_conductor_tick(lh_conductor *conductor, int64_t now_us);
int64_t lh_conductor_deadline_us(const lh_conductor *conductor);
bool lh_conductor_next_action(lh_conductor *conductor, int64_t now_us, lh_action *action);

const lh_fleet *lh_conductor_fleet(const lh_conductor *conductor);
const lh_scheduler *lh_conductor_scheduler(const lh_conductor *conductor);
