/* Candidates, a plan, a chain. */
#include "gateway/fleet/chain_draft.h"

#include "gateway/fleet/held_plan.h"

lh_candidates lh_draft_candidates(const lh_registry *registry, const lh_link_avoidance *avoidance,
                                  int64_t now_us) {
    lh_candidates candidates = {0};
    for (uint32_t i = 0; i < lh_registry_count(registry); i++) {
        const lh_worker *worker = lh_registry_at(registry, i);
        if (lh_worker_is_usable(worker, now_us) &&
            !lh_link_avoidance_find(avoidance, worker->report.name, now_us))
            candidates.workers[candidates.count++] = worker;
    }
    return candidates;
}

/* As the planner wants them: offers[LH_WORKERS_MAX], with comparable speeds. */
static void make_offers(const lh_candidates *candidates, lh_plan_worker *offers) {
    for (uint32_t i = 0; i < candidates->count; i++) {
        const lh_worker_report *report = &candidates->workers[i]->report;
        offers[i] = (lh_plan_worker){report->name, report->site, report->threads,
                                     report->memory_bytes, report->speed};
    }
    lh_planner_compare_speeds(offers, candidates->count);
}

lh_status lh_draft_make(const lh_fleet_options *options, const lh_registry *registry,
                        const lh_link_avoidance *avoidance, const lh_chain *present, uint32_t epoch,
                        int64_t now_us, lh_chain *chain, lh_error *error) {
    const lh_candidates candidates = lh_draft_candidates(registry, avoidance, now_us);
    lh_plan_worker offers[LH_WORKERS_MAX];
    lh_plan plan;
    if (candidates.count == 0 && lh_registry_count(registry) > 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "every worker is leaving or has failed to load its stage");
    make_offers(&candidates, offers);
    lh_plan before = lh_chain_plan(present, candidates.workers, candidates.count);
    if (before.stage_count == 0)
        lh_held_plan(candidates.workers, candidates.count, options->model->layers,
                     options->model_digest, &before);
    lh_status status = lh_planner_revise(options->model, offers, candidates.count,
                                         &options->planner, &before, &plan, error);
    if (status == LH_OK)
        status =
            lh_chain_form(chain, &plan, candidates.workers, &options->origin, epoch, now_us, error);
    return status;
}

double lh_draft_gain(const lh_fleet_options *options, const lh_chain *present,
                     const lh_candidates *candidates, lh_plan *plan) {
    lh_plan_worker offers[LH_WORKERS_MAX];
    lh_error error;
    make_offers(candidates, offers);
    const lh_plan before = lh_chain_plan(present, candidates->workers, candidates->count);
    for (uint32_t i = 0; i < before.stage_count; i++)
        if (before.stages[i].worker == LH_PLAN_NOBODY)
            return 0;
    if (lh_planner_split(options->model, offers, candidates->count, &options->planner, plan,
                         &error) != LH_OK)
        return 0;
    return lh_planner_slowest(options->model, offers, &before) /
           lh_planner_slowest(options->model, offers, plan);
}
