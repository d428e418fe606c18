/* Those that stand, then the others by name. */
#include "gateway/plan/team_draw.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct draw {
    const lh_fleet_map *map;
    const lh_team_sizes *sizes;
    bool is_taken[LH_MAP_MACHINES_MAX];
    const lh_map_machine *by_name[LH_MAP_MACHINES_MAX];
    lh_team *teams;
    uint32_t count;
} draw;

lh_team_sizes lh_team_sizes_alike(uint32_t size) {
    lh_team_sizes sizes;
    for (uint32_t s = 0; s < LH_MAP_SITES_MAX; s++)
        sizes.of[s] = size;
    return sizes;
}

lh_team_sizes lh_team_sizes_standing(const lh_fleet_map *map) {
    lh_team_sizes sizes = lh_team_sizes_alike(0);
    for (uint32_t i = map->team_count; i-- > 0;) {
        const lh_team *team = &map->teams[i].team;
        if (map->teams[i].stands)
            sizes.of[map->machines[team->members[0]].site] = team->count;
    }
    return sizes;
}

static bool may_join(const lh_fleet_map *map, const lh_map_machine *machine) {
    return machine->can_join && !machine->is_excluded &&
           machine->pinned.first == machine->pinned.last &&
           map->links[machine->site][machine->site].bytes_per_us > 0 &&
           map->model.gather_row_bytes > 0;
}

uint32_t lh_team_joinable(const lh_fleet_map *map, uint32_t site) {
    uint32_t count = 0;
    for (uint32_t m = 0; m < map->machine_count; m++)
        count += map->machines[m].site == site && may_join(map, &map->machines[m]);
    return count;
}

static void settle(draw *d, const lh_team *team) {
    for (uint32_t i = 0; i < team->count; i++) {
        assert(!d->is_taken[team->members[i]]);
        d->is_taken[team->members[i]] = true;
    }
    assert(d->count < d->map->machine_count);
    d->teams[d->count++] = *team;
}

static void keep(draw *d, const lh_team *team) {
    const lh_map_machine *leader = &d->map->machines[team->members[0]];
    if (team->count < 2 || team->count != d->sizes->of[leader->site])
        return;
    for (uint32_t i = 0; i < team->count; i++) {
        const lh_map_machine *member = &d->map->machines[team->members[i]];
        if (d->is_taken[team->members[i]] || !may_join(d->map, member) ||
            member->site != leader->site)
            return;
    }
    settle(d, team);
}

/* ---- By name ---- */

static int compare_names(const void *left, const void *right) {
    const lh_map_machine *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static void sort(draw *d) {
    for (uint32_t m = 0; m < d->map->machine_count; m++)
        d->by_name[m] = &d->map->machines[m];
    qsort(d->by_name, d->map->machine_count, sizeof(const lh_map_machine *), compare_names);
}

static uint32_t index_of(const draw *d, uint32_t place) {
    return (uint32_t)(d->by_name[place] - d->map->machines);
}

/* With those of its site that come after it. */
static void join(draw *d, uint32_t place) {
    const lh_map_machine *first = d->by_name[place];
    const uint32_t size = d->sizes->of[first->site];
    lh_team team = {1, {index_of(d, place)}};
    for (uint32_t i = place + 1;
         i < d->map->machine_count && team.count < size && team.count < LH_TEAM_MEMBERS_MAX; i++) {
        const lh_map_machine *other = d->by_name[i];
        if (!d->is_taken[index_of(d, i)] && other->site == first->site && may_join(d->map, other))
            team.members[team.count++] = index_of(d, i);
    }
    if (team.count < 2 || team.count != size || !may_join(d->map, first))
        team.count = 1;
    settle(d, &team);
}

uint32_t lh_team_sizes_draw(const lh_fleet_map *map, const lh_team_sizes *sizes, lh_team *teams) {
    draw d = {.map = map, .sizes = sizes, .teams = teams};
    for (uint32_t i = 0; i < map->team_count; i++)
        if (map->teams[i].stands)
            keep(&d, &map->teams[i].team);
    assert(map->machine_count <= LH_MAP_MACHINES_MAX);
    sort(&d);
    for (uint32_t i = 0; i < map->machine_count; i++)
        if (!d.is_taken[index_of(&d, i)])
            join(&d, i);
    return d.count;
}
