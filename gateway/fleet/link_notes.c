/* From names of workers to their sites. */
#include "gateway/fleet/link_notes.h"

#include <stdio.h>
#include <string.h>

/* NULL: it is not there. "": the gateway. */
static const char *site_of(const lh_link_notes *notes, const char *worker) {
    if (worker[0] == '\0')
        return notes->gateway_site;
    const lh_worker *found = lh_registry_find(notes->registry, worker);
    return found ? found->report.site : NULL;
}

static void note(const lh_link_notes *notes, const char *from, const char *to,
                 lh_link_source source, const lh_hop_profile *profile, int64_t now_us) {
    const char *from_site = site_of(notes, from), *to_site = site_of(notes, to);
    if (!notes->links || !from_site || !to_site || !profile->present)
        return;
    lh_link_value value = {.bytes_per_us = profile->bytes_per_us,
                           .bytes_per_us_is_bound = profile->bytes_per_us_is_bound,
                           .round_trip_us = profile->round_trip_us,
                           .rate_at_us = now_us - profile->age_us,
                           .source = source};
    snprintf(value.from, sizeof value.from, "%s", from);
    snprintf(value.to, sizeof value.to, "%s", to);
    lh_link_matrix_note(notes->links, from_site, to_site, &value, now_us);
}

/* A report of another epoch may mean the hop to somebody else. */
static void take_hop(const lh_link_notes *notes, const lh_worker_report *report, int64_t now_us) {
    const lh_chain *chain = notes->chain;
    int stage = lh_chain_find(chain, report->name);
    if (stage < 0 || report->assignment.state != LH_WORKER_READY ||
        report->assignment.generation != chain->epoch)
        return;
    uint32_t next = (uint32_t)stage + 1;
    const char *to = next < chain->stage_count ? chain->stages[next].name : "";
    note(notes, report->name, to, LH_LINK_HOP, &report->next, now_us);
}

void lh_link_notes_take(const lh_link_notes *notes, const lh_worker_report *report,
                        int64_t now_us) {
    take_hop(notes, report, now_us);
    if (report->trial.state == LH_HOP_TRIAL_PROVEN)
        note(notes, report->name, report->trial.next, LH_LINK_TRIAL, &report->trial.hop, now_us);
    for (uint32_t i = 0; i < report->reach_count; i++)
        if (report->reaches[i].hop.connected)
            note(notes, report->name, report->reaches[i].name, LH_LINK_HOP, &report->reaches[i].hop,
                 now_us);
}

void lh_link_notes_take_first_hop(const lh_link_notes *notes, const char *worker,
                                  const lh_hop_profile *profile, int64_t now_us) {
    note(notes, "", worker, LH_LINK_HOP, profile, now_us);
}
