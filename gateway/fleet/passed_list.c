/* Entries in no order. */
#include "gateway/fleet/passed_list.h"

#include "common/base/arithmetic.h"

#include <stdio.h>
#include <string.h>

#define PASSED_OVER_US     10000000
#define PASSED_OVER_MAX_US 600000000

/* UINT32_MAX: it is not there. */
static uint32_t index_of(const lh_passed_list *list, const char *worker) {
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->workers[i].worker, worker) == 0)
            return i;
    return UINT32_MAX;
}

static lh_passed_over *entry_of(lh_passed_list *list, const char *worker) {
    const uint32_t index = index_of(list, worker);
    return index < list->count ? &list->workers[index] : NULL;
}

/* In a full list, that of the one whose time is over first. */
static lh_passed_over *new_entry(lh_passed_list *list) {
    lh_passed_over *first = &list->workers[0];
    if (list->count < LH_WORKERS_MAX)
        return &list->workers[list->count++];
    for (uint32_t i = 1; i < list->count; i++)
        if (list->workers[i].until_us < first->until_us)
            first = &list->workers[i];
    return first;
}

int64_t lh_passed_list_add(lh_passed_list *list, const char *worker, const char *reason,
                           int64_t now_us) {
    lh_passed_over *entry = entry_of(list, worker);
    int64_t pause_us = entry ? lh_min_i64(2 * entry->pause_us, PASSED_OVER_MAX_US) : PASSED_OVER_US;
    if (!entry)
        entry = new_entry(list);
    *entry = (lh_passed_over){.until_us = now_us + pause_us, .pause_us = pause_us};
    snprintf(entry->worker, sizeof entry->worker, "%s", worker);
    snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    return pause_us;
}

void lh_passed_list_forget(lh_passed_list *list, const char *worker) {
    lh_passed_over *entry = entry_of(list, worker);
    if (entry)
        *entry = list->workers[--list->count];
}

void lh_passed_list_relent(lh_passed_list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        list->workers[i].until_us = 0;
}

bool lh_passed_list_has(const lh_passed_list *list, const char *worker) {
    return index_of(list, worker) < list->count;
}

const lh_passed_over *lh_passed_list_find(const lh_passed_list *list, const char *worker,
                                          int64_t now_us) {
    const uint32_t index = index_of(list, worker);
    return index < list->count && now_us < list->workers[index].until_us ? &list->workers[index]
                                                                         : NULL;
}

const lh_passed_over *lh_passed_list_any(const lh_passed_list *list, int64_t now_us) {
    for (uint32_t i = 0; i < list->count; i++)
        if (now_us < list->workers[i].until_us)
            return &list->workers[i];
    return NULL;
}
