/* From the chain, its successor, and what bars a worker from plans. */
#include "gateway/fleet/worker_role.h"

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

/* What keeps it out of every plan; false: nothing does. */
static bool explain_bar(const lh_handover_view *view, const lh_worker *worker, int64_t now_us,
                        char *reason) {
    const lh_worker_report *report = &worker->report;
    const lh_passed_over *passed = lh_link_avoidance_find(view->avoidance, report->name, now_us);
    if (report->leaving)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "it leaves");
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

static void explain_gain(const lh_handover *handover, const lh_handover_view *view, int64_t now_us,
                         char *reason) {
    const lh_candidates all = lh_draft_candidates(view->registry, view->avoidance, now_us);
    lh_plan plan;
    double gain = lh_draft_gain(handover->options, view->chain, &all, &plan);
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

static void explain_spare(const lh_handover *handover, const lh_handover_view *view,
                          const lh_worker *worker, int64_t now_us, char *reason) {
    int64_t delay_us = handover->options->rebalance_delay_us;
    if (explain_bar(view, worker, now_us, reason))
        return;
    if (delay_us == 0)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "--rebalance off: " STANDS_IN);
    else if (now_us < worker->joined_us + delay_us)
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "it has just come: the chain may change for it in %d s",
                 seconds_until(worker->joined_us + delay_us, now_us));
    else
        explain_gain(handover, view, now_us, reason);
}

lh_worker_role lh_worker_role_of(const lh_handover *handover, const lh_handover_view *view,
                                 const lh_worker *worker, int64_t now_us, char *reason) {
    const lh_chain *next = lh_handover_successor(handover);
    reason[0] = 0;
    if (view->chain->state == LH_CHAIN_NONE)
        return LH_ROLE_WAITING;
    if (lh_chain_find(view->chain, worker->report.name) >= 0)
        return LH_ROLE_STAGE;
    if (next && lh_chain_find(next, worker->report.name) >= 0)
        return LH_ROLE_NEXT;
    explain_spare(handover, view, worker, now_us, reason);
    return LH_ROLE_SPARE;
}
