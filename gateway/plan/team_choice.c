/* One site after the other. */
#include "gateway/plan/team_choice.h"

#include "common/base/arithmetic.h"
#include "gateway/plan/layout_search.h"

#include <math.h>

/* Members that gain less than this stay alone: each of them can fail, and there are others to wait
 * for. */
#define GAIN_MIN 1.1
/* A choice replaces another one where it is this much better. */
#define BETTER 1.01
/* Of a prompt, the rows of a chunk. */
#define CHUNK_ROWS 128u

/* ---- One layer ---- */

static uint32_t rows_of(const lh_aim *aim) {
    return aim->goal == LH_GOAL_TTFT ? lh_min_u32(aim->prompt_rows, CHUNK_ROWS) : 1;
}

/* The first of the site with so many; count 0: there is none. */
static lh_team first_team(const lh_team_map *made, uint32_t site, uint32_t size, uint32_t *index) {
    for (*index = 0; *index < made->map.machine_count; ++*index)
        if (made->map.machines[*index].site == site && made->teams[*index].count == size)
            return made->teams[*index];
    return (lh_team){0};
}

static double fastest_us(const lh_fleet_map *map, const lh_team *team, uint32_t rows) {
    double least = INFINITY;
    for (uint32_t i = 0; i < team->count; i++)
        least = fmin(least, lh_team_layer_us(&map->model, &map->machines[team->members[i]], rows));
    return least;
}

static void judge_size(const lh_fleet_map *alone, uint32_t site, uint32_t size,
                       lh_team_verdict *verdict) {
    lh_team_sizes sizes = lh_team_sizes_alike(0);
    lh_team_map *made;
    uint32_t index;
    sizes.of[site] = size;
    if (lh_team_map_create(alone, &sizes, &made, NULL) != LH_OK)
        return;
    const lh_team team = first_team(made, site, size, &index);
    double us = team.count == 0
                    ? INFINITY
                    : lh_team_layer_us(&made->map.model, &made->map.machines[index], verdict->rows);
    if (us < verdict->together_us) {
        verdict->size = size;
        verdict->together_us = us;
        verdict->alone_us = fastest_us(alone, &team, verdict->rows);
        verdict->gathers_us = lh_team_gathers_us(alone, site, size, verdict->rows);
    }
    lh_team_map_destroy(made);
}

lh_team_verdict lh_team_judge(const lh_fleet_map *alone, const lh_aim *aim, uint32_t site,
                              uint32_t size) {
    lh_team_verdict verdict = {.joinable = lh_team_joinable(alone, site),
                               .rows = rows_of(aim),
                               .alone_us = INFINITY,
                               .together_us = INFINITY};
    uint32_t most = lh_min_u32(verdict.joinable, LH_TEAM_MEMBERS_MAX);
    for (uint32_t tried = 2; tried <= most; tried++)
        if (size == 0 || size == tried)
            judge_size(alone, site, tried, &verdict);
    return verdict;
}

lh_team_sizes lh_team_sizes_fastest(const lh_fleet_map *alone, const lh_aim *aim) {
    lh_team_sizes sizes = lh_team_sizes_alike(0);
    for (uint32_t s = 0; s < alone->site_count; s++) {
        const lh_team_verdict verdict = lh_team_judge(alone, aim, s, 0);
        if (verdict.joinable >= 2 && verdict.together_us * GAIN_MIN <= verdict.alone_us)
            sizes.of[s] = verdict.size;
    }
    return sizes;
}

/* ---- All layers ---- */

static lh_status value_of(const lh_fleet_map *alone, const lh_aim *aim, const lh_team_sizes *sizes,
                          double *value, lh_error *error) {
    lh_team_map *made;
    lh_layout_plan plan;
    lh_status status = lh_team_map_create(alone, sizes, &made, error);
    if (status != LH_OK)
        return status;
    status = lh_layout_search_quickly(&made->map, aim, &plan, error);
    *value = status == LH_OK ? plan.value : INFINITY;
    lh_team_map_destroy(made);
    return status == LH_ERR_NO_MEMORY ? status : LH_OK;
}

lh_status lh_team_sizes_compare(const lh_fleet_map *alone, const lh_aim *aim,
                                const lh_team_sizes *choices, uint32_t count, uint32_t *best,
                                double *value, lh_error *error) {
    lh_status status = LH_OK;
    double least = INFINITY;
    *best = 0;
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        double tried;
        status = value_of(alone, aim, &choices[i], &tried, error);
        if (status != LH_OK || tried * BETTER > least)
            continue;
        least = tried;
        *best = i;
    }
    if (value)
        *value = least;
    return status;
}

typedef struct climb {
    const lh_fleet_map *alone;
    const lh_aim *aim;
    lh_team_sizes best;
    double value;
    uint32_t tries;
} climb;

/* Returns whether the size is better at that site. */
static lh_status try_size(climb *c, uint32_t site, uint32_t size, bool *has_changed,
                          lh_error *error) {
    lh_team_sizes sizes = c->best;
    double value;
    if (size == c->best.of[site] || c->tries == LH_TEAM_TRIES_MAX)
        return LH_OK;
    c->tries++;
    sizes.of[site] = size;
    lh_status status = value_of(c->alone, c->aim, &sizes, &value, error);
    if (status != LH_OK || value * BETTER > c->value)
        return status;
    c->best = sizes;
    c->value = value;
    *has_changed = true;
    return LH_OK;
}

static lh_status try_site(climb *c, uint32_t site, bool *has_changed, lh_error *error) {
    uint32_t most = lh_min_u32(lh_team_joinable(c->alone, site), LH_TEAM_MEMBERS_MAX);
    lh_status status = LH_OK;
    if (most < 2)
        return LH_OK;
    status = try_size(c, site, 0, has_changed, error);
    for (uint32_t size = 2; size <= most && status == LH_OK; size++)
        status = try_size(c, site, size, has_changed, error);
    return status;
}

lh_status lh_team_sizes_choose(const lh_fleet_map *alone, const lh_aim *aim, lh_team_sizes *chosen,
                               lh_error *error) {
    const lh_team_sizes starts[] = {lh_team_sizes_alike(0), lh_team_sizes_fastest(alone, aim)};
    climb c = {.alone = alone, .aim = aim, .tries = 2};
    uint32_t start;
    bool has_changed = true;
    lh_status status = lh_team_sizes_compare(alone, aim, starts, 2, &start, &c.value, error);
    c.best = starts[start];
    while (status == LH_OK && has_changed && c.tries < LH_TEAM_TRIES_MAX) {
        has_changed = false;
        for (uint32_t s = 0; s < alone->site_count && status == LH_OK; s++)
            status = try_site(&c, s, &has_changed, error);
    }
    *chosen = c.best;
    return status;
}
