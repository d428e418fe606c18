/* The workers' offers, then their failures. */
#include "gateway/fleet/shortage.h"

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

void lh_shortage_explain(const lh_error *error, const lh_registry *registry,
                         const lh_relays *relays, char *reason) {
    const size_t capacity = LH_ERROR_MESSAGE_BYTES;
    snprintf(reason, capacity, "%s", error->message);
    if (error->status == LH_ERR_LIMIT)
        add_offers(registry, reason);
    for (uint32_t i = 0; i < lh_registry_count(registry); i++) {
        const lh_worker *worker = lh_registry_at(registry, i);
        const lh_worker_report *report = &worker->report;
        if (worker->is_cut_off) {
            char why[LH_ERROR_MESSAGE_BYTES];
            lh_relays_explain(relays, report, why);
            snprintf(reason, capacity, "%.100s; worker %s: %.180s", error->message, report->name,
                     why);
        } else if (report->assignment.state == LH_WORKER_FAILED && report->assignment.error[0])
            snprintf(reason, capacity, "%.120s; worker %s: %.120s", error->message, report->name,
                     report->assignment.error);
    }
}
