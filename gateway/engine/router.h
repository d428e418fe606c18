/* The chains of one model (replicas) as one fleet: which worker belongs to which chain, and which
 * chain a sequence runs on. Each chain has a chain controller of its own; with one chain, the
 * router adds nothing to it. Sans-I/O, like the chain controller. Thread: one at a time.
 *
 * A sequence goes to the chain on which it is expected to finish first. It stays there, unless it
 * waits while another chain has room, or its chain breaks: then it goes on elsewhere, replayed from
 * its history, with the same tokens.
 *
 * Limits on sequences are each chain's; a tenant's usage counts on all of them (fair_share.h). */
#pragma once

#include "gateway/engine/chain_controller.h"
#include "gateway/engine/spot_checks.h"
#include "gateway/fleet/replica_deal.h"

typedef struct lh_router lh_router;

/* count: 1..LH_REPLICAS_MAX. The fleet's options are for all chains together; the chains are called
 * chain_name, chain_name-2, ... The scheduler's limits are each chain's. All that the options point
 * to outlives the router. LH_ERR_NO_MEMORY. */
lh_status lh_router_create(uint32_t count, const lh_fleet_options *fleet,
                           const lh_scheduler_options *scheduler, const lh_scheduler_sink *sink,
                           int64_t now_us, lh_router **router, lh_error *error);
/* NULL is allowed. */
void lh_router_destroy(lh_router *router);

/* From now on this share of the answers (0 to 1) is checked (spot_checks.h); secret: so that nobody
 * can tell which. Of one chain none is. Once, before any sequence is submitted. LH_ERR_NO_MEMORY.
 */
lh_status lh_router_check_answers(lh_router *router, double rate, uint64_t secret, lh_error *error);
/* rate 0: none is checked. */
lh_spot_figures lh_router_spot_figures(const lh_router *router);

/* ---- The chains, by index ---- */

uint32_t lh_router_count(const lh_router *router);
/* The router's: what concerns one chain alone (its first hop, its steps and results) is told to it
 * directly. index < count. */
lh_chain_controller *lh_router_controller(const lh_router *router, uint32_t index);
/* What is known of the links between sites; lives as long as the router. */
const lh_link_matrix *lh_router_links(const lh_router *router);
/* What workers have done, in any chain; lives as long as the router. */
const lh_misconduct *lh_router_misconduct(const lh_router *router);
/* How far workers are believed, likewise. */
const lh_claims *lh_router_claims(const lh_router *router);
/* The chain's name, which lives as long as the router. index < count. */
const char *lh_router_name(const lh_router *router, uint32_t index);
/* The index of the chain of this name; -1: there is none. */
int lh_router_find(const lh_router *router, const char *chain_name);

/* ---- What is told to all, or routed to one ---- */

/* As lh_chain_controller_put, of what is believed, to the chain that the worker belongs to; one
 * that belongs to none yet is told that it may go. LH_ERR_LIMIT: there are too many workers. */
lh_status lh_router_put(lh_router *router, const lh_worker_report *report, int64_t now_us,
                        lh_fleet_answer *answer, lh_error *error);
/* The worker is out of the fleet, whatever it last said. */
void lh_router_forget(lh_router *router, const char *worker, int64_t now_us);
/* As lh_scheduler_submit, to the chain that is picked for the sequence. */
lh_status lh_router_submit(lh_router *router, lh_sequence *sequence, int64_t now_us,
                           lh_error *error);
/* As lh_scheduler_cancel. */
void lh_router_cancel(lh_router *router, uint64_t handle);
/* As lh_chain_controller_hold, _tick and _deadline_us. */
void lh_router_hold(lh_router *router, const char *reason);
void lh_router_tick(lh_router *router, int64_t now_us);
int64_t lh_router_deadline_us(const lh_router *router);
/* As lh_chain_controller_next_action; *index: the chain whose action it is. */
bool lh_router_next_action(lh_router *router, int64_t now_us, uint32_t *index, lh_action *action);

/* ---- All chains together ---- */

/* Sequences that run, and that wait. */
void lh_router_load(const lh_router *router, uint32_t *running, uint32_t *waiting);
/* Whether a chain is up. */
bool lh_router_is_up(const lh_router *router);
/* Whether a chain is about to be up, after a change that was prepared. */
bool lh_router_is_changing_over(const lh_router *router, int64_t now_us);
/* As lh_fleet_refusal, of the first chain that has one; "" also where a chain is up. */
const char *lh_router_refusal(const lh_router *router);
/* Until when sequences are taken, as lh_scheduler_open_until_us. */
int64_t lh_router_open_until_us(const lh_router *router);
/* *most: positions that one sequence may have; *free: positions that are free on all chains. Both
 * UINT64_MAX while no chain is up. */
void lh_router_positions(const lh_router *router, uint64_t *most, uint64_t *free);
