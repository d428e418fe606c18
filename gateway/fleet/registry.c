/* Workers by name, in an array sorted by it. */
#include "gateway/fleet/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct lh_registry {
    int64_t lease_us;
    uint32_t count;
    lh_worker workers[LH_WORKERS_MAX];
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

static int find(const lh_registry *registry, const char *name) {
    for (uint32_t i = 0; i < registry->count; i++)
        if (strcmp(registry->workers[i].report.name, name) == 0)
            return (int)i;
    return -1;
}

static lh_worker *insert(lh_registry *registry, const char *name) {
    uint32_t at = 0;
    assert(registry->count < LH_WORKERS_MAX);
    while (at < registry->count && strcmp(registry->workers[at].report.name, name) < 0)
        at++;
    memmove(&registry->workers[at + 1], &registry->workers[at],
            (registry->count - at) * sizeof registry->workers[0]);
    registry->count++;
    registry->workers[at] = (lh_worker){0};
    return &registry->workers[at];
}

lh_status lh_registry_put(lh_registry *registry, const lh_worker_report *report, int64_t now_us,
                          lh_registry_change *change, lh_error *error) {
    int index = find(registry, report->name);
    lh_worker *worker = index < 0 ? NULL : &registry->workers[index];
    *change = LH_REGISTRY_RENEWED;
    if (!worker) {
        if (registry->count == LH_WORKERS_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "%u workers are registered already: no room for %s",
                           LH_WORKERS_MAX, report->name);
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
        registry->count--;
        memmove(&registry->workers[i], &registry->workers[i + 1],
                (registry->count - i) * sizeof registry->workers[0]);
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
    return !worker->report.leaving && worker->excluded_until_us <= now_us;
}
