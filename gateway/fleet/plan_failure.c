/* The error first; then a worker that it may be due to, cut to what fits. */
#include "gateway/fleet/plan_failure.h"

#include <stdio.h>
#include <string.h>

/* Of a worker's name and what it offers, and of how many more there are. */
#define OFFER_BYTES 84

/* What each worker offers, as far as there is room for it. */
static void add_offers(const lh_registry *registry, char *reason) {
    const size_t capacity = LH_ERROR_MESSAGE_BYTES;
    uint32_t count = lh_registry_count(registry);
    for (uint32_t i = 0; i < count; i++) {
        const lh_worker_report *report = &lh_registry_at(registry, i)->report;
        size_t used = strlen(reason);
        if (capacity - used < OFFER_BYTES) {
            snprintf(reason + used, capacity - used, " and %u more", count - i);
            return;
        }
        snprintf(reason + used, capacity - used, "%s%.40s %llu MiB", i == 0 ? ": " : ", ",
                 report->name, (unsigned long long)(report->memory_bytes >> 20));
    }
}

void lh_plan_failure_explain(const lh_error *error, const lh_registry *registry,
                             const lh_relays *relays, char *reason) {
    const char *problem = error->message;
    snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%s", problem);
    if (error->status == LH_ERR_LIMIT)
        add_offers(registry, reason);
    for (uint32_t i = 0; i < lh_registry_count(registry); i++) {
        const lh_worker *worker = lh_registry_at(registry, i);
        if (worker->is_cut_off) {
            char why[LH_ERROR_MESSAGE_BYTES];
            lh_relays_explain(relays, &worker->report, why);
            snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%.100s; worker %s: %.180s", problem,
                     worker->report.name, why);
        } else if (worker->suspended_until_us > 0) {
            snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                     "%.120s; worker %s is suspended, since its results were refused or wrong",
                     problem, worker->report.name);
        } else if (worker->report.assignment.state == LH_WORKER_FAILED &&
                   worker->report.assignment.error[0]) {
            snprintf(reason, LH_ERROR_MESSAGE_BYTES, "%.120s; worker %s: %.120s", problem,
                     worker->report.name, worker->report.assignment.error);
        }
    }
}
