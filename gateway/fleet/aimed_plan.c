/* Three layouts at most. */
#include "gateway/fleet/aimed_plan.h"

#include "gateway/plan/layout_resplit.h"
#include "gateway/plan/layout_search.h"

#include <math.h>
#include <stdlib.h>

/* A study, and the handover after it, take about as long. */
#define UNTIL_IMPROVED_US 60e6
/* Of a longer chain the order is not tried: the search alone takes as long as there is time for. */
#define ORDER_MAX 16u

#define LAYOUTS_MAX 3u

typedef struct drafting {
    lh_live_map live; /* its machines are the candidates */
    lh_aim aim;
    lh_cost_chain costs;
    lh_kv_need kv; /* for which stages are to have room */
    uint32_t count;
    lh_layout layouts[LAYOUTS_MAX];
    double values[LAYOUTS_MAX];
} drafting;

static void add(drafting *d, const lh_layout *layout, double value) {
    d->layouts[d->count] = *layout;
    d->values[d->count++] = value;
}

/* ---- What is left ---- */

static lh_layout without_gaps(const lh_layout *layout) {
    lh_layout dense = {0};
    for (uint32_t s = 0; s < layout->stage_count; s++)
        if (layout->stages[s].machine != LH_LAYOUT_NOBODY)
            dense.stages[dense.stage_count++] = layout->stages[s];
    return dense;
}

static double value_of(drafting *d, const lh_layout *layout) {
    lh_layout_costs(layout, &d->live.map, d->aim.wire, &d->costs);
    return lh_aim_judge(&d->aim, &d->costs, NULL);
}

static bool has_machine(const lh_layout *layout, uint32_t machine) {
    for (uint32_t s = 0; s < layout->stage_count; s++)
        if (layout->stages[s].machine == machine)
            return true;
    return false;
}

/* The machine with which all that have a stage make the best chain. */
static uint32_t find_spare(drafting *d, const lh_layout *layout, uint32_t stage) {
    const lh_fleet_map *map = &d->live.map;
    uint32_t best = LH_LAYOUT_NOBODY;
    double least = INFINITY;
    for (uint32_t m = 0; m < map->machine_count; m++) {
        lh_layout tried = *layout;
        if (has_machine(layout, m) || !lh_layout_stage_fits(&map->model, &map->machines[m],
                                                            layout->stages[stage].layers, &d->kv))
            continue;
        tried.stages[stage].machine = m;
        tried = without_gaps(&tried);
        double value = value_of(d, &tried);
        if (best != LH_LAYOUT_NOBODY && value >= least)
            continue;
        best = m;
        least = value;
    }
    return best;
}

static void add_filled(drafting *d, const lh_layout *present) {
    lh_layout filled = *present;
    for (uint32_t s = 0; s < filled.stage_count; s++)
        if (filled.stages[s].machine == LH_LAYOUT_NOBODY)
            filled.stages[s].machine = find_spare(d, &filled, s);
    if (!has_machine(&filled, LH_LAYOUT_NOBODY) && lh_layout_is_sound(&filled, &d->live.map))
        add(d, &filled, value_of(d, &filled));
}

static void add_in_order(drafting *d, const lh_layout *present) {
    const lh_layout order = without_gaps(present);
    lh_layout_plan plan;
    if (order.stage_count > 0 && order.stage_count <= ORDER_MAX &&
        lh_layout_resplit_quickly(&d->live.map, &d->aim, &order, &plan, NULL) == LH_OK &&
        plan.kv.pages >= d->kv.pages)
        add(d, &plan.layout, plan.value);
}

/* ---- What there could be ---- */

static lh_status add_found(drafting *d, lh_error *error) {
    lh_layout_plan plan;
    lh_status status = lh_layout_search_quickly(&d->live.map, &d->aim, &plan, error);
    if (status == LH_ERR_LIMIT && d->aim.token_us_max > 0) {
        d->aim.token_us_max = 0;
        status = lh_layout_search_quickly(&d->live.map, &d->aim, &plan, error);
    }
    if (status == LH_OK) {
        d->kv = plan.kv;
        add(d, &plan.layout, plan.value);
    }
    return status;
}

static uint32_t choose(const drafting *d) {
    double least = INFINITY, least_us = INFINITY;
    uint32_t best = 0;
    for (uint32_t i = 0; i < d->count; i++)
        least = fmin(least, d->values[i]);
    for (uint32_t i = 0; i < d->count; i++) {
        double us = lh_layout_loading_us(&d->live.map, &d->layouts[i]) +
                    UNTIL_IMPROVED_US * d->values[i] / least;
        if (us >= least_us)
            continue;
        least_us = us;
        best = i;
    }
    return best;
}

static lh_status find(drafting *d, const lh_layout *present, lh_layout *plan, lh_error *error) {
    bool is_whole = present->stage_count > 0 && !has_machine(present, LH_LAYOUT_NOBODY) &&
                    lh_layout_is_sound(present, &d->live.map);
    lh_status status = LH_OK;
    if (is_whole) {
        add(d, present, 1);
    } else {
        status = add_found(d, error);
        add_filled(d, present);
        add_in_order(d, present);
    }
    if (d->count == 0)
        return status;
    *plan = d->layouts[choose(d)];
    return LH_OK;
}

lh_status lh_aimed_plan_make(const lh_fleet_options *options, const lh_candidates *candidates,
                             const lh_stage_speeds *speeds, const lh_aim *aim,
                             const lh_layout *present, lh_layout *plan, lh_error *error) {
    drafting *d = calloc(1, sizeof *d);
    if (!d)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    d->aim = *aim;
    d->kv = (lh_kv_need){.position_bytes = options->model->kv.position_bytes};
    lh_status status = lh_live_map_assume(options, candidates, speeds, &d->live, error);
    if (status == LH_OK)
        status = find(d, present, plan, error);
    free(d);
    return status;
}
