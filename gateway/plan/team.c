/* Members by their speeds, then what they wait for. */
#include "gateway/plan/team.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/cost_model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MIB             1048576.0
#define LAYER_MIB_LEAST 1e-6

double lh_team_layer_mib(const lh_model_profile *model) {
    double bytes = 0;
    for (uint32_t i = 0; i < model->layers; i++)
        bytes += (double)model->row_bytes[i];
    return fmax(bytes / MIB / model->layers, LAYER_MIB_LEAST);
}

/* For each MiB. */
static double rows_us(const lh_map_machine *machine, uint32_t rows) {
    lh_compute_profile unit = {.point_count = machine->point_count};
    memcpy(unit.points, machine->points, sizeof unit.points);
    return lh_cost_stage_us(&unit, 0, rows);
}

double lh_team_layer_us(const lh_model_profile *model, const lh_map_machine *machine,
                        uint32_t rows) {
    return lh_team_layer_mib(model) * rows_us(machine, rows);
}

uint32_t lh_team_layer_gathers(const lh_model_profile *model) {
    return model->layer_gathers > 0 ? model->layer_gathers : LH_LAYER_GATHERS;
}

double lh_team_gathers_us(const lh_fleet_map *map, uint32_t site, uint32_t members, uint32_t rows) {
    const lh_map_link *link = &map->links[site][site];
    double others = (double)(members - 1) / members;
    return lh_team_layer_gathers(&map->model) * (link->delay_us + LH_TEAM_GATHER_US) +
           rows * others * (double)map->model.gather_row_bytes / link->bytes_per_us;
}

/* ---- Members ---- */

/* 1 / sum of 1 / each: what all take together that take so long alone; 0: one takes nothing. */
typedef struct parallel {
    double rate;
    bool has_none;
} parallel;

static void add(parallel *all, double us) {
    if (us > 0)
        all->rate += 1 / us;
    else
        all->has_none = true;
}

static double together(const parallel *all) {
    return all->has_none || all->rate == 0 ? 0 : 1 / all->rate;
}

static const lh_map_machine *member_of(const lh_fleet_map *map, const lh_team *team, uint32_t i) {
    assert(i < team->count && team->members[i] < map->machine_count);
    return &map->machines[team->members[i]];
}

static double products_us(const lh_fleet_map *map, const lh_team *team, uint32_t rows) {
    parallel all = {0};
    for (uint32_t i = 0; i < team->count; i++)
        add(&all, rows_us(member_of(map, team, i), rows));
    return together(&all);
}

static double attention_us(const lh_fleet_map *map, const lh_team *team) {
    parallel all = {0};
    for (uint32_t i = 0; i < team->count; i++)
        add(&all, member_of(map, team, i)->attention_us);
    return together(&all);
}

/* Parts are as large as members are fast, with a token at a time: the first one whose part does not
 * fit is what limits all. */
static void join_memory(const lh_fleet_map *map, const lh_team *team, lh_map_machine *made) {
    const double together_us = products_us(map, team, 1);
    lh_team_memory memory = lh_team_memory_begin();
    for (uint32_t i = 0; i < team->count; i++) {
        const lh_map_machine *member = member_of(map, team, i);
        lh_team_memory_add(&memory, member->memory_bytes, rows_us(member, 1) / together_us,
                           map->model.embedding_bytes);
    }
    made->memory_bytes = (uint64_t)memory.bytes;
    made->first_extra_bytes = lh_team_memory_first_extra(&memory, map->model.embedding_bytes);
}

/* By the same parts. 0: of one it is not known. */
static uint64_t kv_bytes(const lh_fleet_map *map, const lh_team *team) {
    uint64_t offered[LH_TEAM_MEMBERS_MAX];
    double parts[LH_TEAM_MEMBERS_MAX];
    for (uint32_t i = 0; i < team->count; i++) {
        offered[i] = member_of(map, team, i)->kv_bytes;
        parts[i] = 1 / rows_us(member_of(map, team, i), 1);
    }
    return lh_kv_need_together(&map->model.kv, offered, parts, team->count);
}

static lh_map_layers held(const lh_fleet_map *map, const lh_team *team) {
    lh_map_layers all = member_of(map, team, 0)->held;
    for (uint32_t i = 1; i < team->count; i++) {
        const lh_map_layers *own = &member_of(map, team, i)->held;
        all.first = lh_max_u32(all.first, own->first);
        all.last = lh_min_u32(all.last, own->last);
    }
    return all.first < all.last ? all : (lh_map_layers){0, 0};
}

static lh_map_layer_set cached(const lh_fleet_map *map, const lh_team *team) {
    lh_map_layer_set all = member_of(map, team, 0)->cached;
    for (uint32_t i = 1; i < team->count; i++)
        for (uint32_t w = 0; w < LH_MAP_LAYERS_MAX / 64; w++)
            all.words[w] &= member_of(map, team, i)->cached.words[w];
    return all;
}

static double largest_step_us(const lh_fleet_map *map, const lh_team *team) {
    double most = 0;
    for (uint32_t i = 0; i < team->count; i++)
        most = fmax(most, member_of(map, team, i)->step_us);
    return most;
}

/* ---- Together ---- */

static double layer_us(double products, double gathers, uint32_t rows) {
    if (rows < LH_TEAM_MANY_ROWS)
        return products + gathers;
    return fmax(products, gathers) + LH_TEAM_EXPOSED_SHARE * fmin(products, gathers);
}

void lh_team_join(const lh_fleet_map *map, const lh_team *team, lh_map_machine *joined) {
    const lh_map_machine *leader = member_of(map, team, 0);
    assert(team->count > 0 && team->count <= LH_TEAM_MEMBERS_MAX);
    const double mib = lh_team_layer_mib(&map->model);
    lh_map_machine made = *leader;
    for (uint32_t i = 0; i < leader->point_count && team->count > 1; i++) {
        uint32_t rows = leader->points[i].rows;
        double gathers = lh_team_gathers_us(map, leader->site, team->count, rows),
               us = layer_us(mib * products_us(map, team, rows), gathers, rows);
        made.points[i] = (lh_compute_point){rows, us / mib};
    }
    made.attention_us = attention_us(map, team);
    made.step_us = largest_step_us(map, team);
    made.draw_us = made.draw_more_us = 0; /* as one more matrix, which is divided as all are */
    made.kv_bytes = kv_bytes(map, team);
    if (team->count > 1)
        join_memory(map, team, &made);
    made.held = held(map, team);
    made.cached = cached(map, team);
    const lh_map_team *known = lh_fleet_map_find_team(map, team);
    if (known && known->measured.point_count > 0)
        lh_map_machine_copy_times(&made, &known->measured);
    *joined = team->count > 1 ? made : *leader;
}
