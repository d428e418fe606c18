/* From the chain, its successor, and what bars a worker from plans. */
#include "gateway/fleet/worker_role.h"

#include "gateway/fleet/chain_draft.h"

#include <math.h>
#include <stdio.h>

#define STANDS_IN "it stands in when a worker of the chain goes"

const char *lh_worker_role_name(lh_worker_role role) {
    static const char *const names[] = {"stage", "next", "spare", "waiting"};
    return names[role];
}

static int seconds_until(int64_t time_us, int64_t now_us) {
    return (int)((time_us - now_us + 999999) / 1000000);
}

static void explain_suspension(const lh_fleet_options *options, const lh_worker *worker,
                               int64_t now_us, char *reason) {
    const lh_misconduct_record *record =
        lh_misconduct_find(options->misconduct, worker->report.name);
    snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%s: %.200s; it is tried again in %d s",
             record && record->last == LH_WORKER_FAULT_WRONG_ANSWER
                 ? "its chain gave a wrong answer"
                 : "its results were refused",
             record ? record->reason : "", seconds_until(worker->suspended_until_us, now_us));
}

/* What keeps it out of every plan; false: nothing does. */
static bool explain_bar(const lh_fleet_options *options, const lh_handover_view *view,
                        const lh_worker *worker, int64_t now_us, char *reason) {
    const lh_worker_report *report = &worker->report;
    const lh_passed_over *passed =
        lh_passed_list_find(&view->avoidance->passed, report->name, now_us);
    if (report->leaving)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "it leaves");
    else if (worker->is_cut_off)
        lh_relays_explain(options->origin.relays, report, reason);
    else if (worker->suspended_until_us > now_us)
        explain_suspension(options, worker, now_us, reason);
    else if (worker->excluded_until_us == INT64_MAX)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "it cannot compute the model: %.180s; it is planned with again when it has "
                 "restarted",
                 report->assignment.error[0] ? report->assignment.error : report->prepared.error);
    else if (worker->excluded_until_us > now_us)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "it could not load its stage: %.180s; it is planned with again in %d s",
                 report->assignment.error[0] ? report->assignment.error : report->prepared.error,
                 seconds_until(worker->excluded_until_us, now_us));
    else if (passed)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%.250s; it is tried again in %d s",
                 passed->reason, seconds_until(passed->until_us, now_us));
    else
        return false;
    return true;
}

/* By what is looked for while the chain serves. */
static void explain_aim(const lh_handover_view *view, const lh_worker *worker, char *reason) {
    char why[LH_ERROR_MESSAGE_BYTES];
    if (lh_live_planner_explain(view->planner, worker->report.name, why))
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%.220s; " STANDS_IN, why);
    else
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "no better chain with it is known yet; " STANDS_IN);
}

/* The same for every spare. */
static double gain_of_all(lh_role_inquiry *inquiry) {
    const lh_handover_view *view = &inquiry->view;
    if (!inquiry->has_gain) {
        lh_candidates all;
        lh_candidates_find(view->registry, view->avoidance, inquiry->now_us, &all);
        lh_layout plan;
        inquiry->gain =
            lh_draft_gain(inquiry->handover->options, view->planner, view->chain, &all, &plan);
        inquiry->has_gain = true;
    }
    return inquiry->gain;
}

static void explain_gain(lh_role_inquiry *inquiry, char *reason) {
    const double gain = gain_of_all(inquiry);
    if (gain >= LH_HANDOVER_WORTHWHILE)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "the chain will change for it, not so soon after "
                 "the last change");
    else if (isfinite(gain) && gain > 0)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "with it the chain would be %.2f times as fast, and changes from %.2f times "
                 "on; " STANDS_IN,
                 gain, LH_HANDOVER_WORTHWHILE);
    else
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, STANDS_IN);
}

static void explain_spare(lh_role_inquiry *inquiry, const lh_worker *worker, char *reason) {
    const lh_fleet_options *options = inquiry->handover->options;
    const int64_t now_us = inquiry->now_us, delay_us = options->rebalance_delay_us;
    if (explain_bar(options, &inquiry->view, worker, now_us, reason))
        return;
    if (delay_us == 0)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "--rebalance off: " STANDS_IN);
    else if (now_us < worker->joined_us + delay_us)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "it has just come: the chain may change for it in %d s",
                 seconds_until(worker->joined_us + delay_us, now_us));
    else if (options->aim.goal != LH_GOAL_EVEN)
        explain_aim(&inquiry->view, worker, reason);
    else
        explain_gain(inquiry, reason);
}

lh_role_inquiry lh_role_inquiry_begin(const lh_handover *handover, const lh_handover_view *view,
                                      int64_t now_us) {
    return (lh_role_inquiry){.handover = handover, .view = *view, .now_us = now_us};
}

lh_worker_role lh_worker_role_of(lh_role_inquiry *inquiry, const lh_worker *worker, char *reason) {
    const lh_handover_view *view = &inquiry->view;
    const lh_chain *next = lh_handover_successor(inquiry->handover);
    reason[0] = 0;
    if (view->chain->state == LH_CHAIN_NONE)
        return LH_ROLE_WAITING;
    if (lh_chain_find_member(view->chain, worker->report.name, NULL) >= 0)
        return LH_ROLE_STAGE;
    if (next && lh_chain_find_member(next, worker->report.name, NULL) >= 0)
        return LH_ROLE_NEXT;
    explain_spare(inquiry, worker, reason);
    return LH_ROLE_SPARE;
}
