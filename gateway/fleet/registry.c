/* Workers by name, in an array sorted by it. */
#include "gateway/fleet/registry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_registry {
    int64_t lease_us;
    uint32_t count;
    lh_worker workers[LH_WORKERS_MAX];
    /* Those that have served last, in no order; the next one takes the place of `oldest`. */
    char served[LH_PLACES_KEPT_MAX][LH_WORKER_NAME_BYTES];
    uint32_t oldest;
};

lh_status lh_registry_create(int64_t lease_us, lh_registry **registry, lh_error *error) {
    lh_registry *r = calloc(1, sizeof *r);
    if (!r)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the registry");
    r->lease_us = lease_us;
    *registry = r;
    return LH_OK;
}

void lh_registry_destroy(lh_registry *registry) {
    free(registry);
}

/* How many come before this name. */
static uint32_t count_before(const lh_registry *registry, const char *name) {
    uint32_t first = 0, last = registry->count;
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        if (strcmp(registry->workers[middle].report.name, name) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

static int find(const lh_registry *registry, const char *name) {
    uint32_t at = count_before(registry, name);
    return at < registry->count && strcmp(registry->workers[at].report.name, name) == 0 ? (int)at
                                                                                        : -1;
}

static lh_worker *insert(lh_registry *registry, const char *name) {
    uint32_t at = count_before(registry, name);
    assert(registry->count < LH_WORKERS_MAX);
    memmove(&registry->workers[at + 1], &registry->workers[at],
            (registry->count - at) * sizeof registry->workers[0]);
    registry->count++;
    registry->workers[at] = (lh_worker){0};
    return &registry->workers[at];
}

/* ---- Places ---- */

static bool has_served(const lh_registry *registry, const char *name) {
    for (uint32_t i = 0; i < LH_PLACES_KEPT_MAX; i++)
        if (strcmp(registry->served[i], name) == 0)
            return true;
    return false;
}

void lh_registry_note_served(lh_registry *registry, const char *name) {
    if (has_served(registry, name))
        return;
    snprintf(registry->served[registry->oldest], LH_WORKER_NAME_BYTES, "%s", name);
    registry->oldest = (registry->oldest + 1) % LH_PLACES_KEPT_MAX;
}

static uint32_t count_kept(const lh_registry *registry) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < LH_PLACES_KEPT_MAX; i++)
        kept += registry->served[i][0] && find(registry, registry->served[i]) < 0;
    return kept;
}

static void remove_at(lh_registry *registry, uint32_t index) {
    registry->count--;
    memmove(&registry->workers[index], &registry->workers[index + 1],
            (registry->count - index) * sizeof registry->workers[0]);
}

/* Of the one who has not reported for longest. */
static void take_stale_place(lh_registry *registry, int64_t now_us) {
    const lh_worker *stalest = NULL;
    for (uint32_t i = 0; i < registry->count; i++) {
        const lh_worker *worker = &registry->workers[i];
        if (now_us - worker->renewed_us >= registry->lease_us / 2 &&
            !has_served(registry, worker->report.name) &&
            (!stalest || worker->renewed_us < stalest->renewed_us))
            stalest = worker;
    }
    if (stalest)
        remove_at(registry, (uint32_t)(stalest - registry->workers));
}

static lh_status find_place(lh_registry *registry, const char *name, int64_t now_us,
                            lh_error *error) {
    uint32_t places = LH_WORKERS_MAX;
    if (!has_served(registry, name))
        places -= count_kept(registry);
    if (registry->count >= places)
        take_stale_place(registry, now_us);
    if (registry->count < places)
        return LH_OK;
    return lh_fail(
        error, LH_ERR_LIMIT, "%u workers are registered already%s: no room for %s", registry->count,
        places < LH_WORKERS_MAX ? ", and others that have served may come back" : "", name);
}

/* ---- Reports ---- */

lh_status lh_registry_put(lh_registry *registry, const lh_worker_report *report, int64_t now_us,
                          lh_registry_change *change, lh_error *error) {
    int index = find(registry, report->name);
    lh_worker *worker = index < 0 ? NULL : &registry->workers[index];
    *change = LH_REGISTRY_RENEWED;
    if (!worker) {
        lh_status status = find_place(registry, report->name, now_us, error);
        if (status != LH_OK)
            return status;
        worker = insert(registry, report->name);
        worker->joined_us = now_us;
        *change = LH_REGISTRY_JOINED;
    } else if (worker->report.instance != report->instance) {
        worker->joined_us = now_us;
        worker->excluded_until_us = 0;
        *change = LH_REGISTRY_RESTARTED;
    }
    worker->report = *report;
    worker->renewed_us = now_us;
    worker->lease_until_us = now_us + registry->lease_us;
    return LH_OK;
}

bool lh_registry_expire(lh_registry *registry, int64_t now_us, lh_worker *gone) {
    for (uint32_t i = 0; i < registry->count; i++) {
        if (registry->workers[i].lease_until_us > now_us)
            continue;
        if (gone)
            *gone = registry->workers[i];
        remove_at(registry, i);
        return true;
    }
    return false;
}

void lh_registry_suspect(lh_registry *registry, const char *name, int64_t until_us) {
    int index = find(registry, name);
    if (index >= 0 && registry->workers[index].lease_until_us > until_us)
        registry->workers[index].lease_until_us = until_us;
}

void lh_registry_vouch(lh_registry *registry, const char *name, int64_t now_us) {
    int index = find(registry, name);
    if (index >= 0 && registry->workers[index].lease_until_us < now_us + registry->lease_us)
        registry->workers[index].lease_until_us = now_us + registry->lease_us;
}

void lh_registry_extend(lh_registry *registry, int64_t by_us) {
    assert(by_us >= 0);
    for (uint32_t i = 0; i < registry->count; i++) {
        registry->workers[i].lease_until_us += by_us;
        registry->workers[i].renewed_us += by_us;
    }
}

void lh_registry_exclude(lh_registry *registry, const char *name, int64_t until_us) {
    int index = find(registry, name);
    if (index >= 0)
        registry->workers[index].excluded_until_us = until_us;
}

void lh_registry_suspend(lh_registry *registry, const char *name, int64_t until_us) {
    int index = find(registry, name);
    if (index >= 0)
        registry->workers[index].suspended_until_us = until_us;
}

bool lh_registry_has_suspended(const lh_registry *registry, int64_t now_us) {
    for (uint32_t i = 0; i < registry->count; i++)
        if (registry->workers[i].suspended_until_us > now_us)
            return true;
    return false;
}

bool lh_registry_pardon(lh_registry *registry, int64_t now_us) {
    bool was_any = lh_registry_has_suspended(registry, now_us);
    for (uint32_t i = 0; i < registry->count; i++)
        registry->workers[i].suspended_until_us = 0;
    return was_any;
}

void lh_registry_cut_off(lh_registry *registry, const char *name, bool is_cut_off) {
    int index = find(registry, name);
    if (index >= 0)
        registry->workers[index].is_cut_off = is_cut_off;
}

void lh_registry_note_teaming(lh_registry *registry, const char *name, bool is_alone,
                              bool is_on_probation) {
    int index = find(registry, name);
    if (index < 0)
        return;
    registry->workers[index].is_alone = is_alone;
    registry->workers[index].is_on_probation = is_on_probation;
}

bool lh_registry_readmit(lh_registry *registry, int64_t now_us) {
    bool was_any = false;
    for (uint32_t i = 0; i < registry->count; i++) {
        was_any = was_any || registry->workers[i].excluded_until_us > now_us;
        registry->workers[i].excluded_until_us = 0;
    }
    return was_any;
}

const char *lh_registry_refusal(const lh_registry *registry) {
    for (uint32_t i = 0; i < registry->count; i++) {
        const lh_worker_report *report = &registry->workers[i].report;
        if (report->assignment.state == LH_WORKER_FAILED && report->assignment.is_final)
            return report->assignment.error;
    }
    return "";
}

uint32_t lh_registry_count(const lh_registry *registry) {
    return registry->count;
}

const lh_worker *lh_registry_at(const lh_registry *registry, uint32_t index) {
    assert(index < registry->count);
    return &registry->workers[index];
}

const lh_worker *lh_registry_find(const lh_registry *registry, const char *name) {
    int index = find(registry, name);
    return index < 0 ? NULL : &registry->workers[index];
}

int64_t lh_registry_deadline_us(const lh_registry *registry) {
    int64_t deadline = INT64_MAX;
    for (uint32_t i = 0; i < registry->count; i++)
        if (registry->workers[i].lease_until_us < deadline)
            deadline = registry->workers[i].lease_until_us;
    return deadline;
}

bool lh_worker_is_usable(const lh_worker *worker, int64_t now_us) {
    return !worker->report.leaving && !worker->is_cut_off && worker->excluded_until_us <= now_us &&
           worker->suspended_until_us <= now_us;
}
