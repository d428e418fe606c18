/* Plans are made one at a time, as lh_draft_make would make them of the candidates without the lost
 * worker. What workers have on their disks is what their reports say. */
#include "gateway/fleet/cover.h"

#include "common/base/arithmetic.h"
#include "gateway/fleet/candidates.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chain that has served for less may soon be another one: so many times as long as workers must
 * have been there before a chain changes for their sake. */
#define SETTLED_DELAYS   3
#define SETTLED_LEAST_US INT64_C(1000000)
/* Between looking at two plans: a fleet of many workers takes some milliseconds for one. */
#define REVIEW_US INT64_C(2000000)
/* Of a link whose rate is not known. */
#define UNKNOWN_BYTES_PER_US 10.0
/* Less would let a transfer stand still. */
#define BYTES_PER_S_MIN 65536.0

/* ---- Stand-in plans ---- */

static bool has_team(const lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].team.follower_count > 0)
            return true;
    return false;
}

static void take_parts(const lh_chain *draft, lh_cover_plan *plan) {
    plan->part_count = draft->stage_count;
    for (uint32_t i = 0; i < draft->stage_count; i++) {
        const lh_chain_stage *stage = &draft->stages[i];
        plan->parts[i].first_layer = stage->first_layer;
        plan->parts[i].last_layer = stage->last_layer;
        snprintf(plan->parts[i].worker, sizeof plan->parts[i].worker, "%s", stage->name);
    }
}

/* What would be planned now if the worker were gone. */
static void make_plan(const lh_fleet_options *options, const lh_draft_view *view,
                      const lh_chain *chain, const char *lost, int64_t now_us,
                      lh_cover_plan *plan) {
    lh_link_avoidance *without = malloc(sizeof *without);
    lh_chain draft = *chain;
    *plan = (lh_cover_plan){0};
    snprintf(plan->lost, sizeof plan->lost, "%s", lost);
    if (!without)
        return;
    *without = *view->avoidance;
    lh_passed_list_add(&without->passed, lost, "it would be lost", now_us);
    const lh_draft_view rest = {view->registry, without, view->planner};
    if (lh_draft_make(options, &rest, chain, 0, now_us, &draft, NULL) == LH_OK && !has_team(&draft))
        take_parts(&draft, plan);
    free(without);
}

/* Finds the plan's workers. False: one may not be planned now. */
static bool find_workers(const lh_cover_plan *plan, const lh_candidates *candidates,
                         const lh_worker **workers) {
    for (uint32_t i = 0; i < plan->part_count; i++) {
        workers[i] = lh_candidates_search(candidates, plan->parts[i].worker);
        if (!workers[i])
            return false;
    }
    return plan->part_count > 0;
}

/* Whether the plan's workers may all be planned. */
static bool is_possible(const lh_cover_plan *plan, const lh_draft_view *view, int64_t now_us) {
    lh_candidates candidates;
    const lh_worker *workers[LH_LAYOUT_STAGES_MAX];
    lh_candidates_find(view->registry, view->avoidance, now_us, &candidates);
    return find_workers(plan, &candidates, workers);
}

static int64_t settled_us(const lh_fleet_options *options) {
    return lh_max_i64(SETTLED_DELAYS * options->rebalance_delay_us, SETTLED_LEAST_US);
}

void lh_cover_review(lh_cover *cover, const lh_fleet_options *options, const lh_draft_view *view,
                     const lh_chain *chain, int64_t now_us) {
    if (chain->state == LH_CHAIN_NONE || chain->planned_epoch != cover->planned_epoch) {
        cover->planned_epoch = chain->state == LH_CHAIN_NONE ? 0 : chain->planned_epoch;
        cover->plan_count = cover->next = 0;
        cover->stage_count = chain->stage_count;
        cover->due_us = 0;
    }
    if (options->cover_share <= 0 || chain->state != LH_CHAIN_READY || has_team(chain) ||
        now_us < lh_max_i64(cover->due_us, chain->ready_us + settled_us(options)))
        return;
    assert(cover->next < chain->stage_count);
    lh_cover_plan *plan = &cover->plans[cover->next];
    if (cover->next >= cover->plan_count || !is_possible(plan, view, now_us))
        make_plan(options, view, chain, chain->stages[cover->next].name, now_us, plan);
    cover->plan_count = lh_max_u32(cover->plan_count, cover->next + 1);
    cover->next = (cover->next + 1) % chain->stage_count;
    cover->due_us = now_us + REVIEW_US;
}

const lh_cover_plan *lh_cover_find(const lh_cover *cover, const char *lost) {
    for (uint32_t i = 0; i < cover->plan_count; i++)
        if (strcmp(cover->plans[i].lost, lost) == 0)
            return &cover->plans[i];
    return NULL;
}

lh_status lh_cover_form(const lh_cover_plan *plan, const lh_fleet_options *options,
                        const lh_draft_view *view, uint32_t epoch, int64_t now_us, lh_chain *chain,
                        lh_error *error) {
    lh_candidates candidates;
    const lh_worker *workers[LH_LAYOUT_STAGES_MAX];
    lh_candidates_find(view->registry, view->avoidance, now_us, &candidates);
    if (!find_workers(plan, &candidates, workers))
        return lh_fail(error, LH_ERR_UNAVAILABLE, "a worker of the stand-in plan is not there");
    lh_layout stages = {.stage_count = plan->part_count};
    for (uint32_t i = 0; i < plan->part_count; i++)
        stages.stages[i] =
            (lh_layout_stage){i, {plan->parts[i].first_layer, plan->parts[i].last_layer}};
    return lh_chain_form(chain, &stages, workers, &options->origin, epoch, now_us, error);
}

/* ---- What lies on the disks ---- */

static bool has_on_disk(const lh_worker_report *report, const char *model_digest, uint32_t layer) {
    for (uint32_t i = 0; i < report->cached_count; i++) {
        const lh_cached_layers *model = &report->cached[i];
        for (uint32_t r = 0; r < model->run_count && strcmp(model->model, model_digest) == 0; r++)
            if (layer >= model->runs[r].first && layer < model->runs[r].last)
                return true;
    }
    return false;
}

static uint32_t count_missing(const lh_worker_report *report, const char *model_digest,
                              uint32_t first_layer, uint32_t last_layer) {
    uint32_t missing = 0;
    for (uint32_t layer = first_layer; layer < last_layer; layer++)
        missing += !has_on_disk(report, model_digest, layer);
    return missing;
}

static uint32_t missing_at(const lh_registry *registry, const char *name, const char *model_digest,
                           uint32_t first_layer, uint32_t last_layer) {
    const lh_worker *worker = lh_registry_find(registry, name);
    return worker ? count_missing(&worker->report, model_digest, first_layer, last_layer)
                  : last_layer - first_layer;
}

uint32_t lh_cover_part_missing(const lh_cover_part *part, const lh_registry *registry,
                               const char *model_digest) {
    return missing_at(registry, part->worker, model_digest, part->first_layer, part->last_layer);
}

uint32_t lh_cover_missing(const lh_cover_plan *plan, const lh_registry *registry,
                          const char *model_digest) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan->part_count; i++)
        most = lh_max_u32(most, lh_cover_part_missing(&plan->parts[i], registry, model_digest));
    return most;
}

uint32_t lh_cover_missing_of_chain(const lh_chain *chain, const lh_registry *registry,
                                   const char *model_digest) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        most = lh_max_u32(most, missing_at(registry, stage->name, model_digest, stage->first_layer,
                                           stage->last_layer));
    }
    return most;
}

/* ---- What a worker is to fetch ---- */

static void widen(lh_cover_part *task, uint32_t first_layer, uint32_t last_layer) {
    bool is_empty = task->last_layer == 0;
    task->first_layer = is_empty ? first_layer : lh_min_u32(task->first_layer, first_layer);
    task->last_layer = lh_max_u32(task->last_layer, last_layer);
}

bool lh_cover_task(const lh_cover *cover, const lh_fleet_options *options,
                   const lh_worker_report *report, lh_cover_part *task) {
    *task = (lh_cover_part){0};
    for (uint32_t i = 0; i < cover->plan_count; i++)
        for (uint32_t k = 0; k < cover->plans[i].part_count; k++) {
            const lh_cover_part *part = &cover->plans[i].parts[k];
            if (strcmp(part->worker, report->name) == 0)
                widen(task, part->first_layer, part->last_layer);
        }
    /* Each further plan may widen the run: nobody begins before all are made. */
    if (task->last_layer == 0 || cover->plan_count < cover->stage_count)
        return false;
    snprintf(task->worker, sizeof task->worker, "%s", report->name);
    return count_missing(report, options->model_digest, task->first_layer, task->last_layer) > 0;
}

uint64_t lh_cover_bytes_per_s(const lh_fleet_options *options, const lh_worker_report *report) {
    lh_link_value link = {0};
    bool is_known = options->links &&
                    lh_link_matrix_read(options->links, options->origin.site, report->site, &link);
    double bytes_per_us =
        is_known && link.bytes_per_us > 0 ? link.bytes_per_us : UNKNOWN_BYTES_PER_US;
    return (uint64_t)lh_max_f64(bytes_per_us * 1e6 * options->cover_share, BYTES_PER_S_MIN);
}
