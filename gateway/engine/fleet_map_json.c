/* A map becomes the file that it could have been read from. */
#include "gateway/engine/fleet_map_json.h"

#include "gateway/engine/layers_json.h"
#include "gateway/plan/team.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define US_PER_MS 1000.0

/* A byte in a microsecond is 8 megabits in a second. */
static double mbps_of(const lh_map_link *link) {
    return link->bytes_per_us * 8;
}

static double round_trip_ms(const lh_map_link *link) {
    return 2 * link->delay_us / US_PER_MS;
}

static json_t *render_layers(const lh_map_layers *layers) {
    return layers->first < layers->last ? lh_layers_render(layers->first, layers->last)
                                        : json_null();
}

/* "0-9,20-31"; null: none. */
static json_t *render_layer_set(const lh_map_layer_set *set, uint32_t layers) {
    char text[LH_MAP_LAYERS_MAX * 8];
    size_t length = 0;
    for (uint32_t first = 0, last; first < layers; first = last + 1) {
        for (last = first; last < layers && lh_map_layer_set_has(set, last);)
            last++;
        if (last > first)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%u-%u",
                                       length > 0 ? "," : "", first, last - 1);
    }
    return length > 0 ? json_string(text) : json_null();
}

static bool is_like_first(const lh_model_profile *model, uint32_t layer) {
    return model->layer_bytes[layer] == model->layer_bytes[0] &&
           model->row_bytes[layer] == model->row_bytes[0];
}

static json_t *render_kv(const lh_kv_need *kv) {
    if (kv->position_bytes == 0)
        return json_null();
    return json_pack("{s:I, s:i, s:I}", "position_bytes", (json_int_t)kv->position_bytes, "heads",
                     (int)kv->heads, "positions", (json_int_t)kv->pages * LH_KV_NEED_PAGE);
}

static json_t *render_model(const lh_model_profile *model) {
    json_t *others = json_array();
    for (uint32_t i = 0; i < model->layers; i++)
        if (!is_like_first(model, i))
            json_array_append_new(others,
                                  json_pack("{s:o, s:I, s:I}", "layers", lh_layers_render(i, i + 1),
                                            "layer_bytes", (json_int_t)model->layer_bytes[i],
                                            "row_bytes", (json_int_t)model->row_bytes[i]));
    return json_pack(
        "{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o}", "layers", (int)model->layers, "width",
        (int)model->width, "layer_bytes", (json_int_t)model->layer_bytes[0], "row_bytes",
        (json_int_t)model->row_bytes[0], "embedding_bytes", (json_int_t)model->embedding_bytes,
        "head_bytes", (json_int_t)model->head_bytes, "gather_row_bytes",
        (json_int_t)model->gather_row_bytes, "gathers", (int)lh_team_layer_gathers(model), "kv",
        render_kv(&model->kv), "others", others);
}

static json_t *render_sites(const lh_fleet_map *map) {
    json_t *sites = json_array();
    for (uint32_t s = 0; s < map->site_count; s++)
        json_array_append_new(sites, json_pack("{s:s, s:f, s:f}", "name", map->sites[s],
                                               "rate_mbps", mbps_of(&map->links[s][s]),
                                               "round_trip_ms", round_trip_ms(&map->links[s][s])));
    return sites;
}

/* A direction of which nothing is known is taken for what the other one is. */
static json_t *render_links(const lh_fleet_map *map) {
    json_t *links = json_array();
    for (uint32_t from = 0; from < map->site_count; from++)
        for (uint32_t to = from + 1; to < map->site_count; to++) {
            const lh_map_link *there = &map->links[from][to], *back = &map->links[to][from];
            there = there->bytes_per_us > 0 ? there : back;
            back = back->bytes_per_us > 0 ? back : there;
            if (there->bytes_per_us > 0)
                json_array_append_new(
                    links, json_pack("{s:s, s:s, s:f, s:f, s:f}", "from", map->sites[from], "to",
                                     map->sites[to], "rate_mbps", mbps_of(there), "rate_back_mbps",
                                     mbps_of(back), "round_trip_ms", round_trip_ms(there)));
        }
    return links;
}

/* Puts what a step takes it into an object. */
static void put_times(json_t *object, const lh_map_machine *machine) {
    json_t *times = json_array();
    for (uint32_t i = 0; i < machine->point_count; i++)
        json_array_append_new(times, json_pack("{s:i, s:f}", "rows", (int)machine->points[i].rows,
                                               "us", machine->points[i].us));
    json_object_set_new(object, "times", times);
    json_object_set_new(object, "step_us", json_real(machine->step_us));
    json_object_set_new(object, "attention_us", json_real(machine->attention_us));
    json_object_set_new(object, "draw_us", json_real(machine->draw_us));
    json_object_set_new(object, "draw_more_us", json_real(machine->draw_more_us));
}

static json_t *render_machine(const lh_fleet_map *map, const lh_map_machine *machine) {
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:b, s:o, s:o}", "name", machine->name, "site",
                  map->sites[machine->site], "memory_bytes", (json_int_t)machine->memory_bytes,
                  "kv_bytes", (json_int_t)machine->kv_bytes, "can_join", machine->can_join, "held",
                  render_layers(&machine->held), "cached",
                  render_layer_set(&machine->cached, map->model.layers));
    put_times(object, machine);
    return object;
}

static json_t *render_machines(const lh_fleet_map *map) {
    json_t *machines = json_array();
    for (uint32_t m = 0; m < map->machine_count; m++)
        json_array_append_new(machines, render_machine(map, &map->machines[m]));
    return machines;
}

/* Who computes together, and what is known of that. */
static json_t *render_team(const lh_fleet_map *map, const lh_map_team *known) {
    json_t *members = json_array();
    for (uint32_t i = 0; i < known->team.count; i++)
        json_array_append_new(members, json_string(map->machines[known->team.members[i]].name));
    json_t *object = json_pack("{s:o, s:b}", "members", members, "stands", known->stands);
    if (known->measured.point_count > 0)
        put_times(object, &known->measured);
    return object;
}

static json_t *render_teams(const lh_fleet_map *map) {
    json_t *teams = json_array();
    for (uint32_t i = 0; i < map->team_count; i++)
        json_array_append_new(teams, render_team(map, &map->teams[i]));
    return teams;
}

static json_t *render_unmeasured(const lh_router *router, const lh_fleet_map *map) {
    json_t *names = json_array();
    for (uint32_t i = 0; i < lh_router_count(router); i++) {
        const lh_registry *registry =
            lh_fleet_registry(lh_chain_controller_fleet(lh_router_controller(router, i)));
        for (uint32_t w = 0; w < lh_registry_count(registry); w++) {
            const char *name = lh_registry_at(registry, w)->report.name;
            if (lh_fleet_map_find_machine(map, name) == UINT32_MAX)
                json_array_append_new(names, json_string(name));
        }
    }
    return names;
}

/* problem: NULL: the map is whole. */
static char *render(const lh_router *router, const lh_fleet_map *map, const char *problem) {
    json_t *json =
        json_pack("{s:o, s:{s:s}, s:o, s:o, s:o, s:o, s:o}", "model", render_model(&map->model),
                  "gateway", "site", map->sites[map->gateway_site], "sites", render_sites(map),
                  "links", render_links(map), "machines", render_machines(map), "teams",
                  render_teams(map), "unmeasured", render_unmeasured(router, map));
    if (json && problem)
        json_object_set_new(json, "problem", json_string(problem));
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    return text;
}

char *lh_fleet_map_render(const lh_router *router, int64_t now_us) {
    lh_live_map *live = malloc(sizeof *live);
    lh_status status = live ? LH_OK : LH_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < lh_router_count(router) && status == LH_OK; i++)
        status = lh_fleet_add_to_map(lh_chain_controller_fleet(lh_router_controller(router, i)),
                                     i == 0, now_us, live);
    /* What there is room for is rendered, and the others stand with those that are unmeasured. */
    char *text = NULL;
    if (status == LH_OK || status == LH_ERR_LIMIT)
        text = render(router, &live->map,
                      status == LH_OK ? NULL : "the fleet has more workers or sites than a map");
    free(live);
    return text;
}
