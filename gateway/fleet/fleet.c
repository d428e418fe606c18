/* What happens to the fleet, in terms of its parts. */
#include "gateway/fleet/fleet.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"
#include "gateway/fleet/arrival_log.h"
#include "gateway/fleet/chain_draft.h"
#include "gateway/fleet/epoch_counter.h"
#include "gateway/fleet/failure_detector.h"
#include "gateway/fleet/first_plan.h"
#include "gateway/fleet/held_plan.h"
#include "gateway/fleet/plan_failure.h"
#include "gateway/fleet/relay_breaks.h"
#include "gateway/fleet/team_avoidance.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long after a chain was formed it may be formed again with the same workers: the back-off of
 * one that keeps failing. */
#define FORM_INTERVAL_US 1000000
/* How long a worker that failed to load its stage is left out: long enough that the others form
 * without it. */
#define EXCLUSION_US 30000000
/* Longer than it takes to change over where everything is prepared. */
#define CHANGE_OVER_US 1000000

/* How long the first chain waits for what its wire types depend on. A slow link takes a second or
 * two to be measured. A fast and long one may stay a bound until it is used: that chain serves with
 * what it has. */
#define MEASURING_PATIENCE_US 5000000

/* In the order of how much they change. */
typedef enum fleet_change {
    CHANGE_NOTHING,
    CHANGE_RENEW,  /* the same stages, the next epoch */
    CHANGE_REPLAN, /* what is left */
} fleet_change;

struct lh_fleet {
    lh_fleet_options options;
    lh_registry *registry;
    lh_arrival_log arrivals;
    lh_failure_detector detector;
    lh_link_avoidance avoidance;
    lh_team_avoidance teams;
    lh_relay_breaks relay_breaks;
    lh_handover handover;
    lh_live_planner planner;
    lh_cover cover;
    lh_epoch_counter epochs;
    lh_chain chain;
    lh_chain formed; /* as it was last formed */

    fleet_change pending; /* what is to become of the chain at form_not_before_us */
    int64_t form_not_before_us;
    bool has_settled_wires;     /* the chain has the types that its measurements called for */
    int64_t measuring_since_us; /* it could serve since then, but for these; 0: not yet */
    bool has_served;            /* a chain has been formed before */
    /* with which the chain took over from another, where it has not broken since */
    uint32_t change_over_epoch;
    bool first_hop; /* the gateway is connected to the first worker; where not, why: */
    char first_hop_error[LH_ERROR_MESSAGE_BYTES];
    lh_hop_trial_report first_trial; /* of the gateway's own hop to the next chain */
    uint32_t sequences;              /* that need the chain now */
    bool has_stand_in;               /* another chain of the model serves */
    int64_t created_us;
    int64_t changed_us; /* when a worker last came or went */
    const char *hold;   /* why no chain may be planned yet; NULL: it may */
    char reason[LH_ERROR_MESSAGE_BYTES];
    char told_problem[LH_ERROR_MESSAGE_BYTES];  /* of a hop, in the log; "": none since it served */
    char told_failure[LH_REPORT_ERROR_BYTES];   /* of a stage that is waited for; the same */
    char shortfall[LH_ERROR_MESSAGE_BYTES];     /* why the model does not fit; "": it does */
    char told_shortage[LH_ERROR_MESSAGE_BYTES]; /* of a chain, in the log; the same */
};

lh_status lh_fleet_create(const lh_fleet_options *options, int64_t now_us, lh_fleet **fleet,
                          lh_error *error) {
    lh_fleet *f = calloc(1, sizeof *f);
    if (!f)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet");
    lh_status status = lh_registry_create(options->lease_us, &f->registry, error);
    if (status != LH_OK) {
        free(f);
        return status;
    }
    f->options = *options;
    f->handover.options = f->planner.options = &f->options;
    lh_arrival_log_init(&f->arrivals);
    lh_failure_detector_init(&f->detector, options->renew_us, options->probation_us);
    lh_epoch_counter_init(&f->epochs, options->first_epoch, options->epoch_stride,
                          options->epoch_offset, now_us);
    snprintf(f->chain.name, sizeof f->chain.name, "%s", options->chain_name);
    f->created_us = f->changed_us = f->form_not_before_us = now_us;
    snprintf(f->reason, sizeof f->reason, "no worker is registered");
    *fleet = f;
    return LH_OK;
}

void lh_fleet_destroy(lh_fleet *fleet) {
    if (!fleet)
        return;
    lh_live_planner_reset(&fleet->planner);
    lh_registry_destroy(fleet->registry);
    free(fleet);
}

/* ---- Forming the chain ---- */

static void note_formed(lh_fleet *fleet, int64_t now_us) {
    lh_chain *chain = &fleet->chain;
    assert(chain->state == LH_CHAIN_FORMING);
    lh_chain_inherit(chain, &fleet->formed);
    lh_epoch_counter_take(&fleet->epochs, chain->epoch);
    fleet->formed = *chain;
    fleet->has_served = true;
    fleet->pending = CHANGE_NOTHING;
    fleet->form_not_before_us = now_us + FORM_INTERVAL_US;
    fleet->reason[0] = fleet->shortfall[0] = fleet->told_shortage[0] = 0;
    const lh_worker *member;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        for (uint32_t k = 0; lh_chain_member(chain, fleet->registry, i, k, &member); k++)
            if (member)
                lh_registry_note_served(fleet->registry, member->report.name);
        lh_log(LH_LOG_INFO, "fleet",
               "stage planned chain=%s epoch=%u worker=%s layers=%u-%u members=%u address=%s "
               "tls=%d wire=%s",
               chain->name, chain->epoch, stage->name, stage->first_layer, stage->last_layer - 1,
               stage->team.follower_count + 1, stage->way.address, stage->way.tls,
               lh_wire_name(stage->wire));
    }
}

static lh_handover_view view_of(const lh_fleet *fleet) {
    return (lh_handover_view){&fleet->chain,       fleet->registry,  &fleet->avoidance,
                              &fleet->first_trial, fleet->sequences, &fleet->planner};
}

/* Who comes, or loses its place, is told why it has none. */
static void tell_spare(lh_fleet *fleet, lh_role_inquiry *roles, const lh_worker *worker,
                       int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    if (worker && lh_worker_role_of(roles, worker, reason) == LH_ROLE_SPARE)
        lh_arrival_log_spare(&fleet->arrivals, worker->report.name, reason, now_us);
}

/* The chain's stages are others than before. */
static void note_planned(lh_fleet *fleet, int64_t now_us) {
    lh_wire_choice_begin(&fleet->options.wire, &fleet->chain);
    fleet->has_settled_wires = false;
    fleet->measuring_since_us = 0;
    note_formed(fleet, now_us);
    lh_role_inquiry roles = lh_fleet_ask_roles(fleet, now_us);
    for (uint32_t i = 0; i < lh_registry_count(fleet->registry); i++)
        tell_spare(fleet, &roles, lh_registry_at(fleet->registry, i), now_us);
}

/* Plans with the workers that are there. False: the chain is as it was, and `reason` says why. */
static bool plan(lh_fleet *fleet, int64_t now_us) {
    lh_error error;
    const lh_draft_view view = {fleet->registry, &fleet->avoidance, &fleet->planner};
    if (lh_draft_make(&fleet->options, &view, &fleet->chain,
                      lh_epoch_counter_next(&fleet->epochs, now_us), now_us, &fleet->chain,
                      &error) != LH_OK) {
        lh_plan_failure_explain(&error, fleet->registry, fleet->options.origin.relays,
                                fleet->reason);
        snprintf(fleet->shortfall, sizeof fleet->shortfall, "%s",
                 error.status == LH_ERR_LIMIT ? error.message : "");
        return false;
    }
    lh_handover_drop(&fleet->handover, "the chain was planned anew");
    note_planned(fleet, now_us);
    return true;
}

/* The chain that was planned for the loss of the worker that is gone, where less is to be fetched
 * for it than for what would be planned now: it serves sooner. False: the chain is as it was. */
static bool plan_stand_in(lh_fleet *fleet, int64_t now_us) {
    const char *lost;
    bool restarted;
    if (lh_chain_missing(&fleet->chain, fleet->registry, &restarted, &lost) < 0)
        return false;
    const lh_cover_plan *cover = lh_cover_find(&fleet->cover, lost);
    const lh_draft_view view = {fleet->registry, &fleet->avoidance, &fleet->planner};
    const char *digest = fleet->options.model_digest;
    lh_chain draft = fleet->chain;
    if (!cover || cover->part_count == 0)
        return false;
    uint32_t missing = lh_cover_missing(cover, fleet->registry, digest);
    if (lh_draft_make(&fleet->options, &view, &fleet->chain, 0, now_us, &draft, NULL) == LH_OK &&
        lh_cover_missing_of_chain(&draft, fleet->registry, digest) <= missing)
        return false;
    if (lh_cover_form(cover, &fleet->options, &view, lh_epoch_counter_next(&fleet->epochs, now_us),
                      now_us, &fleet->chain, NULL) != LH_OK)
        return false;
    lh_log(LH_LOG_INFO, "fleet", "the stand-in plan is used lost=%s layers_to_fetch=%u",
           cover->lost, missing);
    lh_handover_drop(&fleet->handover, "the chain was planned anew");
    note_planned(fleet, now_us);
    return true;
}

/* The successor becomes the chain. by_choice: the present one works. False: it could not. */
static bool take_over(lh_fleet *fleet, bool by_choice, int64_t now_us) {
    lh_chain next = *lh_handover_successor(&fleet->handover);
    lh_error error;
    if (lh_chain_renew(&next, fleet->registry, &fleet->options.origin,
                       lh_epoch_counter_next(&fleet->epochs, now_us), now_us, &error) != LH_OK) {
        lh_handover_fail(&fleet->handover, error.message, now_us);
        return false;
    }
    next.ready_us = fleet->chain.ready_us;
    fleet->chain = next;
    note_planned(fleet, now_us);
    fleet->change_over_epoch = fleet->chain.epoch;
    lh_handover_complete(&fleet->handover, fleet->chain.epoch, by_choice, now_us);
    return true;
}

/* Which workers nobody reaches, since no relay does. One that is reached again, or for the first
 * time, is as good as one that has come. */
static void look_after_relays(lh_fleet *fleet, int64_t now_us) {
    lh_relays *relays = fleet->options.origin.relays;
    if (relays)
        lh_relays_tick(relays, now_us);
    for (uint32_t i = 0; i < lh_registry_count(fleet->registry); i++) {
        const lh_worker *worker = lh_registry_at(fleet->registry, i);
        const lh_worker_report *report = &worker->report;
        bool is_cut_off = report->is_behind_relay && !lh_relays_find(relays, report);
        if (worker->is_cut_off && !is_cut_off) {
            fleet->changed_us = now_us;
            if (fleet->chain.state == LH_CHAIN_NONE)
                fleet->form_not_before_us = now_us;
        }
        lh_registry_cut_off(fleet->registry, report->name, is_cut_off);
    }
}

/* Also with workers that are suspended, where nothing serves without them. False as above. */
static bool plan_with_suspended(lh_fleet *fleet, int64_t now_us) {
    if (fleet->has_stand_in || !lh_registry_pardon(fleet->registry, now_us))
        return false;
    lh_log(LH_LOG_WARN, "fleet", "suspended workers are used: there is no chain without them");
    return plan(fleet, now_us);
}

/* A successor that is prepared, or what is left; a chain that cannot be planned is dropped. */
static void replan(lh_fleet *fleet, int64_t now_us) {
    const lh_handover_view view = view_of(fleet);
    if (lh_handover_is_prepared(&fleet->handover, &view, now_us) && take_over(fleet, false, now_us))
        return;
    lh_handover_drop(&fleet->handover, "the chain has lost a worker");
    if (plan_stand_in(fleet, now_us) || plan(fleet, now_us))
        return;
    lh_passed_list_relent(&fleet->avoidance.passed); /* now whoever is there is needed */
    lh_passed_list_relent(&fleet->teams.passed);
    lh_relays_relent(fleet->options.origin.relays);
    look_after_relays(fleet, now_us);
    lh_team_avoidance_mark(&fleet->teams, fleet->registry, now_us);
    if (plan(fleet, now_us) ||
        (lh_registry_readmit(fleet->registry, now_us) && plan(fleet, now_us)) ||
        plan_with_suspended(fleet, now_us))
        return;
    lh_log(LH_LOG_WARN, "fleet", "chain is down chain=%s reason=\"%s\"", fleet->chain.name,
           fleet->reason);
    memcpy(fleet->told_shortage, fleet->reason, sizeof fleet->told_shortage);
    lh_chain_drop(&fleet->chain);
    fleet->pending = CHANGE_NOTHING;
}

static bool choose_wires(lh_fleet *fleet) {
    return lh_wire_choice_make(&fleet->options.wire, fleet->options.model->width, &fleet->chain,
                               fleet->registry);
}

/* The same stages under the next epoch; where a worker is gone, what is left is planned. */
static void renew(lh_fleet *fleet, int64_t now_us) {
    choose_wires(fleet);
    if (lh_chain_renew(&fleet->chain, fleet->registry, &fleet->options.origin,
                       lh_epoch_counter_next(&fleet->epochs, now_us), now_us, NULL) == LH_OK)
        note_formed(fleet, now_us);
    else
        replan(fleet, now_us);
}

/* The chain is to change when its back-off is over; it takes no steps meanwhile. */
static void demand(lh_fleet *fleet, fleet_change change) {
    assert(change != CHANGE_NOTHING);
    if (fleet->pending < change)
        fleet->pending = change;
    fleet->change_over_epoch = 0;
    lh_chain_break(&fleet->chain);
}

/* ---- What breaks it ---- */

void lh_fleet_fault(lh_fleet *fleet, uint32_t epoch, int64_t now_us, const char *reason) {
    if (fleet->chain.state != LH_CHAIN_READY || epoch != fleet->chain.epoch)
        return;
    lh_log(LH_LOG_WARN, "fleet", "chain is broken chain=%s epoch=%u reason=\"%s\"",
           fleet->chain.name, epoch, reason);
    snprintf(fleet->reason, sizeof fleet->reason, "%s", reason);
    lh_relay_breaks_note(&fleet->relay_breaks, &fleet->chain, fleet->options.origin.relays, now_us);
    lh_failure_detector_note_broken(&fleet->detector, now_us);
    lh_failure_detector_probation(&fleet->detector, &fleet->chain, fleet->registry,
                                  fleet->options.origin.relays, now_us);
    demand(fleet, CHANGE_RENEW);
}

/* Another set of workers needs no back-off. */
static void suspend(lh_fleet *fleet, const char *worker, int64_t until_us, const char *reason,
                    int64_t now_us) {
    lh_registry_suspend(fleet->registry, worker, until_us);
    const lh_draft_view view = {fleet->registry, &fleet->avoidance, &fleet->planner};
    bool is_spared =
        fleet->has_stand_in || lh_draft_is_possible(&fleet->options, &view, &fleet->chain, now_us);
    lh_log(LH_LOG_ERROR, "fleet", "%s worker=%s for_s=%lld reason=\"%s\"",
           is_spared ? "a worker is suspended"
                     : "a worker's results are wrong, and nothing serves without it",
           worker, (long long)((until_us - now_us) / 1000000), reason);
    if (!is_spared) {
        lh_registry_suspend(fleet->registry, worker, 0);
        return;
    }
    fleet->form_not_before_us = now_us;
    demand(fleet, CHANGE_REPLAN);
}

/* Notes the fault, and leaves the worker out where it has had too many. */
static void hold_responsible(lh_fleet *fleet, const char *worker, lh_worker_fault fault,
                             int64_t now_us, const char *reason) {
    int64_t until_us =
        lh_misconduct_note_fault(fleet->options.misconduct, worker, fault, reason, now_us);
    if (until_us > 0)
        suspend(fleet, worker, until_us, reason, now_us);
}

void lh_fleet_blame_last(lh_fleet *fleet, uint32_t epoch, lh_worker_fault fault, int64_t now_us,
                         const char *reason) {
    if (fleet->chain.state != LH_CHAIN_READY || epoch != fleet->chain.epoch)
        return;
    const char *worker = fleet->chain.stages[fleet->chain.stage_count - 1].name;
    lh_fleet_fault(fleet, epoch, now_us, reason);
    hold_responsible(fleet, worker, fault, now_us, reason);
}

/* The members of its teams among them. */
void lh_fleet_blame_all(lh_fleet *fleet, lh_worker_fault fault, int64_t now_us,
                        const char *reason) {
    const lh_worker *worker;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++)
        for (uint32_t k = 0; lh_chain_member(&fleet->chain, fleet->registry, i, k, &worker); k++)
            if (worker)
                hold_responsible(fleet, worker->report.name, fault, now_us, reason);
}

/* Who was before the worker in its chain sent it what it refuses; before the first one is the
 * gateway, which is not to blame. Where only one of the two can be spared it is the one that
 * refuses. */
void lh_fleet_blame_hop(lh_fleet *fleet, uint32_t epoch, const char *worker, int64_t now_us,
                        const char *reason) {
    const lh_chain *chain = &fleet->chain;
    const int at = lh_chain_find(chain, worker);
    char ends[2][LH_WORKER_NAME_BYTES];
    int count = 0;
    if (chain->state != LH_CHAIN_READY || epoch != chain->epoch)
        return;
    for (int i = at; i >= 0 && i + 1 >= at; i--)
        strcpy(ends[count++], chain->stages[i].name);
    lh_fleet_fault(fleet, epoch, now_us, reason);
    for (int i = 0; i < count; i++)
        hold_responsible(fleet, ends[i], LH_WORKER_FAULT_REFUSAL, now_us, reason);
}

void lh_fleet_first_hop(lh_fleet *fleet, bool connected, bool refused, int64_t now_us,
                        const char *reason) {
    fleet->first_hop = connected;
    snprintf(fleet->first_hop_error, sizeof fleet->first_hop_error, "%s", connected ? "" : reason);
    lh_failure_detector_note_first_hop(&fleet->detector, refused);
    if (!connected) {
        char text[LH_ERROR_MESSAGE_BYTES];
        snprintf(text, sizeof text, "the connection to worker %s is down: %s",
                 fleet->chain.stages[0].name, reason);
        lh_fleet_fault(fleet, fleet->chain.epoch, now_us, text);
    }
}

void lh_fleet_first_trial(lh_fleet *fleet, const lh_hop_trial_report *trial) {
    fleet->first_trial = *trial;
}

void lh_fleet_moved(lh_fleet *fleet, int64_t now_us) {
    const lh_chain *chain = &fleet->chain;
    const lh_worker *worker;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        for (uint32_t k = 0; lh_chain_member(chain, fleet->registry, i, k, &worker); k++)
            if (worker)
                lh_registry_vouch(fleet->registry, worker->report.name, now_us);
    for (uint32_t i = 0; i < chain->stage_count; i++)
        lh_misconduct_note_step(fleet->options.misconduct, chain->stages[i].name,
                                i + 1 == chain->stage_count, now_us);
}

void lh_fleet_stalled(lh_fleet *fleet, int64_t progress_us, int64_t now_us) {
    lh_failure_detector_silent(&fleet->detector, &fleet->chain, fleet->registry,
                               fleet->options.origin.relays, progress_us, now_us);
}

int64_t lh_fleet_failure_due_us(const lh_fleet *fleet, int64_t progress_us) {
    return lh_failure_detector_due_us(&fleet->detector, &fleet->chain, fleet->registry,
                                      fleet->options.origin.relays, progress_us);
}

void lh_fleet_forget(lh_fleet *fleet, const char *worker, int64_t now_us) {
    lh_registry_suspect(fleet->registry, worker, now_us);
    lh_fleet_tick(fleet, now_us);
}

void lh_fleet_note_load(lh_fleet *fleet, const lh_fleet_load *load) {
    fleet->sequences = load->sequences;
    fleet->has_stand_in = load->has_stand_in;
    fleet->planner.positions = load->positions;
    fleet->planner.mix = load->mix;
}

lh_plan_study *lh_fleet_next_study(lh_fleet *fleet, int64_t now_us) {
    return lh_handover_successor(&fleet->handover)
               ? NULL
               : lh_live_planner_begin(&fleet->planner, &fleet->chain, fleet->registry,
                                       &fleet->avoidance, now_us);
}

void lh_fleet_studied(lh_fleet *fleet, lh_plan_study *study, int64_t now_us) {
    lh_live_planner_end(&fleet->planner, study, now_us);
    lh_fleet_tick(fleet, now_us);
}

void lh_fleet_hold(lh_fleet *fleet, const char *reason) {
    fleet->hold = reason;
}

/* ---- One tick ---- */

static void expire(lh_fleet *fleet, int64_t now_us) {
    lh_worker gone;
    while (lh_registry_expire(fleet->registry, now_us, &gone)) {
        fleet->changed_us = now_us;
        lh_arrival_log_gone(&fleet->arrivals, &gone, now_us);
    }
}

/* Through another relay where there is one, else without those that nobody reaches. */
static void check_relays(lh_fleet *fleet, int64_t now_us) {
    const lh_chain *chain = &fleet->chain;
    int stage = lh_chain_unrelayed(chain, fleet->options.origin.relays);
    if (stage < 0)
        return;
    snprintf(fleet->reason, sizeof fleet->reason, "relay %s reaches worker %s no longer",
             chain->stages[stage].way.via, chain->stages[stage].name);
    fleet->form_not_before_us = now_us;
    if (chain->state == LH_CHAIN_READY)
        lh_failure_detector_note_broken(&fleet->detector, now_us);
    demand(fleet, CHANGE_RENEW);
}

/* Another set of workers needs no back-off: the chain that was tried meanwhile had no chance. */
static void check_members(lh_fleet *fleet, int64_t now_us) {
    bool restarted;
    const char *who;
    if (lh_chain_missing(&fleet->chain, fleet->registry, &restarted, &who) < 0)
        return;
    snprintf(fleet->reason, sizeof fleet->reason, "worker %s %s", who,
             restarted ? "was restarted" : "is gone");
    fleet->form_not_before_us = now_us;
    if (fleet->chain.state == LH_CHAIN_READY)
        lh_failure_detector_note_broken(&fleet->detector, now_us);
    demand(fleet, restarted ? CHANGE_RENEW : CHANGE_REPLAN);
}

/* For good: until it has restarted, perhaps as a later version. */
static int64_t exclusion_end_us(bool is_final, int64_t now_us) {
    return is_final ? INT64_MAX : now_us + EXCLUSION_US;
}

/* Leaves a worker out for a while, or for good. False: it is not, since no plan is possible without
 * it. */
static bool exclude(lh_fleet *fleet, const char *worker, bool is_final, int64_t now_us) {
    lh_registry_exclude(fleet->registry, worker, exclusion_end_us(is_final, now_us));
    const lh_draft_view view = {fleet->registry, &fleet->avoidance, &fleet->planner};
    if (lh_draft_is_possible(&fleet->options, &view, &fleet->chain, now_us))
        return true;
    lh_registry_exclude(fleet->registry, worker, 0);
    return false;
}

/* It tries again by itself, later and later. In the log, once. */
static void wait_for(lh_fleet *fleet, const lh_worker *worker) {
    const char *error = worker->report.assignment.error;
    if (strcmp(fleet->told_failure, error) == 0)
        return;
    snprintf(fleet->told_failure, sizeof fleet->told_failure, "%s", error);
    lh_log(LH_LOG_ERROR, "fleet",
           "worker cannot hold its stage, and there is no plan without it worker=%s error=\"%s\"",
           worker->report.name, error);
}

/* A worker that reports that it cannot hold its stage is left out for a while, where it can be
 * spared. */
static void check_failures(lh_fleet *fleet, int64_t now_us) {
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_chain_awaited(&fleet->chain, fleet->registry, i);
        if (lh_chain_stage_state(&fleet->chain, fleet->registry, i) != LH_WORKER_FAILED ||
            worker->excluded_until_us > now_us)
            continue;
        if (!exclude(fleet, worker->report.name, worker->report.assignment.is_final, now_us)) {
            wait_for(fleet, worker);
            continue;
        }
        lh_log(LH_LOG_ERROR, "fleet", "worker cannot hold its stage worker=%s error=\"%s\"",
               worker->report.name, worker->report.assignment.error);
        snprintf(fleet->reason, sizeof fleet->reason, "worker %s cannot hold its stage: %.220s",
                 worker->report.name, worker->report.assignment.error);
        demand(fleet, CHANGE_REPLAN);
    }
}

/* One that is to leave before it has loaded what it was given is replaced at once. */
static void check_leavers(lh_fleet *fleet, int64_t now_us) {
    if (fleet->chain.state == LH_CHAIN_READY || fleet->pending != CHANGE_NOTHING ||
        now_us < fleet->form_not_before_us)
        return;
    if (lh_chain_has_unready_leaver(&fleet->chain, fleet->registry))
        plan(fleet, now_us);
}

/* When the workers that are there may be planned without a chain to go by. INT64_MAX: not yet, by
 * time alone. */
static int64_t first_plan_due_us(const lh_fleet *fleet, int64_t now_us) {
    const lh_fleet_options *options = &fleet->options;
    lh_candidates candidates;
    lh_layout held;
    if (fleet->hold)
        return INT64_MAX;
    lh_candidates_find(fleet->registry, &fleet->avoidance, now_us, &candidates);
    if (candidates.count == 0 && !lh_registry_has_suspended(fleet->registry, now_us))
        return INT64_MAX;
    /* They are a chain already, or sequences may be waiting: who comes later is used later. */
    if (fleet->has_served || lh_held_plan(candidates.workers, candidates.count,
                                          options->model->layers, options->model_digest, &held))
        return fleet->changed_us;
    return lh_first_plan_due_us(candidates.count, options->workers_expected, options->plan_delay_us,
                                fleet->created_us, fleet->changed_us);
}

/* Once, until it is another one. */
static void tell_shortage(lh_fleet *fleet) {
    if (strcmp(fleet->told_shortage, fleet->reason) == 0)
        return;
    memcpy(fleet->told_shortage, fleet->reason, sizeof fleet->told_shortage);
    lh_log(LH_LOG_WARN, "fleet", "no chain can be formed chain=%s reason=\"%s\"", fleet->chain.name,
           fleet->reason);
}

static void start_chain(lh_fleet *fleet, int64_t now_us) {
    uint32_t count = lh_registry_count(fleet->registry);
    if (fleet->hold || count == 0)
        fleet->shortfall[0] = 0;
    if (fleet->hold) {
        snprintf(fleet->reason, sizeof fleet->reason, "%s", fleet->hold);
    } else if (now_us >= first_plan_due_us(fleet, now_us)) {
        if (!plan(fleet, now_us) && !plan_with_suspended(fleet, now_us)) {
            fleet->form_not_before_us = now_us + FORM_INTERVAL_US;
            tell_shortage(fleet);
        }
    } else if (count < fleet->options.workers_expected && !fleet->has_served) {
        snprintf(fleet->reason, sizeof fleet->reason, "%u of %u expected workers are registered",
                 count, fleet->options.workers_expected);
    } else if (count == 0) {
        snprintf(fleet->reason, sizeof fleet->reason, "no worker is registered");
    }
}

/* Workers of the successor that cannot prepare their stage are left out for a while, too. */
static void check_preparations(lh_fleet *fleet, const lh_handover_view *view, int64_t now_us) {
    const lh_chain *next = lh_handover_successor(&fleet->handover);
    for (uint32_t i = 0; next && i < next->stage_count; i++) {
        const lh_worker *worker = lh_handover_failed(&fleet->handover, view, i);
        if (!worker)
            continue;
        lh_log(LH_LOG_ERROR, "fleet", "worker cannot prepare its stage worker=%s error=\"%s\"",
               worker->report.name, worker->report.prepared.error);
        lh_registry_exclude(fleet->registry, worker->report.name,
                            exclusion_end_us(worker->report.prepared.is_final, now_us));
    }
}

/* One end of a hop of the successor that does not carry steps is passed over. */
static void check_trials(lh_fleet *fleet, const lh_handover_view *view, int64_t now_us) {
    int hop = lh_handover_failed_hop(&fleet->handover, view, now_us);
    if (hop < 0)
        return;
    const lh_new_hops hops = lh_handover_hops(&fleet->handover, view);
    const char *worker = hops.next->stages[lh_new_hops_culprit(&hops, (uint32_t)hop)].name;
    char reason[LH_ERROR_MESSAGE_BYTES];
    lh_new_hops_describe(&hops, (uint32_t)hop, reason, sizeof reason);
    int64_t pause_us = lh_passed_list_add(&fleet->avoidance.passed, worker, reason, now_us);
    lh_log(LH_LOG_WARN, "fleet", "a worker is not used worker=%s for_s=%lld reason=\"%s\"", worker,
           (long long)(pause_us / 1000000), reason);
    lh_handover_fail(&fleet->handover, "one of its hops does not carry steps", now_us);
}

static void hand_over(lh_fleet *fleet, int64_t now_us) {
    const lh_handover_view view = view_of(fleet);
    const uint32_t epoch = lh_epoch_counter_next(&fleet->epochs, now_us);
    check_trials(fleet, &view, now_us);
    if (lh_team_avoidance_pass_over_prepared(&fleet->teams, &fleet->handover, &view,
                                             fleet->registry, now_us))
        lh_handover_fail(&fleet->handover, "one of its teams does not form", now_us);
    check_preparations(fleet, &view, now_us);
    lh_handover_decision decision = lh_handover_review(&fleet->handover, &view, epoch, now_us);
    const lh_chain *next = lh_handover_successor(&fleet->handover);
    if (next && lh_chain_has_team_of(next, epoch))
        lh_epoch_counter_take(&fleet->epochs, epoch);
    if (decision == LH_HANDOVER_TAKE_OVER) {
        take_over(fleet, true, now_us);
    } else if (decision == LH_HANDOVER_LET_GO) {
        replan(fleet, now_us);
        fleet->form_not_before_us = now_us + FORM_INTERVAL_US; /* nothing changes until then */
    }
}

/* The chain could serve. False: it waits for what its wire types depend on, or forms again since
 * they are to change, once. The first chain of all may wait for measurements; a later one does not,
 * since sequences may be waiting for it. */
static bool settle_wires(lh_fleet *fleet, int64_t now_us) {
    if (fleet->has_settled_wires)
        return true;
    if (fleet->measuring_since_us == 0)
        fleet->measuring_since_us = now_us;
    if (fleet->chain.ready_us == 0 && now_us < fleet->measuring_since_us + MEASURING_PATIENCE_US &&
        !lh_wire_choice_is_known(&fleet->options.wire, fleet->options.model->width, &fleet->chain,
                                 fleet->registry)) {
        snprintf(fleet->reason, sizeof fleet->reason, "its stages and hops are being measured");
        return false;
    }
    fleet->has_settled_wires = true;
    if (!choose_wires(fleet))
        return true;
    renew(fleet, now_us);
    return false;
}

/* Where a forming chain waits for a hop alone, and why is known: in the log, once. */
static void tell_hop_problem(lh_fleet *fleet) {
    int hop = lh_chain_awaited_hop(&fleet->chain, fleet->registry, fleet->first_hop);
    if (hop < 0)
        return;
    const lh_worker *near =
        hop > 0 ? lh_chain_worker(&fleet->chain, fleet->registry, (uint32_t)hop - 1) : NULL;
    const char *problem = near ? near->report.next_error : fleet->first_hop_error;
    if (!problem[0] || strcmp(fleet->told_problem, fleet->reason) == 0)
        return;
    memcpy(fleet->told_problem, fleet->reason, sizeof fleet->told_problem);
    lh_log(LH_LOG_WARN, "fleet", "the chain waits for a hop chain=%s epoch=%u reason=\"%s\"",
           fleet->chain.name, fleet->chain.epoch, fleet->reason);
}

static void check_readiness(lh_fleet *fleet, int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    bool complete = lh_chain_is_complete(&fleet->chain, fleet->registry,
                                         fleet->first_hop ? NULL : fleet->first_hop_error, reason,
                                         sizeof reason);
    if (fleet->chain.state == LH_CHAIN_READY) {
        if (!complete)
            lh_fleet_fault(fleet, fleet->chain.epoch, now_us, reason);
        return;
    }
    memcpy(fleet->reason, reason, sizeof fleet->reason);
    tell_hop_problem(fleet);
    if (!complete || !settle_wires(fleet, now_us))
        return;
    fleet->told_problem[0] = fleet->told_failure[0] = 0;
    lh_chain_note_ready(&fleet->chain, now_us);
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++)
        lh_passed_list_forget(&fleet->avoidance.passed, fleet->chain.stages[i].name);
    lh_team_avoidance_note_formed(&fleet->teams, &fleet->chain);
    lh_log(LH_LOG_INFO, "fleet", "chain is ready chain=%s epoch=%u stages=%u after_ms=%lld",
           fleet->chain.name, fleet->chain.epoch, fleet->chain.stage_count,
           (long long)((now_us - fleet->chain.formed_us) / 1000));
}

static bool plan_without(lh_fleet *fleet, uint32_t stage, const char *reason, int64_t now_us) {
    const lh_chain_stage end = fleet->chain.stages[stage];
    int64_t pause_us = lh_passed_list_add(&fleet->avoidance.passed, end.name, reason, now_us);
    if (!plan(fleet, now_us)) {
        lh_passed_list_forget(&fleet->avoidance.passed, end.name);
        return false;
    }
    lh_log(LH_LOG_WARN, "fleet",
           "a hop does not come up: planned without worker=%s for_s=%lld reason=\"%s\"", end.name,
           (long long)(pause_us / 1000000), reason);
    return true;
}

/* Without the far end of the hop, else without the near one, else as it is. */
static void avoid_overdue_hop(lh_fleet *fleet, int64_t now_us) {
    int hop = lh_link_avoidance_overdue_hop(&fleet->avoidance, &fleet->chain, fleet->registry,
                                            fleet->first_hop, now_us);
    char reason[LH_ERROR_MESSAGE_BYTES];
    memcpy(reason, fleet->reason, sizeof reason);
    if (hop < 0 ||
        ((uint32_t)hop < fleet->chain.stage_count &&
         plan_without(fleet, (uint32_t)hop, reason, now_us)) ||
        (hop > 0 && plan_without(fleet, (uint32_t)hop - 1, reason, now_us)))
        return;
    memcpy(fleet->reason, reason, sizeof reason);
}

/* Without all teams that have not formed by now; where there is no such plan, it waits for them. */
static void avoid_unformed_teams(lh_fleet *fleet, int64_t now_us) {
    if (!lh_team_avoidance_has_overdue(&fleet->teams, &fleet->chain, fleet->registry, now_us))
        return;
    const lh_chain before = fleet->chain;
    char reason[LH_ERROR_MESSAGE_BYTES];
    memcpy(reason, fleet->reason, sizeof reason);
    lh_team_avoidance_pass_over(&fleet->teams, &before, fleet->registry, now_us);
    if (plan(fleet, now_us)) {
        lh_team_avoidance_tell(&fleet->teams, &before, fleet->registry, now_us);
        return;
    }
    lh_team_avoidance_readmit(&fleet->teams, &before, fleet->registry, now_us);
    memcpy(fleet->reason, reason, sizeof reason);
}

/* Nobody fetches for a loss while another chain is prepared. */
static void review_cover(lh_fleet *fleet, int64_t now_us) {
    const lh_draft_view view = {fleet->registry, &fleet->avoidance, &fleet->planner};
    if (!lh_handover_successor(&fleet->handover))
        lh_cover_review(&fleet->cover, &fleet->options, &view, &fleet->chain, now_us);
}

void lh_fleet_tick(lh_fleet *fleet, int64_t now_us) {
    lh_failure_detector_absence(&fleet->detector, fleet->registry, now_us);
    lh_failure_detector_refused(&fleet->detector, &fleet->chain, fleet->registry,
                                fleet->options.origin.relays, now_us);
    expire(fleet, now_us);
    look_after_relays(fleet, now_us);
    lh_team_avoidance_mark(&fleet->teams, fleet->registry, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE) {
        check_members(fleet, now_us);
        check_relays(fleet, now_us);
        check_failures(fleet, now_us);
        check_leavers(fleet, now_us);
    }
    if (fleet->pending != CHANGE_NOTHING && now_us >= fleet->form_not_before_us) {
        if (fleet->pending == CHANGE_RENEW)
            renew(fleet, now_us);
        else
            replan(fleet, now_us);
    }
    if (fleet->chain.state == LH_CHAIN_NONE && now_us >= fleet->form_not_before_us)
        start_chain(fleet, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE)
        hand_over(fleet, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE && fleet->pending == CHANGE_NOTHING)
        check_readiness(fleet, now_us);
    if (fleet->chain.state == LH_CHAIN_FORMING && fleet->pending == CHANGE_NOTHING)
        avoid_overdue_hop(fleet, now_us);
    if (fleet->chain.state == LH_CHAIN_FORMING && fleet->pending == CHANGE_NOTHING)
        avoid_unformed_teams(fleet, now_us);
    review_cover(fleet, now_us);
    assert(fleet->pending == CHANGE_NOTHING || fleet->chain.state == LH_CHAIN_FORMING);
    lh_failure_detector_note_tick(&fleet->detector, now_us, lh_fleet_deadline_us(fleet));
}

int64_t lh_fleet_deadline_us(const lh_fleet *fleet) {
    int64_t deadline_us = lh_registry_deadline_us(fleet->registry);
    if (fleet->pending != CHANGE_NOTHING)
        deadline_us = lh_min_i64(deadline_us, fleet->form_not_before_us);
    if (fleet->chain.state == LH_CHAIN_NONE)
        deadline_us =
            lh_min_i64(deadline_us, lh_max_i64(first_plan_due_us(fleet, fleet->form_not_before_us),
                                               fleet->form_not_before_us));
    return deadline_us;
}

/* ---- The workers' reports ---- */

static void note_change(lh_fleet *fleet, const lh_worker_report *report, lh_registry_change change,
                        int64_t now_us) {
    if (change == LH_REGISTRY_RENEWED)
        return;
    fleet->changed_us = now_us;
    lh_passed_list_forget(&fleet->avoidance.passed, report->name); /* it is not what it was */
    lh_passed_list_forget(&fleet->teams.passed, report->name);
    if (change == LH_REGISTRY_JOINED)
        lh_registry_suspend(
            fleet->registry, report->name,
            lh_misconduct_suspended_until_us(fleet->options.misconduct, report->name, now_us));
    /* What could not be planned without it perhaps can now. */
    if (fleet->chain.state == LH_CHAIN_NONE)
        fleet->form_not_before_us = now_us;
    lh_arrival_log_came(&fleet->arrivals, report, change, now_us);
}

lh_status lh_fleet_put(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us,
                       lh_fleet_answer *answer, lh_error *error) {
    lh_registry_change change;
    lh_status status = lh_registry_put(fleet->registry, report, now_us, &change, error);
    if (status != LH_OK)
        return status;
    note_change(fleet, report, change, now_us);
    int stage = lh_chain_find(&fleet->chain, report->name);
    if (stage >= 0)
        lh_live_planner_note(&fleet->planner, &fleet->chain, (uint32_t)stage, fleet->registry,
                             now_us);
    lh_epoch_counter_skip(&fleet->epochs, report->assignment.generation, now_us);
    lh_fleet_tick(fleet, now_us);
    if (change != LH_REGISTRY_RENEWED) {
        lh_role_inquiry roles = lh_fleet_ask_roles(fleet, now_us);
        tell_spare(fleet, &roles, lh_registry_find(fleet->registry, report->name), now_us);
    }
    const lh_handover_view view = view_of(fleet);
    lh_answer_make(&fleet->options, &fleet->handover, &view, report, answer);
    lh_cover_part task;
    if (!answer->has_prepare && fleet->chain.state == LH_CHAIN_READY &&
        lh_cover_task(&fleet->cover, &fleet->options, report, &task))
        lh_answer_add_cover(answer, &fleet->chain, task.first_layer, task.last_layer,
                            lh_cover_bytes_per_s(&fleet->options, report));
    return LH_OK;
}

/* ---- What it is ---- */

lh_role_inquiry lh_fleet_ask_roles(const lh_fleet *fleet, int64_t now_us) {
    const lh_handover_view view = view_of(fleet);
    return lh_role_inquiry_begin(&fleet->handover, &view, now_us);
}

const lh_chain *lh_fleet_chain(const lh_fleet *fleet) {
    return &fleet->chain;
}

const lh_chain *lh_fleet_successor(const lh_fleet *fleet, const char **cause) {
    *cause = lh_handover_cause_text(&fleet->handover);
    return lh_handover_successor(&fleet->handover);
}

const lh_cover *lh_fleet_cover(const lh_fleet *fleet) {
    return &fleet->cover;
}

const char *lh_fleet_model_digest(const lh_fleet *fleet) {
    return fleet->options.model_digest;
}

const lh_chain_stage *lh_fleet_first_try(const lh_fleet *fleet) {
    const lh_handover_view view = view_of(fleet);
    return lh_handover_tries_first(&fleet->handover, &view)
               ? lh_handover_successor(&fleet->handover)->stages
               : NULL;
}

const lh_registry *lh_fleet_registry(const lh_fleet *fleet) {
    return fleet->registry;
}

const lh_relays *lh_fleet_relays(const lh_fleet *fleet) {
    return fleet->options.origin.relays;
}

const lh_plan_study *lh_fleet_latest_study(const lh_fleet *fleet) {
    return fleet->planner.latest;
}

lh_status lh_fleet_add_to_map(const lh_fleet *fleet, bool is_first, int64_t now_us,
                              lh_live_map *map) {
    lh_candidates candidates;
    lh_candidates_find(fleet->registry, &fleet->avoidance, now_us, &candidates);
    if (is_first)
        lh_live_map_begin(&fleet->options, map);
    lh_status status =
        lh_live_map_add(&fleet->options, &candidates, &fleet->planner.speeds, map, NULL);
    if (status == LH_OK)
        lh_live_map_note_teams(map, &fleet->planner.speeds, &fleet->chain);
    return status;
}

bool lh_fleet_is_changing_over(const lh_fleet *fleet, int64_t now_us) {
    return fleet->chain.epoch == fleet->change_over_epoch &&
           fleet->chain.state == LH_CHAIN_FORMING &&
           now_us < fleet->chain.formed_us + CHANGE_OVER_US;
}

const char *lh_fleet_first_hop_error(const lh_fleet *fleet) {
    return fleet->first_hop_error;
}

const char *lh_fleet_refusal(const lh_fleet *fleet) {
    return fleet->chain.state == LH_CHAIN_READY ? "" : lh_registry_refusal(fleet->registry);
}

const char *lh_fleet_shortfall(const lh_fleet *fleet) {
    return fleet->shortfall;
}

const char *lh_fleet_reason(const lh_fleet *fleet) {
    return fleet->chain.state == LH_CHAIN_READY ? "" : fleet->reason;
}
