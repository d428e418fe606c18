/* Every place in the ring, with one layer of the stage before it or behind it. */
#include "gateway/plan/idle_reason.h"

#include <math.h>
#include <string.h>

/* The plan in the parts' indices. */
static lh_layout in_parts(const lh_parts *parts, const lh_layout *layout) {
    lh_layout own = *layout;
    for (uint32_t s = 0; s < own.stage_count; s++)
        for (uint32_t m = 0; m < parts->machine_count; m++)
            if (parts->machines[m].index == layout->stages[s].machine)
                own.stages[s].machine = m;
    return own;
}

static bool is_possible(const lh_parts *parts, const lh_layout *layout) {
    for (uint32_t s = 0; s < layout->stage_count; s++)
        if (!lh_parts_may_hold(parts, &parts->machines[layout->stages[s].machine],
                               layout->stages[s].layers))
            return false;
    return true;
}

typedef struct visit {
    const lh_parts *parts;
    const lh_aim *aim;
    const lh_aim_size *size;
    const lh_layout *layout; /* in the parts' indices */
    uint32_t machine;
    lh_idle_reason *reason;
} visit;

/* At `place`, with a layer of the stage before it, or of the one that has been there. */
static void try_place(const visit *v, uint32_t place, bool is_of_before) {
    lh_part_ring ring = {.layout = *v->layout};
    lh_layout_stage *stages = ring.layout.stages;
    lh_layout_stage *giver = &stages[is_of_before ? place - 1 : place];
    lh_map_layers *given = &giver->layers, taken;
    if (given->last - given->first < 2 || ring.layout.stage_count == LH_LAYOUT_STAGES_MAX)
        return;
    if (is_of_before)
        taken = (lh_map_layers){given->last - 1, given->last};
    else
        taken = (lh_map_layers){given->first, given->first + 1};
    given->last -= is_of_before;
    given->first += !is_of_before;
    memmove(&stages[place + 1], &stages[place], (ring.layout.stage_count - place) * sizeof *stages);
    stages[place] = (lh_layout_stage){v->machine, taken};
    ring.layout.stage_count++;
    if (!is_possible(v->parts, &ring.layout))
        return;
    lh_parts_measure(v->parts, &ring);
    if (isinf(ring.ring_us)) {
        v->reason->cause = v->reason->cause == LH_IDLE_NO_ROOM ? LH_IDLE_NO_WAY : v->reason->cause;
        return;
    }
    double value = lh_aim_value(v->aim, v->size, ring.ring_us, ring.busiest_us);
    if (isfinite(value) && (v->reason->cause != LH_IDLE_NO_GAIN || value < v->reason->value)) {
        v->reason->cause = LH_IDLE_NO_GAIN;
        v->reason->value = value;
    }
}

static void look_at(const visit *v) {
    if (v->parts->machines[v->machine].layers_max == 0) {
        v->reason->cause = LH_IDLE_KV;
        v->reason->needed_bytes = lh_kv_need_layer_bytes(&v->parts->kv);
        return;
    }
    v->reason->cause = LH_IDLE_NO_ROOM;
    for (uint32_t place = 0; place <= v->layout->stage_count; place++) {
        if (place > 0)
            try_place(v, place, true);
        if (place < v->layout->stage_count)
            try_place(v, place, false);
    }
}

lh_status lh_idle_reasons_find(const lh_fleet_map *map, const lh_aim *aim,
                               const lh_layout_plan *plan, lh_idle_reason *reasons,
                               lh_error *error) {
    lh_parts *parts;
    lh_status status = lh_parts_create(map, &parts, error);
    if (status != LH_OK)
        return status;
    lh_parts_want(parts, &plan->kv);
    lh_parts_price(parts, aim, &plan->size);
    const lh_layout layout = in_parts(parts, &plan->layout);
    uint64_t least = lh_parts_least_layer(&map->model);
    for (uint32_t m = 0; m < map->machine_count; m++) {
        reasons[m] = (lh_idle_reason){.cause = map->machines[m].is_excluded ? LH_IDLE_EXCLUDED
                                                                            : LH_IDLE_MEMORY,
                                      .needed_bytes = least};
    }
    for (uint32_t m = 0; m < parts->machine_count; m++)
        look_at(&(visit){parts, aim, &plan->size, &layout, m, &reasons[parts->machines[m].index]});
    for (uint32_t s = 0; s < plan->layout.stage_count; s++)
        reasons[plan->layout.stages[s].machine].cause = LH_IDLE_NOT;
    lh_parts_destroy(parts);
    return LH_OK;
}
