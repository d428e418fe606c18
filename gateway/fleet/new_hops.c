/* Two chains side by side. */
#include "gateway/fleet/new_hops.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool is_last(const lh_chain *chain, uint32_t hop) {
    assert(hop <= chain->stage_count);
    return hop == chain->stage_count;
}

static bool is_same_end(const lh_chain_stage *a, const lh_chain_stage *b) {
    return a->instance == b->instance && lh_way_is_same(&a->way, &b->way);
}

bool lh_new_hops_has(const lh_new_hops *hops, uint32_t hop) {
    const lh_chain *next = hops->next, *present = hops->present;
    int near = hop > 0 ? lh_chain_find(present, next->stages[hop - 1].name) : -1;
    uint32_t far = (uint32_t)(near + 1);
    if ((hop > 0 && near < 0) || is_last(next, hop) != is_last(present, far))
        return true;
    return !is_last(next, hop) && !is_same_end(&next->stages[hop], &present->stages[far]);
}

/* What is reported of this very hop; NULL: nothing. */
static const lh_hop_trial_report *trial_of(const lh_new_hops *hops, uint32_t hop) {
    const lh_chain *next = hops->next;
    const lh_worker *near = hop > 0 ? lh_chain_worker(next, hops->registry, hop - 1) : NULL;
    const lh_hop_trial_report *trial = hop == 0 ? hops->first : near ? &near->report.trial : NULL;
    const char *name = is_last(next, hop) ? "" : next->stages[hop].name;
    const char *address = is_last(next, hop) ? "" : next->stages[hop].way.address;
    bool is_of_it = trial && trial->state != LH_HOP_TRIAL_NONE && strcmp(trial->next, name) == 0 &&
                    strcmp(trial->address, address) == 0;
    return is_of_it ? trial : NULL;
}

lh_hop_trial_state lh_new_hops_state(const lh_new_hops *hops, uint32_t hop) {
    const lh_hop_trial_report *trial = trial_of(hops, hop);
    return trial ? trial->state : LH_HOP_TRIAL_NONE;
}

int lh_new_hops_failed(const lh_new_hops *hops) {
    for (uint32_t hop = 0; hop <= hops->next->stage_count; hop++)
        if (lh_new_hops_has(hops, hop) && lh_new_hops_state(hops, hop) == LH_HOP_TRIAL_FAILED)
            return (int)hop;
    return -1;
}

int lh_new_hops_unproven(const lh_new_hops *hops) {
    for (uint32_t hop = 0; hop <= hops->next->stage_count; hop++)
        if (lh_new_hops_has(hops, hop) && lh_new_hops_state(hops, hop) != LH_HOP_TRIAL_PROVEN)
            return (int)hop;
    return -1;
}

uint32_t lh_new_hops_culprit(const lh_new_hops *hops, uint32_t hop) {
    const lh_chain *next = hops->next;
    bool far_is_worker = !is_last(next, hop), near_is_worker = hop > 0;
    bool near_is_new =
        near_is_worker && lh_chain_find(hops->present, next->stages[hop - 1].name) < 0;
    bool far_is_new = far_is_worker && lh_chain_find(hops->present, next->stages[hop].name) < 0;
    assert(near_is_worker || far_is_worker);
    return !far_is_worker || (near_is_new && !far_is_new) ? hop - 1 : hop;
}

/* Without the address, where that is what it begins with. */
static const char *cause_of(const lh_hop_trial_report *trial, const char *address) {
    size_t length = strlen(address);
    if (!trial || !trial->error[0])
        return "nobody has said so in time";
    bool is_prefix = length > 0 && strncmp(trial->error, address, length) == 0 &&
                     strncmp(trial->error + length, ": ", 2) == 0;
    return trial->error + (is_prefix ? length + 2 : 0);
}

void lh_new_hops_describe(const lh_new_hops *hops, uint32_t hop, char *text, size_t bytes) {
    const lh_chain *next = hops->next;
    const lh_hop_trial_report *trial = trial_of(hops, hop);
    const char *near = hop > 0 ? next->stages[hop - 1].name : "the gateway";
    if (is_last(next, hop))
        snprintf(text, bytes, "worker %s does not reach the gateway: %.200s", near,
                 cause_of(trial, ""));
    else
        snprintf(text, bytes, "%s%s does not reach worker %s at %.100s: %.200s",
                 hop > 0 ? "worker " : "", near, next->stages[hop].name,
                 next->stages[hop].way.address, cause_of(trial, next->stages[hop].way.address));
}
