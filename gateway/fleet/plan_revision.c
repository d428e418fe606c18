/* Spares for those that are gone, or all anew. */
#include "gateway/fleet/plan_revision.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* So many times as slow as the planner's own may the slowest stage be where only spares load. */
#define SLOWER_MAX 1.2

static bool is_used(const lh_plan *plan, uint32_t worker) {
    for (uint32_t i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].worker == worker)
            return true;
    return false;
}

/* How often the chain goes from one site to another: each time is a slow link. */
static uint32_t count_crossings(const lh_plan_worker *workers, const lh_plan *plan) {
    uint32_t crossings = 0;
    const char *site = NULL;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].worker == LH_PLAN_NOBODY)
            continue;
        const char *next = workers[plan->stages[i].worker].site;
        crossings += site && strcmp(site, next) != 0;
        site = next;
    }
    return crossings;
}

/* Of the spares the one with which the chain crosses sites least often, then the one that is fastest there. */
static bool fill(const lh_model_profile *model, const lh_plan_worker *workers, uint32_t count, lh_plan *plan,
                 uint32_t stage) {
    uint32_t best = LH_PLAN_NOBODY, best_crossings = 0;
    double best_time = INFINITY;
    for (uint32_t spare = 0; spare < count; spare++) {
        if (is_used(plan, spare))
            continue;
        const lh_plan alone = {1, {{spare, plan->stages[stage].first_layer, plan->stages[stage].last_layer}}};
        double time = lh_planner_slowest(model, workers, &alone);
        lh_plan tried = *plan;
        tried.stages[stage].worker = spare;
        uint32_t crossings = count_crossings(workers, &tried);
        if (isinf(time) || (best != LH_PLAN_NOBODY && (crossings > best_crossings ||
                                                       (crossings == best_crossings && time >= best_time))))
            continue;
        best = spare;
        best_crossings = crossings;
        best_time = time;
    }
    plan->stages[stage].worker = best;
    return best != LH_PLAN_NOBODY;
}

static bool fill_all(const lh_model_profile *model, const lh_plan_worker *workers, uint32_t count,
                     lh_plan *plan) {
    for (uint32_t i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].worker == LH_PLAN_NOBODY && !fill(model, workers, count, plan, i))
            return false;
    return true;
}

lh_status lh_plan_revise(const lh_model_profile *model, const lh_plan_worker *workers, uint32_t count,
                         const lh_planner_options *options, const lh_plan *present, lh_plan *plan,
                         lh_error *error) {
    lh_status status = lh_planner_split(model, workers, count, options, plan, error);
    if (status != LH_OK || !present || present->stage_count == 0)
        return status;
    lh_plan filled = *present;
    bool is_allowed = options->stages == 0 || filled.stage_count <= options->stages;
    if (is_allowed && fill_all(model, workers, count, &filled) &&
        lh_planner_slowest(model, workers, &filled) <=
            SLOWER_MAX * lh_planner_slowest(model, workers, plan) &&
        count_crossings(workers, &filled) <= count_crossings(workers, plan))
        *plan = filled;
    return LH_OK;
}
