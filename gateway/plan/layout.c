/* Stages and hops, one by one. */
#include "gateway/plan/layout.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/hop_bytes.h"

#define MIB 1048576.0

static double row_mib(const lh_map_model *model, lh_map_layers layers) {
    double bytes = 0;
    for (uint32_t i = layers.first; i < layers.last; i++)
        bytes += (double)model->row_bytes[i];
    return bytes / MIB;
}

/* The head is one more matrix, for the rows that draw a token. */
static lh_compute_profile stage_profile(const lh_fleet_map *map, const lh_layout_stage *stage) {
    const lh_map_machine *machine = &map->machines[stage->machine];
    double mib = row_mib(&map->model, stage->layers),
           head_mib = (double)map->model.head_bytes / MIB;
    lh_compute_profile unit = {.point_count = machine->point_count}, profile = unit;
    for (uint32_t i = 0; i < machine->point_count; i++) {
        unit.points[i] = machine->points[i];
        profile.points[i] =
            (lh_compute_point){machine->points[i].rows, machine->points[i].us * mib};
    }
    profile.us_per_row_position =
        machine->attention_us * (stage->layers.last - stage->layers.first);
    profile.step_us = machine->step_us;
    if (stage->layers.last == map->model.layers) {
        double one_us = lh_cost_stage_us(&unit, 0, 1), two_us = lh_cost_stage_us(&unit, 0, 2);
        profile.draw_us = one_us * head_mib;
        profile.draw_more_us = lh_max_f64(two_us - one_us, 0) * head_mib;
    }
    return profile;
}

static void set_hop(lh_cost_hop *hop, const lh_fleet_map *map, uint32_t from, uint32_t to,
                    lh_hop_place place, lh_wire_type wire) {
    const lh_map_link *link = &map->links[from][to];
    *hop = (lh_cost_hop){.bytes_per_us = link->bytes_per_us, .delay_us = link->delay_us};
    lh_cost_hop_set_bytes(hop, place, wire, map->model.width);
}

void lh_layout_costs(const lh_layout *layout, const lh_fleet_map *map, lh_wire_type wire,
                     lh_cost_chain *costs) {
    uint32_t from = map->gateway_site;
    *costs = (lh_cost_chain){.stage_count = layout->stage_count, .width = map->model.width};
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        uint32_t to = map->machines[layout->stages[s].machine].site;
        costs->stages[s] = stage_profile(map, &layout->stages[s]);
        set_hop(&costs->hops[s], map, from, to, s == 0 ? LH_HOP_FIRST : LH_HOP_INNER, wire);
        from = to;
    }
    set_hop(&costs->hops[layout->stage_count], map, from, map->gateway_site, LH_HOP_LAST, wire);
}

uint64_t lh_layout_stage_bytes(const lh_map_model *model, lh_map_layers layers) {
    uint64_t bytes = 0;
    for (uint32_t i = layers.first; i < layers.last; i++)
        bytes += model->layer_bytes[i];
    return bytes + (layers.first == 0 ? model->embedding_bytes : 0) +
           (layers.last == model->layers ? model->head_bytes : 0);
}

uint64_t lh_layout_moved_bytes(const lh_fleet_map *map, const lh_layout_stage *stage) {
    const lh_map_layers *held = &map->machines[stage->machine].held;
    lh_map_layers here = {lh_max_u32(stage->layers.first, held->first),
                          lh_min_u32(stage->layers.last, held->last)};
    return lh_layout_stage_bytes(&map->model, stage->layers) -
           (here.first < here.last ? lh_layout_stage_bytes(&map->model, here) : 0);
}

static bool keeps_pins(const lh_layout_stage *stage, const lh_fleet_map *map) {
    for (uint32_t m = 0; m < map->machine_count; m++) {
        const lh_map_layers *pinned = &map->machines[m].pinned;
        bool is_same = pinned->first == stage->layers.first && pinned->last == stage->layers.last;
        if (pinned->first < pinned->last &&
            (m == stage->machine
                 ? !is_same
                 : pinned->first < stage->layers.last && stage->layers.first < pinned->last))
            return false;
    }
    return true;
}

bool lh_layout_is_sound(const lh_layout *layout, const lh_fleet_map *map) {
    uint32_t next = 0, from = map->gateway_site;
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        const lh_layout_stage *stage = &layout->stages[s];
        const lh_map_machine *machine = &map->machines[stage->machine];
        for (uint32_t before = 0; before < s; before++)
            if (layout->stages[before].machine == stage->machine)
                return false;
        if (stage->layers.first != next || stage->layers.last <= next || machine->is_excluded ||
            lh_layout_stage_bytes(&map->model, stage->layers) > machine->memory_bytes ||
            map->links[from][machine->site].bytes_per_us == 0 || !keeps_pins(stage, map))
            return false;
        next = stage->layers.last;
        from = machine->site;
    }
    return next == map->model.layers && map->links[from][map->gateway_site].bytes_per_us > 0;
}
