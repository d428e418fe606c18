/* Several chains of one model (replicas) as one: which worker belongs to which of them, and which sequence runs on which. Each chain
 * has a conductor of its own; with one chain this is that conductor and nothing else. Sans-I/O, like the conductors. Thread: one at
 * a time.
 *
 * A sequence goes to the chain on which it is expected to be through first. It stays there, unless it waits while another
 * chain has room, or its chain breaks: then it goes on elsewhere, replayed from its history, with the same tokens.
 *
 * Places and queues are each chain's; what a tenant has had counts on all of them (fair_share.h). */
#pragma once

#include "gateway/engine/conductor.h"
#include "gateway/fleet/replica_deal.h"

typedef struct lh_replicas lh_replicas;

/* count: 1..LH_REPLICAS_MAX. The fleet's options are of all together; the chains are called chain_name, chain_name-2, ... Limits of
 * the scheduler are each chain's. All that the options point to outlives it. LH_ERR_NO_MEMORY. */
lh_status lh_replicas_create(uint32_t count, const lh_fleet_options *fleet,
                             const lh_scheduler_options *scheduler, const lh_model_profile *model,
                             const lh_scheduler_sink *sink, int64_t now_us, lh_replicas **replicas,
                             lh_error *error);
/* NULL is allowed. */
void lh_replicas_destroy(lh_replicas *replicas);

uint32_t lh_replicas_count(const lh_replicas *replicas);
const lh_conductor *lh_replicas_at(const lh_replicas *replicas, uint32_t index);
/* Its chain's name, which lives as long as they do. */
const char *lh_replicas_name(const lh_replicas *replicas, uint32_t index);
/* The chain of this name: its index; -1: there is none. */
int lh_replicas_find(const lh_replicas *replicas, const char *chain_name);

/* As the functions of a conductor; `index` is the chain that it is about. */
lh_status lh_replicas_put(lh_replicas *replicas, const lh_worker_report *report, int64_t now_us,
                          lh_fleet_answer *answer, lh_error *error);
void lh_replicas_first_hop(lh_replicas *replicas, uint32_t index, bool connected, int64_t now_us,
                           const char *reason);
void lh_replicas_measure_first_hop(lh_replicas *replicas, uint32_t index, const lh_hop_profile *profile);
lh_status lh_replicas_submit(lh_replicas *replicas, lh_sequence *sequence, int64_t now_us, lh_error *error);
void lh_replicas_cancel(lh_replicas *replicas, uint64_t handle);
lh_status lh_replicas_results(lh_replicas *replicas, uint32_t index, uint32_t epoch, uint64_t step,
                              const lh_step_result *results, uint32_t count, int64_t now_us, lh_error *error);
void lh_replicas_step_done(lh_replicas *replicas, uint32_t index, uint32_t epoch, uint64_t step,
                           lh_status status, const char *message, int64_t now_us);
void lh_replicas_hold(lh_replicas *replicas, const char *reason);
void lh_replicas_tick(lh_replicas *replicas, int64_t now_us);
int64_t lh_replicas_deadline_us(const lh_replicas *replicas);
/* *index: the chain that it is about. */
bool lh_replicas_next_action(lh_replicas *replicas, int64_t now_us, uint32_t *index, lh_action *action);

/* ---- All together ------------------------------------------------------------------------------------------------ */

/* Sums; what is predicted of decode steps is not told. */
lh_scheduler_figures lh_replicas_figures(const lh_replicas *replicas);
/* Whether a chain is up, or is about to be after a change that was prepared. */
bool lh_replicas_is_up(const lh_replicas *replicas);
bool lh_replicas_is_changing_over(const lh_replicas *replicas, int64_t now_us);
/* Until when sequences are taken, as lh_scheduler_open_until_us. */
int64_t lh_replicas_open_until_us(const lh_replicas *replicas);
/* Positions that one sequence may come to, and that are free on all chains; UINT64_MAX while none is up. */
void lh_replicas_positions(const lh_replicas *replicas, uint64_t *most, uint64_t *free);
