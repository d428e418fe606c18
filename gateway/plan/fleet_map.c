/* Ranges, and names that are there once. */
#include "gateway/plan/fleet_map.h"

#include "common/protocol/step.h"

#include <math.h>
#include <string.h>

/* Sums of a few hundred of them are exact enough, and no machine comes near. */
#define US_MAX    1e12
#define RATE_MAX  1e6  /* a terabyte in a second */
#define RATE_MIN  1e-6 /* a byte in a second */
#define BYTES_MAX (UINT64_C(1) << 50)
/* With LH_KV_NEED_PAGES_MAX pages that is no more than 64 bits hold. */
#define POSITION_BYTES_MAX (UINT64_C(1) << 32)

/* Rows over which a machine's speed with many rows is measured. */
#define MANY_ROWS 512u

static bool is_time(double us) {
    return isfinite(us) && us >= 0 && us <= US_MAX;
}

void lh_map_machine_set_speed(lh_map_machine *machine, const lh_machine_speed *speed) {
    double many_us = fmax(speed->prompt_us * MANY_ROWS, speed->token_us);
    machine->point_count = 2;
    machine->points[0] = (lh_compute_point){1, speed->token_us};
    machine->points[1] = (lh_compute_point){MANY_ROWS, many_us};
}

uint32_t lh_fleet_map_find_site(const lh_fleet_map *map, const char *name) {
    for (uint32_t s = 0; s < map->site_count; s++)
        if (strcmp(map->sites[s], name) == 0)
            return s;
    return UINT32_MAX;
}

uint32_t lh_fleet_map_find_machine(const lh_fleet_map *map, const char *name) {
    for (uint32_t m = 0; m < map->machine_count; m++)
        if (strcmp(map->machines[m].name, name) == 0)
            return m;
    return UINT32_MAX;
}

const lh_map_team *lh_fleet_map_find_team(const lh_fleet_map *map, const lh_team *team) {
    for (uint32_t i = 0; i < map->team_count; i++)
        if (map->teams[i].team.count == team->count &&
            memcmp(map->teams[i].team.members, team->members,
                   team->count * sizeof *team->members) == 0)
            return &map->teams[i];
    return NULL;
}

void lh_map_machine_copy_times(lh_map_machine *machine, const lh_map_machine *from) {
    machine->point_count = from->point_count;
    memcpy(machine->points, from->points, sizeof machine->points);
    machine->attention_us = from->attention_us;
    machine->step_us = from->step_us;
    machine->draw_us = from->draw_us;
    machine->draw_more_us = from->draw_more_us;
}

static lh_status check_model(const lh_model_profile *model, lh_error *error) {
    if (model->layers == 0 || model->layers > LH_MAP_LAYERS_MAX)
        return lh_fail(error, LH_ERR_INVALID, "the model's layers are not 1 to %u",
                       LH_MAP_LAYERS_MAX);
    if (model->width == 0 || model->width > LH_STEP_WIDTH_MAX)
        return lh_fail(error, LH_ERR_INVALID, "the model's width is not 1 to %u",
                       LH_STEP_WIDTH_MAX);
    bool is_sound =
        model->embedding_bytes <= BYTES_MAX && model->head_bytes <= BYTES_MAX &&
        model->gather_row_bytes <= BYTES_MAX && model->layer_gathers <= LH_LAYER_GATHERS_MAX &&
        model->kv.position_bytes <= POSITION_BYTES_MAX && model->kv.pages <= LH_KV_NEED_PAGES_MAX;
    for (uint32_t i = 0; i < model->layers; i++)
        is_sound &= model->layer_bytes[i] > 0 && model->layer_bytes[i] <= BYTES_MAX &&
                    model->row_bytes[i] > 0 && model->row_bytes[i] <= model->layer_bytes[i];
    return is_sound ? LH_OK
                    : lh_fail(error, LH_ERR_INVALID,
                              "the bytes of the model's layers, embedding, "
                              "head, gathers, or keys and values are impossible");
}

static bool has_points(const lh_map_machine *machine) {
    if (machine->point_count == 0 || machine->point_count > LH_COMPUTE_POINTS_MAX)
        return false;
    for (uint32_t i = 0; i < machine->point_count; i++) {
        const lh_compute_point *point = &machine->points[i];
        if (point->rows == 0 || !is_time(point->us) || point->us <= 0 ||
            (i > 0 && point->rows <= point[-1].rows))
            return false;
    }
    return true;
}

static bool has_layers(const lh_map_layers *layers, uint32_t count) {
    return layers->first <= layers->last && layers->last <= count;
}

/* What a step takes it. */
static lh_status check_times(const char *name, const lh_map_machine *machine, lh_error *error) {
    if (!has_points(machine))
        return lh_fail(
            error, LH_ERR_INVALID,
            "%s: its speed is not known, or impossible: times above 0 of 1 to %u numbers "
            "of rows that ascend",
            name, LH_COMPUTE_POINTS_MAX);
    if (!is_time(machine->attention_us) || !is_time(machine->step_us) ||
        !is_time(machine->draw_us) || !is_time(machine->draw_more_us))
        return lh_fail(error, LH_ERR_INVALID, "%s: a time is impossible", name);
    return LH_OK;
}

static lh_status check_machine(const lh_fleet_map *map, uint32_t index, lh_error *error) {
    const lh_map_machine *machine = &map->machines[index];
    if (!lh_name_is_valid(machine->name) || machine->site >= map->site_count)
        return lh_fail(error, LH_ERR_INVALID, "machine %u has no name, or is at no site", index);
    if (lh_fleet_map_find_machine(map, machine->name) != index)
        return lh_fail(error, LH_ERR_INVALID, "two machines are called \"%s\"", machine->name);
    lh_status status = check_times(machine->name, machine, error);
    if (status != LH_OK)
        return status;
    if (machine->memory_bytes > BYTES_MAX || machine->kv_bytes > BYTES_MAX)
        return lh_fail(error, LH_ERR_INVALID, "%s: its memory is impossible", machine->name);
    if (!has_layers(&machine->held, map->model.layers) ||
        !has_layers(&machine->pinned, map->model.layers))
        return lh_fail(error, LH_ERR_INVALID, "%s: the model has layers 0-%u only", machine->name,
                       map->model.layers - 1);
    return LH_OK;
}

/* Machines are sound. */
static lh_status check_team(const lh_fleet_map *map, uint32_t index, lh_error *error) {
    const lh_map_team *known = &map->teams[index];
    const lh_team *team = &known->team;
    bool is_sound = team->count >= 2 && team->count <= LH_TEAM_MEMBERS_MAX;
    for (uint32_t i = 0; i < team->count && is_sound; i++) {
        is_sound = team->members[i] < map->machine_count &&
                   map->machines[team->members[i]].site == map->machines[team->members[0]].site;
        for (uint32_t k = 0; k < i && is_sound; k++)
            is_sound = team->members[k] != team->members[i];
    }
    if (!is_sound)
        return lh_fail(error, LH_ERR_INVALID,
                       "team %u is not of 2 to %u machines of one site, each of them once", index,
                       LH_TEAM_MEMBERS_MAX);
    return known->measured.point_count > 0
               ? check_times(map->machines[team->members[0]].name, &known->measured, error)
               : LH_OK;
}

static bool overlap(const lh_map_layers *a, const lh_map_layers *b) {
    return a->first < b->last && b->first < a->last;
}

static lh_status check_pins(const lh_fleet_map *map, lh_error *error) {
    for (uint32_t a = 0; a < map->machine_count; a++) {
        if (map->machines[a].pinned.first == map->machines[a].pinned.last)
            continue;
        if (map->machines[a].is_excluded)
            return lh_fail(error, LH_ERR_INVALID, "%s is pinned and excluded",
                           map->machines[a].name);
        for (uint32_t b = a + 1; b < map->machine_count; b++)
            if (overlap(&map->machines[a].pinned, &map->machines[b].pinned))
                return lh_fail(error, LH_ERR_INVALID, "%s and %s are pinned to a layer both",
                               map->machines[a].name, map->machines[b].name);
    }
    return LH_OK;
}

static lh_status check_links(const lh_fleet_map *map, lh_error *error) {
    for (uint32_t a = 0; a < map->site_count; a++)
        for (uint32_t b = 0; b < map->site_count; b++) {
            const lh_map_link *link = &map->links[a][b];
            bool has_rate = link->bytes_per_us == 0 ||
                            (link->bytes_per_us >= RATE_MIN && link->bytes_per_us <= RATE_MAX);
            if (!has_rate || !is_time(link->delay_us))
                return lh_fail(error, LH_ERR_INVALID,
                               "the link from %s to %s: its rate or its delay is impossible",
                               map->sites[a], map->sites[b]);
        }
    return LH_OK;
}

static lh_status check_sites(const lh_fleet_map *map, lh_error *error) {
    if (map->site_count == 0 || map->site_count > LH_MAP_SITES_MAX ||
        map->gateway_site >= map->site_count)
        return lh_fail(error, LH_ERR_INVALID,
                       "there are not 1 to %u sites, or the gateway is at "
                       "none of them",
                       LH_MAP_SITES_MAX);
    for (uint32_t s = 0; s < map->site_count; s++)
        if (!lh_name_is_valid(map->sites[s]) || lh_fleet_map_find_site(map, map->sites[s]) != s)
            return lh_fail(error, LH_ERR_INVALID, "site %u has no name, or another one's", s);
    return LH_OK;
}

lh_status lh_fleet_map_check(const lh_fleet_map *map, lh_error *error) {
    lh_status status = check_model(&map->model, error);
    if (status == LH_OK)
        status = check_sites(map, error);
    if (status == LH_OK && map->machine_count > LH_MAP_MACHINES_MAX)
        status =
            lh_fail(error, LH_ERR_INVALID, "there are more than %u machines", LH_MAP_MACHINES_MAX);
    for (uint32_t m = 0; m < map->machine_count && status == LH_OK; m++)
        status = check_machine(map, m, error);
    for (uint32_t i = 0; i < map->team_count && status == LH_OK; i++)
        status = check_team(map, i, error);
    if (status == LH_OK)
        status = check_pins(map, error);
    if (status == LH_OK)
        status = check_links(map, error);
    if (status == LH_OK && map->machine_count == 0)
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "there is no machine");
    return status;
}
