/* When to look, and what to make of what was found. */
#include "gateway/fleet/live_planner.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Studies that agree before anything moves. */
#define AGREEMENTS_MIN 2u
/* A plan that nothing has made wrong is looked at again after so long. */
#define REVIEW_US 600000000
/* Requests whose lengths, or whose number, have become so many times others are worth a look. */
#define AIM_DRIFT 1.3

void lh_live_planner_reset(lh_live_planner *planner) {
    lh_plan_study_destroy(planner->latest);
    *planner = (lh_live_planner){.options = planner->options};
}

void lh_live_planner_note(lh_live_planner *planner, const lh_chain *chain, uint32_t stage,
                          const lh_registry *registry, int64_t now_us) {
    double times = lh_claims_times(planner->options->claims, chain->stages[stage].name);
    lh_stage_speeds_note(&planner->speeds, planner->options->model, chain, stage, registry, times,
                         now_us);
}

/* ---- A study ---- */

static bool wants_agreement(const lh_live_planner *planner) {
    return planner->latest && planner->latest->status == LH_OK &&
           planner->agreements < AGREEMENTS_MIN && !lh_plan_study_is_content(planner->latest);
}

/* For requests as they have been; before there were some, as the options say. Of how many run at
 * once, those are the least: a quiet hour is no reason to move to a chain that is overrun by the
 * next busy one. */
lh_aim lh_live_planner_aim(const lh_live_planner *planner) {
    const lh_request_mix *mix = &planner->mix;
    lh_aim aim = planner->options->aim;
    if (mix->count < LH_REQUEST_MIX_MIN)
        return aim;
    aim.prompt_rows = (uint32_t)fmax(mix->prompt_tokens, 1);
    aim.position = (uint32_t)(mix->prompt_tokens + mix->answer_tokens / 2);
    aim.sequences_max = lh_max_u32((uint32_t)ceil(mix->sequences), aim.sequences_max);
    return aim;
}

static bool differ(uint32_t a, uint32_t b) {
    return lh_max_u32(a, b) > AIM_DRIFT * lh_min_u32(a, b);
}

/* Whether requests have become others. */
static bool has_other_aim(const lh_aim *aim, const lh_aim *before) {
    return differ(aim->prompt_rows, before->prompt_rows) ||
           differ(aim->position, before->position) ||
           differ(aim->sequences_max, before->sequences_max);
}

/* Whether something is new for this study since the latest one. */
static bool is_needed(const lh_live_planner *planner, const lh_plan_study *study,
                      const lh_chain *chain) {
    const lh_plan_study *latest = planner->latest;
    return !latest || wants_agreement(planner) || !lh_plan_study_knows(latest, chain) ||
           study->begun_us - latest->begun_us >= REVIEW_US ||
           has_other_aim(&study->aim, &latest->aim) ||
           lh_live_map_has_drifted(&study->live, &latest->live);
}

static bool is_time(const lh_live_planner *planner, const lh_chain *chain, int64_t now_us) {
    const lh_fleet_options *options = planner->options;
    return options->aim.goal != LH_GOAL_EVEN && options->rebalance_delay_us > 0 &&
           !planner->is_searching && chain->state == LH_CHAIN_READY &&
           now_us >= chain->ready_us + options->rebalance_delay_us &&
           now_us >= planner->begun_us + options->rebalance_delay_us;
}

lh_plan_study *lh_live_planner_begin(lh_live_planner *planner, const lh_chain *chain,
                                     const lh_registry *registry,
                                     const lh_link_avoidance *avoidance, int64_t now_us) {
    lh_plan_study *study;
    lh_error error;
    if (!is_time(planner, chain, now_us))
        return NULL;
    planner->begun_us = now_us;
    lh_candidates candidates;
    lh_candidates_find(registry, avoidance, now_us, &candidates);
    const lh_aim aim = lh_live_planner_aim(planner);
    lh_status status = lh_plan_study_create(planner->options, &candidates, &planner->speeds, chain,
                                            &aim, now_us, &study, &error);
    if (status == LH_ERR_LIMIT && !planner->has_told) {
        planner->has_told = true;
        lh_log(LH_LOG_WARN, "fleet", "no better chain is looked for reason=\"%s\"", error.message);
    }
    if (status != LH_OK)
        return NULL;
    if (!is_needed(planner, study, chain)) {
        lh_plan_study_destroy(study);
        return NULL;
    }
    if (!planner->latest || lh_live_map_has_drifted(&study->live, &planner->latest->live))
        planner->unchanged_us = now_us;
    planner->is_searching = true;
    return study;
}

static void log_found(const lh_plan_study *study, int64_t now_us) {
    char text[LH_ERROR_MESSAGE_BYTES];
    size_t used = 0;
    for (uint32_t i = 0; i < study->plan.layout.stage_count && used < sizeof text; i++) {
        const lh_layout_stage *stage = &study->plan.layout.stages[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%u-%u", i ? " " : "",
                                 study->map->map.machines[stage->machine].name, stage->layers.first,
                                 stage->layers.last - 1);
    }
    lh_log(LH_LOG_INFO, "fleet",
           "a better chain is known objective=%s now_ms=%.3f then_ms=%.3f loading_s=%.1f "
           "plan=\"%s\" search_ms=%lld",
           lh_goal_name(study->aim.goal), study->present_value / 1e3, study->plan.value / 1e3,
           study->loading_us / 1e6, text, (long long)((now_us - study->begun_us) / 1000));
}

void lh_live_planner_end(lh_live_planner *planner, lh_plan_study *study, int64_t now_us) {
    bool agrees = planner->latest && lh_plan_study_agrees(study, planner->latest);
    planner->is_searching = false;
    planner->agreements = agrees ? planner->agreements + 1 : 1;
    lh_plan_study_destroy(planner->latest);
    planner->latest = study;
    if (study->status != LH_OK)
        lh_log(LH_LOG_DEBUG, "fleet", "no better chain was looked for reason=\"%s\"",
               study->error.message);
    else if (!agrees && !lh_plan_study_is_content(study))
        log_found(study, now_us);
}

/* ---- What to make of it ---- */

bool lh_live_planner_proposes(const lh_live_planner *planner, const lh_chain *chain,
                              lh_candidates *workers, int64_t now_us, lh_layout *plan) {
    const lh_plan_study *study = planner->latest;
    if (!study || study->status != LH_OK || planner->agreements < AGREEMENTS_MIN ||
        lh_plan_study_is_content(study) || !lh_plan_study_knows(study, chain))
        return false;
    const lh_move move = {.value_now = study->present_value,
                          .value_next = study->plan.value,
                          .loading_us = study->loading_us,
                          .replay_us = (double)planner->positions * study->prompt_row_us,
                          .unchanged_us = now_us - planner->unchanged_us};
    return lh_move_is_worthwhile(&move) && lh_plan_study_plan(study, workers, plan);
}

static void explain_value(const lh_plan_study *study, const lh_idle_reason *idle, char *reason) {
    static const char *const of[] = {[LH_GOAL_TTFT] = "the first token of a prompt",
                                     [LH_GOAL_TPOT] = "a token",
                                     [LH_GOAL_THROUGHPUT] = "each token of all sequences"};
    snprintf(reason, LH_ERROR_MESSAGE_BYTES,
             "%s would take %.3g ms with it, and takes %.3g without", of[study->aim.goal],
             idle->value / 1e3, study->plan.value / 1e3);
}

bool lh_live_planner_explain(const lh_live_planner *planner, const char *worker, char *reason) {
    const lh_plan_study *study = planner->latest;
    if (!study || study->status != LH_OK)
        return false;
    uint32_t machine = lh_plan_study_machine(study, worker);
    if (machine == UINT32_MAX || study->idle[machine].cause == LH_IDLE_NOT)
        return false;
    switch (study->idle[machine].cause) {
    case LH_IDLE_NO_GAIN:
        explain_value(study, &study->idle[machine], reason);
        break;
    case LH_IDLE_MEMORY:
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "its memory has no room for a layer, which takes %llu MiB",
                 (unsigned long long)(study->idle[machine].needed_bytes >> 20));
        break;
    case LH_IDLE_KV:
        snprintf(reason, LH_ERROR_MESSAGE_BYTES,
                 "its --kv-bytes have no room for the keys and values of %llu tokens in a layer, "
                 "which take %llu KiB",
                 (unsigned long long)study->plan.kv.pages * LH_KV_NEED_PAGE,
                 (unsigned long long)(study->idle[machine].needed_bytes >> 10));
        break;
    case LH_IDLE_NO_WAY:
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "no link to or from its site has been measured");
        break;
    default:
        snprintf(reason, LH_ERROR_MESSAGE_BYTES, "no place in the chain has room for it");
        break;
    }
    return true;
}
