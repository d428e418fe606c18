/* Two lists with leases. */
#include "gateway/fleet/relays.h"

#include "common/base/log.h"
#include "gateway/fleet/passed_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct behind {
    char name[LH_WORKER_NAME_BYTES], site[LH_WORKER_NAME_BYTES];
    char tls_address[LH_ADDRESS_BYTES], plain_address[LH_ADDRESS_BYTES];
    int64_t until_us;
} behind;

typedef struct relay {
    lh_worker_report report;
    int64_t renewed_us, until_us;
} relay;

struct lh_relays {
    int64_t lease_us, ticked_us;
    uint32_t relay_count, behind_count;
    relay relays[LH_RELAYS_MAX]; /* by name */
    bool has_told;               /* that there are more */
    behind behind[LH_BEHIND_RELAYS_MAX];
    lh_way listed[LH_RELAY_REACHES_MAX];
    lh_passed_list passed; /* relays that chains do without */
};

lh_status lh_relays_create(int64_t lease_us, lh_relays **relays, lh_error *error) {
    lh_relays *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for relays");
    made->lease_us = lease_us;
    *relays = made;
    return LH_OK;
}

void lh_relays_destroy(lh_relays *relays) {
    free(relays);
}

/* ---- The lists ---- */

/* Where a relay of that name is, or would be. */
static uint32_t place_of(const lh_relays *relays, const char *name) {
    uint32_t at = 0;
    while (at < relays->relay_count && strcmp(relays->relays[at].report.name, name) < 0)
        at++;
    return at;
}

static const relay *find_relay(const lh_relays *relays, const char *name) {
    uint32_t at = place_of(relays, name);
    bool is_there = at < relays->relay_count && strcmp(relays->relays[at].report.name, name) == 0;
    return is_there ? &relays->relays[at] : NULL;
}

static void remove_relay(lh_relays *relays, uint32_t at) {
    lh_passed_list_forget(&relays->passed, relays->relays[at].report.name);
    relays->relay_count--;
    memmove(&relays->relays[at], &relays->relays[at + 1],
            (relays->relay_count - at) * sizeof relays->relays[0]);
}

static void remove_behind(lh_relays *relays, uint32_t at) {
    relays->behind[at] = relays->behind[--relays->behind_count];
}

static void note_relay(lh_relays *relays, const lh_worker_report *report, int64_t now_us) {
    uint32_t at = place_of(relays, report->name);
    bool is_there = find_relay(relays, report->name);
    bool relays_on = report->relays && !report->leaving;
    if (is_there && !relays_on)
        remove_relay(relays, at);
    if (relays_on && !is_there && relays->relay_count == LH_RELAYS_MAX && !relays->has_told) {
        lh_log(LH_LOG_WARN, "fleet", "there are too many relays: one is not used worker=%s most=%u",
               report->name, LH_RELAYS_MAX);
        relays->has_told = true;
    }
    if (!relays_on || (!is_there && relays->relay_count == LH_RELAYS_MAX))
        return;
    if (!is_there) {
        memmove(&relays->relays[at + 1], &relays->relays[at],
                (relays->relay_count - at) * sizeof relays->relays[0]);
        relays->relay_count++;
    }
    relays->relays[at] = (relay){*report, now_us, now_us + relays->lease_us};
}

static uint32_t find_behind(const lh_relays *relays, const char *name) {
    uint32_t at = 0;
    while (at < relays->behind_count && strcmp(relays->behind[at].name, name) != 0)
        at++;
    return at;
}

static void note_behind(lh_relays *relays, const lh_worker_report *report, int64_t now_us) {
    uint32_t at = find_behind(relays, report->name);
    if (at < relays->behind_count && !report->is_behind_relay)
        remove_behind(relays, at);
    if (!report->is_behind_relay || at == LH_BEHIND_RELAYS_MAX)
        return;
    if (at == relays->behind_count)
        relays->behind_count++;
    behind *noted = &relays->behind[at];
    *noted = (behind){.until_us = now_us + relays->lease_us};
    memcpy(noted->name, report->name, sizeof noted->name);
    memcpy(noted->site, report->site, sizeof noted->site);
    memcpy(noted->tls_address, report->tls_address, sizeof noted->tls_address);
    memcpy(noted->plain_address, report->plain_address, sizeof noted->plain_address);
}

void lh_relays_note(lh_relays *relays, const lh_worker_report *report, int64_t now_us) {
    lh_relays_tick(relays, now_us);
    note_relay(relays, report, now_us);
    note_behind(relays, report, now_us);
}

/* ---- Time ---- */

static void extend(lh_relays *relays, int64_t by_us) {
    for (uint32_t i = 0; i < relays->relay_count; i++) {
        relays->relays[i].until_us += by_us;
        relays->relays[i].renewed_us += by_us;
    }
    for (uint32_t i = 0; i < relays->behind_count; i++)
        relays->behind[i].until_us += by_us;
}

void lh_relays_tick(lh_relays *relays, int64_t now_us) {
    int64_t gone_us = now_us - relays->ticked_us;
    if (relays->ticked_us > 0 && gone_us > relays->lease_us / 2)
        extend(relays, gone_us);
    relays->ticked_us = now_us;
    for (uint32_t i = relays->relay_count; i-- > 0;)
        if (relays->relays[i].until_us <= now_us)
            remove_relay(relays, i);
    for (uint32_t i = relays->behind_count; i-- > 0;)
        if (relays->behind[i].until_us <= now_us)
            remove_behind(relays, i);
}

void lh_relays_suspect(lh_relays *relays, const char *name, int64_t until_us) {
    uint32_t at = relays ? place_of(relays, name) : 0;
    if (relays && find_relay(relays, name) && relays->relays[at].until_us > until_us)
        relays->relays[at].until_us = until_us;
}

int64_t lh_relays_pass_over(lh_relays *relays, const char *name, const char *reason,
                            int64_t now_us) {
    return lh_passed_list_add(&relays->passed, name, reason, now_us);
}

void lh_relays_relent(lh_relays *relays) {
    if (relays)
        lh_passed_list_relent(&relays->passed);
}

int64_t lh_relays_renewed_us(const lh_relays *relays, const char *name) {
    const relay *found = relays ? find_relay(relays, name) : NULL;
    return found ? found->renewed_us : INT64_MAX;
}

/* ---- Who reaches whom ---- */

static const lh_relay_reach *find_reach(const relay *by, const char *worker) {
    for (uint32_t i = 0; i < by->report.reach_count; i++)
        if (strcmp(by->report.reaches[i].name, worker) == 0)
            return &by->report.reaches[i];
    return NULL;
}

static const lh_passed_over *find_passed(const lh_relays *relays, const relay *looked) {
    return lh_passed_list_find(&relays->passed, looked->report.name, relays->ticked_us);
}

static bool reaches(const lh_relays *relays, const relay *by, const char *worker) {
    const lh_relay_reach *reach = find_reach(by, worker);
    return reach && reach->hop.connected && !find_passed(relays, by);
}

const lh_worker_report *lh_relays_find(const lh_relays *relays, const lh_worker_report *worker) {
    for (uint32_t i = 0; relays && i < relays->relay_count; i++) {
        const relay *looked = &relays->relays[i];
        if (strcmp(looked->report.site, worker->site) == 0 && reaches(relays, looked, worker->name))
            return &looked->report;
    }
    return NULL;
}

bool lh_relays_serves(const lh_relays *relays, const char *name, const char *worker) {
    const relay *found = relays ? find_relay(relays, name) : NULL;
    return found && reaches(relays, found, worker);
}

bool lh_relays_read_hop(const lh_relays *relays, const char *name, const char *worker,
                        lh_hop_profile *hop) {
    const relay *found = relays ? find_relay(relays, name) : NULL;
    const lh_relay_reach *reach = found ? find_reach(found, worker) : NULL;
    if (!reach || !reach->hop.present)
        return false;
    *hop = reach->hop;
    return true;
}

void lh_relays_explain(const lh_relays *relays, const lh_worker_report *worker,
                       char text[LH_ERROR_MESSAGE_BYTES]) {
    for (uint32_t i = 0; relays && i < relays->relay_count; i++) {
        const relay *looked = &relays->relays[i];
        const lh_relay_reach *reach = find_reach(looked, worker->name);
        if (strcmp(looked->report.site, worker->site) != 0)
            continue;
        const lh_passed_over *passed = find_passed(relays, looked);
        if (passed)
            snprintf(text, LH_ERROR_MESSAGE_BYTES, "it is behind a relay, and %.200s",
                     passed->reason);
        else if (!reach && looked->report.reach_count == LH_RELAY_REACHES_MAX)
            snprintf(text, LH_ERROR_MESSAGE_BYTES,
                     "it is behind a relay, and relay %s has %u workers of its site already, which "
                     "is the most",
                     looked->report.name, LH_RELAY_REACHES_MAX);
        else
            snprintf(text, LH_ERROR_MESSAGE_BYTES,
                     "it is behind a relay, and relay %s does not reach it%s%s",
                     looked->report.name, reach && reach->error[0] ? ": " : " yet",
                     reach ? reach->error : "");
        return;
    }
    snprintf(text, LH_ERROR_MESSAGE_BYTES,
             "it is behind a relay, and no worker of site %s relays: start one there with --relay "
             "that other sites reach",
             worker->site);
}

uint32_t lh_relays_list(lh_relays *relays, const lh_worker_report *report, const lh_way **workers) {
    uint32_t count = 0;
    *workers = relays->listed;
    if (!find_relay(relays, report->name))
        return 0;
    for (uint32_t i = 0; i < relays->behind_count && count < LH_RELAY_REACHES_MAX; i++) {
        const behind *looked = &relays->behind[i];
        bool is_tls = looked->plain_address[0] == '\0';
        if (strcmp(looked->site, report->site) != 0 || (is_tls && report->tls_address[0] == '\0'))
            continue;
        lh_way *listed = &relays->listed[count++];
        *listed = (lh_way){.tls = is_tls};
        memcpy(listed->worker, looked->name, sizeof listed->worker);
        memcpy(listed->address, is_tls ? looked->tls_address : looked->plain_address,
               sizeof listed->address);
    }
    return count;
}
