/* One order, all sizes of steps. */
#include "gateway/plan/layout_resplit.h"

#include "gateway/plan/order_split.h"

#include <assert.h>
#include <math.h>

/* Limits that are tried for one size. */
#define TRIES       32u
#define QUICK_TRIES 4u

/* The order in the parts' indices, without those that hold nothing. */
static void set_order(lh_order_split *split, const lh_layout *order) {
    split->count = 0;
    for (uint32_t s = 0; s < order->stage_count; s++)
        for (uint32_t m = 0; m < split->parts->machine_count; m++)
            if (split->parts->machines[m].index == order->stages[s].machine)
                split->order[split->count++] = m;
}

static void search(lh_parts *parts, const lh_aim *aim, uint32_t tries, lh_order_split *split,
                   lh_found *best) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    uint32_t count = lh_aim_sizes(aim, sizes);
    for (uint32_t i = 0; i < count; i++) {
        const lh_limit_search by_limit = {.find = lh_order_split_find,
                                          .context = split,
                                          .aim = aim,
                                          .size = &sizes[i],
                                          .tries_max = tries};
        lh_parts_price(parts, aim, &sizes[i]);
        lh_limit_search_run(&by_limit, best);
    }
}

/* With less room for keys and values, until there is a layout. */
static void search_all(lh_parts *parts, const lh_aim *aim, uint32_t tries, lh_order_split *split,
                       lh_found *best) {
    lh_kv_need need = parts->kv;
    search(parts, aim, tries, split, best);
    while (isinf(best->value) && lh_kv_need_lower(&need)) {
        lh_parts_want(parts, &need);
        search(parts, aim, tries, split, best);
    }
}

static lh_status resplit(const lh_fleet_map *map, const lh_aim *aim, const lh_layout *order,
                         uint32_t tries, lh_layout_plan *plan, lh_error *error) {
    lh_parts *parts = NULL;
    lh_order_split split = {0};
    lh_found best = {.value = INFINITY};
    assert(aim->goal != LH_GOAL_EVEN && order->stage_count <= LH_LAYOUT_STAGES_MAX);
    lh_status status = lh_fleet_map_check(map, error);
    if (status == LH_OK)
        status = lh_parts_create(map, &parts, error);
    if (status == LH_OK)
        status = lh_order_split_init(&split, parts, NULL, order->stage_count, error);
    if (status == LH_OK) {
        set_order(&split, order);
        search_all(parts, aim, tries, &split, &best);
        if (isinf(best.value))
            status = lh_fail(error, LH_ERR_LIMIT, "no layout in this order holds the model");
    }
    if (status == LH_OK) {
        *plan = (lh_layout_plan){.layout = best.ring.layout,
                                 .size = best.size,
                                 .value = best.value,
                                 .ring_us = best.ring.ring_us,
                                 .busiest_us = best.ring.busiest_us,
                                 .kv = parts->kv};
        lh_parts_resolve(parts, &plan->layout);
    }
    lh_order_split_reset(&split);
    lh_parts_destroy(parts);
    return status;
}

lh_status lh_layout_resplit(const lh_fleet_map *map, const lh_aim *aim, const lh_layout *order,
                            lh_layout_plan *plan, lh_error *error) {
    return resplit(map, aim, order, TRIES, plan, error);
}

lh_status lh_layout_resplit_quickly(const lh_fleet_map *map, const lh_aim *aim,
                                    const lh_layout *order, lh_layout_plan *plan, lh_error *error) {
    return resplit(map, aim, order, QUICK_TRIES, plan, error);
}
