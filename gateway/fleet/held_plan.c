/* Walks over the layers. */
#include "gateway/fleet/held_plan.h"

#include <string.h>

static bool has_loaded(const lh_worker *worker, uint32_t layers, const char *model_digest) {
    return worker->report.loaded.present &&
           worker->report.loaded.first_layer < worker->report.loaded.last_layer &&
           worker->report.loaded.last_layer <= layers &&
           strcmp(worker->report.loaded.model, model_digest) == 0;
}

/* Whose stage begins at the first layer that is at least `layer`; NOBODY: no one's. */
static uint32_t find_next(const lh_worker *const *workers, uint32_t count, uint32_t layers,
                          const char *model_digest, uint32_t layer) {
    uint32_t best = LH_LAYOUT_NOBODY;
    for (uint32_t i = 0; i < count; i++) {
        const lh_worker_report *report = &workers[i]->report;
        if (!has_loaded(workers[i], layers, model_digest) || report->loaded.first_layer < layer)
            continue;
        const lh_worker_report *other = best != LH_LAYOUT_NOBODY ? &workers[best]->report : NULL;
        if (!other || report->loaded.first_layer < other->loaded.first_layer ||
            (report->loaded.first_layer == other->loaded.first_layer &&
             report->assignment.generation > other->assignment.generation))
            best = i;
    }
    return best;
}

bool lh_held_plan(const lh_worker *const *workers, uint32_t count, uint32_t layers,
                  const char *model_digest, lh_layout *plan) {
    bool is_whole = true;
    plan->stage_count = 0;
    for (uint32_t layer = 0; layer < layers;) {
        uint32_t next = find_next(workers, count, layers, model_digest, layer);
        uint32_t first =
            next == LH_LAYOUT_NOBODY ? layers : workers[next]->report.loaded.first_layer;
        bool is_held = first == layer;
        uint32_t last = is_held ? workers[next]->report.loaded.last_layer : first;
        if (plan->stage_count == LH_LAYOUT_STAGES_MAX || (!is_held && last - layer == layers)) {
            plan->stage_count = 0;
            return false;
        }
        plan->stages[plan->stage_count++] =
            (lh_layout_stage){is_held ? next : LH_LAYOUT_NOBODY, {layer, last}};
        is_whole &= is_held;
        layer = last;
    }
    return is_whole;
}
