/* Model, sites, links, machines: each with the fields that it needs. */
#include "gateway/cli/fleet_file_json.h"

#include "common/json/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX     (INT64_C(1) << 50)
#define MBPS_MAX      8e6 /* a terabyte in a second */
#define MBPS_MIN      0.001
#define MS_MAX        1e6
#define US_MAX        1e9
#define LINKS_MAX     (LH_MAP_SITES_MAX * LH_MAP_SITES_MAX)
#define LAYERS_TEXT   16
#define POSITIONS_MAX (1 << 30)

/* A megabit in a second is an eighth of a byte in a microsecond. */
static lh_map_link link_of(double mbps, double round_trip_ms) {
    return (lh_map_link){mbps / 8, round_trip_ms * 1000 / 2};
}

/* ---- Layers ---- */

static bool parse_number(const char **text, uint32_t *number) {
    uint32_t digits = 0;
    for (*number = 0; **text >= '0' && **text <= '9' && digits < 5; digits++)
        *number = *number * 10 + (uint32_t)(*(*text)++ - '0');
    return digits > 0 && digits < 5;
}

bool lh_fleet_file_parse_layers(const char *text, uint32_t layers, lh_map_layers *parsed) {
    uint32_t first, last;
    if (!parse_number(&text, &first))
        return false;
    last = first;
    if (*text == '-' && (text++, !parse_number(&text, &last)))
        return false;
    if (*text != '\0' || last < first || last >= layers)
        return false;
    *parsed = (lh_map_layers){first, last + 1};
    return true;
}

static lh_map_layers read_layers(const lh_json_reader *in, const char *field, uint32_t layers) {
    char text[LAYERS_TEXT];
    lh_map_layers parsed = {0, 0};
    lh_json_read_line(in, field, text, sizeof text);
    if (lh_json_is_good(in) && !lh_fleet_file_parse_layers(text, layers, &parsed))
        lh_json_refuse(in, field, "layers of the model like \"0-9\" (it has 0-%u)", layers - 1);
    return parsed;
}

/* "0-9,20-31". */
static void read_layer_set(const lh_json_reader *in, const char *field, uint32_t layers,
                           lh_map_layer_set *set) {
    char text[LH_MAP_LAYERS_MAX * 8];
    lh_map_layers run;
    lh_json_read_line(in, field, text, sizeof text);
    char *rest = NULL;
    for (char *part = lh_json_is_good(in) ? strtok_r(text, ",", &rest) : NULL; part;
         part = strtok_r(NULL, ",", &rest)) {
        if (!lh_fleet_file_parse_layers(part, layers, &run)) {
            lh_json_refuse(in, field, "layers of the model like \"0-9,20-31\" (it has 0-%u)",
                           layers - 1);
            return;
        }
        lh_map_layer_set_add(set, run);
    }
}

/* ---- Parts ---- */

static double read_or(const lh_json_reader *in, const char *field, double least, double most,
                      double otherwise) {
    return lh_json_is_present(in, field) ? lh_json_read_number(in, field, least, most) : otherwise;
}

static uint64_t read_bytes(const lh_json_reader *in, const char *field, uint64_t otherwise) {
    return lh_json_is_present(in, field) ? (uint64_t)lh_json_read_integer(in, field, 0, BYTES_MAX)
                                         : otherwise;
}

static void read_layer_bytes(const lh_json_reader *in, lh_map_layers layers,
                             lh_model_profile *model) {
    uint64_t bytes = (uint64_t)lh_json_read_integer(in, "layer_bytes", 1, BYTES_MAX),
             row_bytes = read_bytes(in, "row_bytes", bytes);
    if (row_bytes == 0 || row_bytes > bytes)
        lh_json_refuse(in, "row_bytes", "from 1 to layer_bytes");
    for (uint32_t i = layers.first; i < layers.last; i++) {
        model->layer_bytes[i] = bytes;
        model->row_bytes[i] = row_bytes;
    }
}

/* Positions of one sequence, and of a page for each other one. */
static void read_kv(const lh_json_reader *model, lh_kv_need *kv) {
    lh_json_reader in;
    if (!lh_json_is_there(model, "kv") || !lh_json_read_object(model, "kv", false, &in))
        return;
    kv->position_bytes = (uint64_t)lh_json_read_integer(&in, "position_bytes", 1, UINT32_MAX);
    kv->heads = lh_json_is_present(&in, "heads")
                    ? (uint32_t)lh_json_read_integer(&in, "heads", 0, UINT16_MAX)
                    : 0;
    kv->pages = lh_json_is_present(&in, "positions")
                    ? lh_kv_need_pages(
                          (uint32_t)lh_json_read_integer(&in, "positions", 0, POSITIONS_MAX), 1)
                    : 0;
}

static void read_model(const lh_json_reader *root, lh_model_profile *model) {
    lh_json_reader in;
    if (!lh_json_read_object(root, "model", false, &in))
        return;
    model->layers = (uint32_t)lh_json_read_integer(&in, "layers", 1, LH_MAP_LAYERS_MAX);
    model->width = (uint32_t)lh_json_read_integer(&in, "width", 1, 1 << 20);
    if (!lh_json_is_good(&in))
        return;
    read_layer_bytes(&in, (lh_map_layers){0, model->layers}, model);
    model->embedding_bytes = read_bytes(&in, "embedding_bytes", 0);
    model->head_bytes = read_bytes(&in, "head_bytes", 0);
    model->gather_row_bytes = read_bytes(&in, "gather_row_bytes", 0);
    if (lh_json_is_present(&in, "gathers"))
        model->layer_gathers =
            (uint32_t)lh_json_read_integer(&in, "gathers", 1, LH_LAYER_GATHERS_MAX);
    read_kv(&in, &model->kv);
    size_t count = lh_json_is_present(&in, "others")
                       ? lh_json_read_array(&in, "others", LH_MAP_LAYERS_MAX)
                       : 0;
    for (size_t i = 0; i < count && lh_json_is_good(&in); i++) {
        lh_json_reader other = lh_json_element(&in, "others", i);
        lh_map_layers layers = read_layers(&other, "layers", model->layers);
        read_layer_bytes(&other, layers, model);
    }
}

static uint32_t read_site(const lh_json_reader *in, const char *field, const lh_fleet_map *map) {
    char name[LH_NAME_BYTES];
    lh_json_read_name(in, field, name);
    uint32_t site = lh_fleet_map_find_site(map, name);
    if (lh_json_is_good(in) && site == UINT32_MAX)
        lh_json_refuse(in, field, "one of the sites");
    return site == UINT32_MAX ? 0 : site;
}

static void read_sites(const lh_json_reader *root, lh_fleet_map *map) {
    size_t count = lh_json_read_array(root, "sites", LH_MAP_SITES_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader in = lh_json_element(root, "sites", i);
        uint32_t s = map->site_count;
        if (s == LH_MAP_SITES_MAX) {
            lh_json_refuse(root, "sites", "%u at most, with those of --fleet", LH_MAP_SITES_MAX);
            return;
        }
        lh_json_read_name(&in, "name", map->sites[s]);
        if (lh_json_is_good(&in) && lh_fleet_map_find_site(map, map->sites[s]) != UINT32_MAX)
            lh_json_refuse(&in, "name", "the name of no other site");
        map->links[s][s] = link_of(read_or(&in, "rate_mbps", MBPS_MIN, MBPS_MAX, 1000),
                                   read_or(&in, "round_trip_ms", 0, MS_MAX, 0.2));
        map->site_count++;
    }
}

static void read_links(const lh_json_reader *root, lh_fleet_map *map) {
    size_t count =
        lh_json_is_present(root, "links") ? lh_json_read_array(root, "links", LINKS_MAX) : 0;
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader in = lh_json_element(root, "links", i);
        uint32_t from = read_site(&in, "from", map), to = read_site(&in, "to", map);
        double mbps = lh_json_read_number(&in, "rate_mbps", MBPS_MIN, MBPS_MAX),
               round_trip_ms = lh_json_read_number(&in, "round_trip_ms", 0, MS_MAX),
               back_mbps = read_or(&in, "rate_back_mbps", MBPS_MIN, MBPS_MAX, mbps);
        if (lh_json_is_good(&in) && from == to)
            lh_json_refuse(&in, "to",
                           "another site than from; a site's own network stands at "
                           "the site");
        map->links[from][to] = link_of(mbps, round_trip_ms);
        map->links[to][from] = link_of(back_mbps, round_trip_ms);
    }
}

static void read_times(const lh_json_reader *in, lh_map_machine *machine) {
    size_t count = lh_json_read_array(in, "times", LH_COMPUTE_POINTS_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(in); i++) {
        lh_json_reader time = lh_json_element(in, "times", i);
        machine->points[i].rows = (uint32_t)lh_json_read_integer(&time, "rows", 1, 1 << 20);
        machine->points[i].us = lh_json_read_number(&time, "us", 1e-6, US_MAX);
    }
    machine->point_count = (uint32_t)count;
}

/* Times beside those of rows. */
static void read_others(const lh_json_reader *in, lh_map_machine *machine) {
    machine->step_us = read_or(in, "step_us", 0, US_MAX, 0);
    machine->attention_us = read_or(in, "attention_us", 0, US_MAX, 0);
    machine->draw_us = read_or(in, "draw_us", 0, US_MAX, 0);
    machine->draw_more_us = read_or(in, "draw_more_us", 0, US_MAX, 0);
}

static void read_machine(const lh_json_reader *in, const lh_fleet_map *map,
                         lh_map_machine *machine) {
    lh_json_reader speed;
    *machine = (lh_map_machine){0};
    lh_json_read_name(in, "name", machine->name);
    machine->site = read_site(in, "site", map);
    machine->memory_bytes = (uint64_t)lh_json_read_integer(in, "memory_bytes", 0, BYTES_MAX);
    machine->kv_bytes = read_bytes(in, "kv_bytes", 0);
    if (lh_json_is_present(in, "times"))
        read_times(in, machine);
    else if (lh_json_read_object(in, "speed", false, &speed)) {
        const lh_machine_speed measured = {lh_json_read_number(&speed, "prompt_us", 1e-6, US_MAX),
                                           lh_json_read_number(&speed, "token_us", 1e-6, US_MAX)};
        lh_map_machine_set_speed(machine, &measured);
    }
    read_others(in, machine);
    machine->can_join = lh_json_is_present(in, "can_join") && lh_json_read_bool(in, "can_join");
    if (lh_json_is_there(in, "held"))
        machine->held = read_layers(in, "held", map->model.layers);
    if (lh_json_is_there(in, "cached"))
        read_layer_set(in, "cached", map->model.layers, &machine->cached);
}

/* "a" is a1, a2 ... where there are several of it. */
static void number_machine(const lh_json_reader *in, uint32_t number, lh_map_machine *machine) {
    size_t length = strlen(machine->name);
    int written = snprintf(machine->name + length, sizeof machine->name - length, "%u", number);
    if (written < 0 || (size_t)written >= sizeof machine->name - length)
        lh_json_refuse(in, "name", "shorter, as there are several of it");
}

static lh_status read_machines(const lh_json_reader *root, lh_fleet_map *map, lh_error *error) {
    size_t count = lh_json_read_array(root, "machines", LH_MAP_MACHINES_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader in = lh_json_element(root, "machines", i);
        lh_map_machine machine;
        read_machine(&in, map, &machine);
        uint32_t copies = lh_json_is_present(&in, "count")
                              ? (uint32_t)lh_json_read_integer(&in, "count", 1, LH_MAP_MACHINES_MAX)
                              : 1;
        if (map->machine_count + copies > LH_MAP_MACHINES_MAX)
            lh_json_refuse(root, "machines", "%u at most", LH_MAP_MACHINES_MAX);
        if (!lh_json_is_good(&in))
            return LH_OK;
        lh_map_machine *grown =
            reallocarray(map->machines, map->machine_count + copies, sizeof *grown);
        if (!grown)
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u machines",
                           map->machine_count + copies);
        map->machines = grown;
        for (uint32_t copy = 1; copy <= copies; copy++) {
            grown[map->machine_count] = machine;
            if (copies > 1)
                number_machine(&in, copy, &grown[map->machine_count]);
            map->machine_count++;
        }
    }
    return LH_OK;
}

/* ---- Teams ---- */

static void read_members(const lh_json_reader *in, const lh_fleet_map *map, lh_team *team) {
    size_t count = lh_json_read_array(in, "members", LH_TEAM_MEMBERS_MAX);
    for (size_t i = 0; i < count && lh_json_is_good(in); i++) {
        char name[LH_NAME_BYTES];
        lh_json_element_name(in, "members", i, name);
        uint32_t machine = lh_fleet_map_find_machine(map, name);
        if (lh_json_is_good(in) && machine == UINT32_MAX)
            lh_json_refuse(in, "members", "names of machines");
        team->members[team->count++] = machine;
    }
}

static void read_team(const lh_json_reader *in, const lh_fleet_map *map, lh_map_team *known) {
    *known = (lh_map_team){0};
    read_members(in, map, &known->team);
    known->stands = lh_json_is_present(in, "stands") && lh_json_read_bool(in, "stands");
    if (!lh_json_is_present(in, "times"))
        return;
    read_times(in, &known->measured);
    read_others(in, &known->measured);
}

static lh_status read_teams(const lh_json_reader *root, lh_fleet_map *map, lh_error *error) {
    size_t count =
        lh_json_is_present(root, "teams") ? lh_json_read_array(root, "teams", LH_MAP_TEAMS_MAX) : 0;
    if (count == 0)
        return LH_OK;
    lh_map_team *grown = reallocarray(map->teams, map->team_count + count, sizeof *grown);
    if (!grown)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu teams", count);
    map->teams = grown;
    for (size_t i = 0; i < count && lh_json_is_good(root); i++) {
        lh_json_reader in = lh_json_element(root, "teams", i);
        read_team(&in, map, &grown[map->team_count++]);
    }
    return LH_OK;
}

/* ---- All ---- */

lh_status lh_fleet_file_parse(const char *name, const char *bytes, size_t length, bool is_more,
                              lh_fleet_map *map, lh_error *error) {
    lh_json_document document = {.name = name, .refusal = LH_ERR_INVALID};
    lh_json_reader root, gateway;
    lh_status status = lh_json_document_open(&document, bytes, length, error, &root);
    if (status != LH_OK)
        return status;
    if (!is_more)
        read_model(&root, &map->model);
    if (!is_more || lh_json_is_present(&root, "sites"))
        read_sites(&root, map);
    if (!is_more && lh_json_read_object(&root, "gateway", false, &gateway))
        map->gateway_site = read_site(&gateway, "site", map);
    read_links(&root, map);
    if (lh_json_is_good(&root))
        status = read_machines(&root, map, error);
    if (status == LH_OK && lh_json_is_good(&root))
        status = read_teams(&root, map, error);
    lh_status read = lh_json_document_close(&document);
    return status == LH_OK ? read : status;
}

void lh_fleet_file_reset(lh_fleet_map *map) {
    free(map->teams);
    free(map->machines);
    map->teams = NULL;
    map->machines = NULL;
    map->team_count = map->machine_count = 0;
}
