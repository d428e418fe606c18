/* Applies the cost model's formulas to one stage and to one hop. */
#include "gateway/plan/part_costs.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/hop_bytes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

/* ---- Order ---- */

static int compare(double a, double b) {
    return (a > b) - (a < b);
}

static int by_points(const lh_map_machine *a, const lh_map_machine *b) {
    int order = compare(a->point_count, b->point_count);
    for (uint32_t i = 0; i < a->point_count && order == 0; i++) {
        order = compare(a->points[i].us, b->points[i].us);
        if (order == 0)
            order = compare(a->points[i].rows, b->points[i].rows);
    }
    return order;
}

static int by_nature(const lh_map_machine *a, const lh_map_machine *b) {
    int order = by_points(a, b);
    if (order == 0)
        order = compare(a->step_us, b->step_us);
    if (order == 0)
        order = compare(a->attention_us, b->attention_us);
    if (order == 0)
        order = compare((double)b->memory_bytes, (double)a->memory_bytes);
    if (order == 0)
        order = compare((double)b->kv_bytes, (double)a->kv_bytes);
    if (order == 0)
        order = compare((double)a->first_extra_bytes, (double)b->first_extra_bytes);
    return order;
}

typedef struct sortable {
    const lh_map_machine *machine;
    const lh_fleet_map *map; /* NULL: they are not sorted */
} sortable;

static int by_all(const void *left, const void *right) {
    const sortable *a = left, *b = right;
    int order = by_nature(a->machine, b->machine);
    if (order == 0)
        order = strcmp(a->map->sites[a->machine->site], b->map->sites[b->machine->site]);
    return order ? order : strcmp(a->machine->name, b->machine->name);
}

/* ---- Life ---- */

static void sum_layers(lh_parts *parts, uint32_t count) {
    const lh_model_profile *model = parts->model;
    assert(model->layers > 0 && model->layers <= LH_MAP_LAYERS_MAX);
    parts->layers = model->layers;
    for (uint32_t m = 0; m < count; m++)
        for (uint32_t i = parts->all[m].pinned.first; i < parts->all[m].pinned.last; i++)
            parts->pinned_layers[i + 1]++;
    for (uint32_t i = 0; i < model->layers; i++) {
        parts->row_mib[i + 1] = parts->row_mib[i] + (double)model->row_bytes[i] / MIB;
        parts->held_bytes[i + 1] = parts->held_bytes[i] + model->layer_bytes[i];
        parts->pinned_layers[i + 1] += parts->pinned_layers[i];
    }
}

uint64_t lh_parts_least_layer(const lh_model_profile *model) {
    uint64_t least = model->layer_bytes[0];
    for (uint32_t i = 1; i < model->layers; i++)
        least = model->layer_bytes[i] < least ? model->layer_bytes[i] : least;
    return least;
}

static void take_machines(lh_parts *parts, uint32_t count, sortable *order) {
    const uint64_t least = lh_parts_least_layer(parts->model);
    for (uint32_t m = 0; m < count; m++)
        if (!parts->all[m].is_excluded && parts->all[m].memory_bytes >= least)
            order[parts->machine_count++] = (sortable){&parts->all[m], parts->map};
    assert(parts->machine_count <= count);
    if (parts->map)
        qsort(order, parts->machine_count, sizeof *order, by_all);
    for (uint32_t i = 0; i < parts->machine_count; i++)
        parts->machines[i] =
            (lh_part_machine){.index = (uint32_t)(order[i].machine - parts->all),
                              .site = order[i].machine->site,
                              .memory_bytes = order[i].machine->memory_bytes,
                              .first_extra_bytes = order[i].machine->first_extra_bytes,
                              .pinned = order[i].machine->pinned};
}

static lh_status create(const lh_parts *of, uint32_t count, lh_parts **parts, lh_error *error) {
    lh_parts *p = calloc(1, sizeof *p);
    sortable *order = calloc((size_t)count + 1, sizeof *order);
    lh_part_machine *machines = calloc((size_t)count + 1, sizeof *machines);
    if (!p || !order || !machines) {
        free(machines);
        free(order);
        free(p);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines", count);
    }
    p->model = of->model;
    p->all = of->all;
    p->map = of->map;
    p->machines = machines;
    sum_layers(p, count);
    take_machines(p, count, order);
    lh_parts_want(p, &p->model->kv);
    free(order);
    *parts = p;
    return LH_OK;
}

lh_status lh_parts_create(const lh_fleet_map *map, lh_parts **parts, lh_error *error) {
    const lh_parts of = {.model = &map->model, .all = map->machines, .map = map};
    return create(&of, map->machine_count, parts, error);
}

lh_status lh_parts_create_unlinked(const lh_model_profile *model, const lh_map_machine *machines,
                                   uint32_t count, lh_parts **parts, lh_error *error) {
    const lh_parts of = {.model = model, .all = machines};
    return create(&of, count, parts, error);
}

void lh_parts_want(lh_parts *parts, const lh_kv_need *need) {
    parts->kv = *need;
    for (uint32_t m = 0; m < parts->machine_count; m++) {
        lh_part_machine *machine = &parts->machines[m];
        machine->layers_max = lh_kv_need_layers_max(need, parts->all[machine->index].kv_bytes);
    }
}

void lh_parts_destroy(lh_parts *parts) {
    if (!parts)
        return;
    free(parts->machines);
    free(parts);
}

/* ---- Prices ---- */

static void price_machine(lh_parts *parts, lh_part_machine *m, const lh_aim_size *size) {
    assert(size->rows > 0);
    const lh_map_machine *machine = &parts->all[m->index];
    lh_compute_profile unit = {.point_count = machine->point_count};
    const lh_head_costs head = lh_layout_head_costs(parts->model, machine);
    double rows = size->rows;
    memcpy(unit.points, machine->points, sizeof unit.points);
    double before = size->position + (size->is_decode ? 0 : (rows - 1) / 2);
    m->mib_us = lh_cost_stage_us(&unit, 0, size->rows);
    m->layer_us = machine->attention_us * rows * before;
    m->fixed_us = machine->step_us;
    m->head_us = head.draw_us + (size->is_decode ? head.draw_more_us * (rows - 1) : 0);
    m->head_busy_us = size->is_decode ? m->head_us : 0;
}

static void price_hop(lh_parts *parts, uint32_t from, uint32_t to, const lh_aim *aim,
                      const lh_aim_size *size) {
    const lh_fleet_map *map = parts->map;
    lh_hop_place place = from == LH_PART_GATEWAY ? LH_HOP_FIRST
                         : to == LH_PART_GATEWAY ? LH_HOP_LAST
                                                 : LH_HOP_INNER;
    uint32_t from_site = from == LH_PART_GATEWAY ? map->gateway_site : from,
             to_site = to == LH_PART_GATEWAY ? map->gateway_site : to;
    const lh_map_link *link = &map->links[from_site][to_site];
    lh_cost_hop hop;
    lh_cost_hop_set_bytes(&hop, place, aim->wire, map->model.width);
    double bytes = hop.step_bytes;
    if (size->is_decode)
        bytes += hop.draw_bytes * size->rows;
    else if (place != LH_HOP_LAST)
        bytes += hop.step_row_bytes * size->rows;
    if (place == LH_HOP_INNER)
        bytes += hop.shard_bytes + hop.row_bytes * size->rows;
    parts->hops[from][to] = (lh_part_hop){
        link->bytes_per_us > 0 ? bytes / link->bytes_per_us : INFINITY, link->delay_us};
}

void lh_parts_price_machines(lh_parts *parts, const lh_aim_size *size) {
    for (uint32_t m = 0; m < parts->machine_count; m++)
        price_machine(parts, &parts->machines[m], size);
}

void lh_parts_price(lh_parts *parts, const lh_aim *aim, const lh_aim_size *size) {
    assert(parts->map);
    lh_parts_price_machines(parts, size);
    for (uint32_t a = 0; a < parts->map->site_count; a++) {
        price_hop(parts, LH_PART_GATEWAY, a, aim, size);
        price_hop(parts, a, LH_PART_GATEWAY, aim, size);
        for (uint32_t b = 0; b < parts->map->site_count; b++)
            price_hop(parts, a, b, aim, size);
    }
}

/* ---- A stage ---- */

bool lh_parts_may_hold(const lh_parts *parts, const lh_part_machine *machine,
                       lh_map_layers layers) {
    const lh_model_profile *model = parts->model;
    uint64_t bytes = parts->held_bytes[layers.last] - parts->held_bytes[layers.first] +
                     (layers.first == 0 ? model->embedding_bytes + machine->first_extra_bytes : 0) +
                     (layers.last == parts->layers ? model->head_bytes : 0);
    if (bytes > machine->memory_bytes || layers.last - layers.first > machine->layers_max)
        return false;
    if (machine->pinned.first < machine->pinned.last)
        return machine->pinned.first == layers.first && machine->pinned.last == layers.last;
    return parts->pinned_layers[layers.last] == parts->pinned_layers[layers.first];
}

/* ---- A layout ---- */

void lh_parts_measure(const lh_parts *parts, lh_part_ring *ring) {
    uint32_t from = LH_PART_GATEWAY;
    ring->ring_us = ring->busiest_us = 0;
    for (uint32_t s = 0; s < ring->layout.stage_count; s++) {
        const lh_layout_stage *stage = &ring->layout.stages[s];
        const lh_part_machine *machine = &parts->machines[stage->machine];
        assert(stage->machine < parts->machine_count);
        const lh_part_hop *hop = &parts->hops[from][machine->site];
        double busy_us, us = lh_parts_stage_us(parts, machine, stage->layers, &busy_us);
        ring->ring_us += lh_part_hop_us(hop) + us;
        ring->busiest_us = fmax(ring->busiest_us, fmax(hop->busy_us, busy_us));
        from = machine->site;
    }
    const lh_part_hop *back = &parts->hops[from][LH_PART_GATEWAY];
    ring->ring_us += lh_part_hop_us(back);
    ring->busiest_us = fmax(ring->busiest_us, back->busy_us);
}

void lh_parts_resolve(const lh_parts *parts, lh_layout *layout) {
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        assert(layout->stages[s].machine < parts->machine_count);
        layout->stages[s].machine = parts->machines[layout->stages[s].machine].index;
    }
}
