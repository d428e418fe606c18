/* Stages and hops, one by one. */
#include "gateway/plan/layout.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/hop_bytes.h"

#include <assert.h>
#include <string.h>

#define MIB 1048576.0

/* Reading, checking and packing weights: an estimate for a few cores, of which one that was shared
 * with four others did 80. */
#define LOADED_BYTES_PER_US 400.0

static double row_mib(const lh_model_profile *model, lh_map_layers layers) {
    double bytes = 0;
    assert(layers.first < layers.last && layers.last <= model->layers);
    for (uint32_t i = layers.first; i < layers.last; i++)
        bytes += (double)model->row_bytes[i];
    return bytes / MIB;
}

lh_head_costs lh_layout_head_costs(const lh_model_profile *model, const lh_map_machine *machine) {
    lh_compute_profile unit = {.point_count = machine->point_count};
    double head_mib = (double)model->head_bytes / MIB;
    if (machine->draw_us > 0)
        return (lh_head_costs){machine->draw_us, machine->draw_more_us};
    memcpy(unit.points, machine->points, sizeof unit.points);
    double one_us = lh_cost_stage_us(&unit, 0, 1), two_us = lh_cost_stage_us(&unit, 0, 2);
    return (lh_head_costs){one_us * head_mib, lh_max_f64(two_us - one_us, 0) * head_mib};
}

static lh_compute_profile stage_profile(const lh_fleet_map *map, const lh_layout_stage *stage) {
    const lh_map_machine *machine = &map->machines[stage->machine];
    double mib = row_mib(&map->model, stage->layers);
    lh_compute_profile profile = {.point_count = machine->point_count};
    for (uint32_t i = 0; i < machine->point_count; i++)
        profile.points[i] =
            (lh_compute_point){machine->points[i].rows, machine->points[i].us * mib};
    profile.us_per_row_position =
        machine->attention_us * (stage->layers.last - stage->layers.first);
    profile.step_us = machine->step_us;
    if (stage->layers.last == map->model.layers) {
        lh_head_costs head = lh_layout_head_costs(&map->model, machine);
        profile.draw_us = head.draw_us;
        profile.draw_more_us = head.draw_more_us;
    }
    return profile;
}

static void set_hop(lh_cost_hop *hop, const lh_fleet_map *map, uint32_t from, uint32_t to,
                    lh_hop_place place, lh_wire_type wire) {
    const lh_map_link *link = &map->links[from][to];
    assert(from < map->site_count && to < map->site_count);
    *hop = (lh_cost_hop){.bytes_per_us = link->bytes_per_us, .delay_us = link->delay_us};
    lh_cost_hop_set_bytes(hop, place, wire, map->model.width);
}

void lh_layout_costs(const lh_layout *layout, const lh_fleet_map *map, lh_wire_type wire,
                     lh_cost_chain *costs) {
    uint32_t from = map->gateway_site;
    assert(layout->stage_count <= LH_LAYOUT_STAGES_MAX);
    *costs = (lh_cost_chain){.stage_count = layout->stage_count, .width = map->model.width};
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        assert(layout->stages[s].machine < map->machine_count);
        uint32_t to = map->machines[layout->stages[s].machine].site;
        costs->stages[s] = stage_profile(map, &layout->stages[s]);
        set_hop(&costs->hops[s], map, from, to, s == 0 ? LH_HOP_FIRST : LH_HOP_INNER, wire);
        from = to;
    }
    set_hop(&costs->hops[layout->stage_count], map, from, map->gateway_site, LH_HOP_LAST, wire);
}

uint64_t lh_layout_stage_bytes(const lh_model_profile *model, lh_map_layers layers) {
    uint64_t bytes = 0;
    assert(layers.first <= layers.last && layers.last <= model->layers);
    for (uint32_t i = layers.first; i < layers.last; i++)
        bytes += model->layer_bytes[i];
    return bytes + (layers.first == 0 ? model->embedding_bytes : 0) +
           (layers.last == model->layers ? model->head_bytes : 0);
}

bool lh_layout_has_room(const lh_model_profile *model, const lh_map_machine *machine,
                        lh_map_layers layers) {
    const uint64_t held = lh_layout_stage_bytes(model, layers),
                   extra = layers.first == 0 ? machine->first_extra_bytes : 0;
    return held <= machine->memory_bytes && extra <= machine->memory_bytes - held;
}

bool lh_layout_stage_fits(const lh_model_profile *model, const lh_map_machine *machine,
                          lh_map_layers layers, const lh_kv_need *need) {
    assert(layers.first < layers.last && layers.last <= model->layers);
    return lh_layout_has_room(model, machine, layers) &&
           layers.last - layers.first <= lh_kv_need_layers_max(need, machine->kv_bytes);
}

uint32_t lh_layout_kv_pages(const lh_fleet_map *map, const lh_layout *layout) {
    uint32_t least = UINT32_MAX;
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        const lh_layout_stage *stage = &layout->stages[s];
        least = lh_min_u32(least,
                           lh_kv_need_room(&map->model.kv, map->machines[stage->machine].kv_bytes,
                                           stage->layers.last - stage->layers.first));
    }
    return least;
}

uint64_t lh_layout_moved_bytes(const lh_fleet_map *map, const lh_layout_stage *stage) {
    const lh_map_machine *machine = &map->machines[stage->machine];
    uint64_t bytes = 0;
    assert(stage->machine < map->machine_count && stage->layers.last <= map->model.layers);
    for (uint32_t i = stage->layers.first; i < stage->layers.last; i++) {
        bool is_held = machine->held.first <= i && i < machine->held.last;
        if (!is_held && !lh_map_layer_set_has(&machine->cached, i))
            bytes += lh_layout_stage_bytes(&map->model, (lh_map_layers){i, i + 1});
    }
    return bytes;
}

uint64_t lh_layout_loaded_bytes(const lh_fleet_map *map, const lh_layout_stage *stage) {
    const lh_map_layers *held = &map->machines[stage->machine].held;
    bool is_held = held->first == stage->layers.first && held->last == stage->layers.last;
    return is_held ? 0 : lh_layout_stage_bytes(&map->model, stage->layers);
}

double lh_layout_loading_us(const lh_fleet_map *map, const lh_layout *layout) {
    double longest_us = 0;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_layout_stage *stage = &layout->stages[i];
        const lh_map_link *link =
            &map->links[map->gateway_site][map->machines[stage->machine].site];
        double us = (double)lh_layout_moved_bytes(map, stage) / link->bytes_per_us +
                    (double)lh_layout_loaded_bytes(map, stage) / LOADED_BYTES_PER_US;
        longest_us = lh_max_f64(longest_us, us);
    }
    return longest_us;
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
    const lh_kv_need least = {map->model.kv.position_bytes, map->model.kv.heads, 1};
    uint32_t next = 0, from = map->gateway_site;
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        const lh_layout_stage *stage = &layout->stages[s];
        const lh_map_machine *machine = &map->machines[stage->machine];
        for (uint32_t before = 0; before < s; before++)
            if (layout->stages[before].machine == stage->machine)
                return false;
        if (stage->layers.first != next || stage->layers.last <= next || machine->is_excluded ||
            !lh_layout_stage_fits(&map->model, machine, stage->layers, &least) ||
            map->links[from][machine->site].bytes_per_us == 0 || !keeps_pins(stage, map))
            return false;
        next = stage->layers.last;
        from = machine->site;
    }
    return next == map->model.layers && map->links[from][map->gateway_site].bytes_per_us > 0;
}
