/* Times of stages, and a list of members. */
#include "gateway/fleet/team_avoidance.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdio.h>

/* As long as a new hop has (link_avoidance.c): members report that they wait when each has its part
 * in memory, and then meet within a few round trips of their site, so this is many times what it
 * takes where a machine is busy. */
#define TEAM_PATIENCE_US 5000000

/* begun_us: of the chain or successor whose stage it is. */
static bool is_over(lh_team_wait *wait, int64_t begun_us, uint32_t stage, bool waits,
                    int64_t now_us) {
    assert(stage < LH_LAYOUT_STAGES_MAX);
    if (wait->begun_us != begun_us)
        *wait = (lh_team_wait){.begun_us = begun_us};
    int64_t *since_us = &wait->since_us[stage];
    if (!waits)
        *since_us = 0;
    else if (*since_us == 0)
        *since_us = now_us;
    const bool is_over = *since_us > 0 && now_us - *since_us >= TEAM_PATIENCE_US;
    if (is_over)
        *since_us = now_us;
    return is_over;
}

void lh_team_avoidance_mark(const lh_team_avoidance *avoidance, lh_registry *registry,
                            int64_t now_us) {
    for (uint32_t i = 0; i < lh_registry_count(registry); i++) {
        const char *name = lh_registry_at(registry, i)->report.name;
        const bool is_alone = lh_passed_list_find(&avoidance->passed, name, now_us);
        lh_registry_note_teaming(registry, name, is_alone,
                                 !is_alone && lh_passed_list_has(&avoidance->passed, name));
    }
}

/* ---- One team ---- */

static void pass_over(lh_team_avoidance *avoidance, const lh_chain_stage *stage, int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    snprintf(reason, sizeof reason, "those that compute with worker %s do not meet", stage->name);
    lh_passed_list_add(&avoidance->passed, stage->name, reason, now_us);
    for (uint32_t i = 0; i < stage->team.follower_count; i++)
        lh_passed_list_add(&avoidance->passed, stage->team.followers[i].name, reason, now_us);
}

static void forget(lh_team_avoidance *avoidance, const lh_chain_stage *stage) {
    lh_passed_list_forget(&avoidance->passed, stage->name);
    for (uint32_t i = 0; i < stage->team.follower_count; i++)
        lh_passed_list_forget(&avoidance->passed, stage->team.followers[i].name);
}

static void tell(const lh_team_avoidance *avoidance, const lh_chain_stage *stage, int64_t now_us) {
    const lh_passed_over *first = lh_passed_list_find(&avoidance->passed, stage->name, now_us);
    lh_log(LH_LOG_WARN, "fleet",
           "a team does not form: its members compute alone first=%s members=%u for_s=%lld",
           stage->name, stage->team.follower_count + 1,
           (long long)(first ? first->pause_us / 1000000 : 0));
}

/* ---- Those of a forming chain ---- */

bool lh_team_avoidance_has_overdue(lh_team_avoidance *avoidance, const lh_chain *chain,
                                   const lh_registry *registry, int64_t now_us) {
    bool has = false;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        has |= is_over(&avoidance->present, chain->formed_us, i,
                       lh_chain_awaits_team(chain, registry, i), now_us);
    return has;
}

void lh_team_avoidance_pass_over(lh_team_avoidance *avoidance, const lh_chain *chain,
                                 lh_registry *registry, int64_t now_us) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (lh_chain_awaits_team(chain, registry, i))
            pass_over(avoidance, &chain->stages[i], now_us);
    lh_team_avoidance_mark(avoidance, registry, now_us);
}

void lh_team_avoidance_tell(const lh_team_avoidance *avoidance, const lh_chain *chain,
                            const lh_registry *registry, int64_t now_us) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (lh_chain_awaits_team(chain, registry, i))
            tell(avoidance, &chain->stages[i], now_us);
}

void lh_team_avoidance_readmit(lh_team_avoidance *avoidance, const lh_chain *chain,
                               lh_registry *registry, int64_t now_us) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (lh_chain_awaits_team(chain, registry, i))
            forget(avoidance, &chain->stages[i]);
    lh_team_avoidance_mark(avoidance, registry, now_us);
}

/* ---- Those of a successor ---- */

bool lh_team_avoidance_pass_over_prepared(lh_team_avoidance *avoidance, const lh_handover *handover,
                                          const lh_handover_view *view, lh_registry *registry,
                                          int64_t now_us) {
    const lh_chain *next = lh_handover_successor(handover);
    bool is_any = false;
    for (uint32_t i = 0; next && i < next->stage_count; i++) {
        if (!is_over(&avoidance->prepared, handover->planned_us, i,
                     lh_handover_awaits_team(handover, view, i), now_us))
            continue;
        pass_over(avoidance, &next->stages[i], now_us);
        tell(avoidance, &next->stages[i], now_us);
        is_any = true;
    }
    if (is_any)
        lh_team_avoidance_mark(avoidance, registry, now_us);
    return is_any;
}

void lh_team_avoidance_note_formed(lh_team_avoidance *avoidance, const lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].team.follower_count > 0)
            forget(avoidance, &chain->stages[i]);
}
