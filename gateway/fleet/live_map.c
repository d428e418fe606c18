/* Sites, machines, links, one after the other. */
#include "gateway/fleet/live_map.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/hop_bytes.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Between machines of one site that nobody has measured: a local network of 1 Gbit/s. */
#define LOCAL_BYTES_PER_US 125.0
#define LOCAL_DELAY_US     100.0
/* Between sites; of the rate see hop_bytes.h. */
#define UNKNOWN_DELAY_US 10000.0

/* What a step costs a machine of which that is not known. */
#define USUAL_STEP_US 100.0

/* What a machine takes alone, by what its team took, is at most so many times what it measured at
 * its start, or so small a part of it. */
#define ESTIMATE_FACTOR 2.0

/* Figures that are this close are the same for a plan: it would gain no more than that. */
#define DRIFT 1.1

/* The index of a site, which is added where it is not there yet; UINT32_MAX: there is no room.
 * relay: through which its machines are reached; "": directly. */
static uint32_t add_site(lh_live_map *live, const char *name, const char *relay) {
    lh_fleet_map *map = &live->map;
    for (uint32_t i = 0; i < map->site_count; i++)
        if (strcmp(live->places[i].site, name) == 0 && strcmp(live->places[i].relay, relay) == 0)
            return i;
    if (map->site_count == LH_MAP_SITES_MAX)
        return UINT32_MAX;
    uint32_t index = map->site_count++;
    snprintf(live->places[index].site, LH_NAME_BYTES, "%s", name);
    snprintf(live->places[index].relay, LH_NAME_BYTES, "%s", relay);
    if (relay[0])
        snprintf(map->sites[index], LH_NAME_BYTES, "%.28s.via.%.28s", name, relay);
    else
        snprintf(map->sites[index], LH_NAME_BYTES, "%s", name);
    return index;
}

/* ---- Machines ---- */

static void set_speed(lh_map_machine *machine, const lh_stage_speed *speed) {
    machine->point_count = speed->point_count;
    memcpy(machine->points, speed->points, sizeof machine->points);
    machine->attention_us = speed->attention_us;
    machine->step_us = speed->step_us;
    machine->draw_us = speed->draw_us;
    machine->draw_more_us = speed->draw_more_us;
}

/* Without memory and speed. relay: as of add_site. */
static lh_status add_machine(const char *name, const char *site_name, const char *relay,
                             lh_live_map *live, lh_map_machine **added, lh_error *error) {
    lh_fleet_map *map = &live->map;
    if (map->machine_count == LH_WORKERS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "there are more than %u workers", LH_WORKERS_MAX);
    uint32_t site = add_site(live, site_name, relay);
    if (site == UINT32_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "there are more than %u sites", LH_MAP_SITES_MAX);
    lh_map_machine *machine = *added = &live->machines[map->machine_count++];
    *machine = (lh_map_machine){.site = site};
    snprintf(machine->name, sizeof machine->name, "%s", name);
    return LH_OK;
}

/* Through which one its site reaches it from outside; "": directly. */
static const char *relay_of(const lh_fleet_options *options, const lh_worker_report *report) {
    const lh_worker_report *relay =
        report->is_behind_relay ? lh_relays_find(options->origin.relays, report) : NULL;
    return relay ? relay->name : "";
}

static void note_cached(const lh_fleet_options *options, const lh_worker_report *report,
                        lh_map_layer_set *cached) {
    for (uint32_t i = 0; i < report->cached_count; i++) {
        const lh_cached_layers *model = &report->cached[i];
        for (uint32_t r = 0;
             r < model->run_count && strcmp(model->model, options->model_digest) == 0; r++)
            lh_map_layer_set_add(
                cached, (lh_map_layers){model->runs[r].first,
                                        lh_min_u32(model->runs[r].last, options->model->layers)});
    }
}

/* Which process it is, what that has loaded and on its disk, and whether others may compute with
 * it. */
static void note_process(const lh_fleet_options *options, const lh_worker *worker,
                         lh_live_map *live, uint32_t machine) {
    const lh_worker_report *report = &worker->report;
    live->instances[machine] = report->instance;
    live->machines[machine].can_join = report->member_address[0] && !worker->is_alone;
    note_cached(options, report, &live->machines[machine].cached);
    if (report->loaded.present && report->loaded.last_layer <= options->model->layers &&
        strcmp(report->loaded.model, options->model_digest) == 0)
        live->machines[machine].held =
            (lh_map_layers){report->loaded.first_layer, report->loaded.last_layer};
}

/* Of a worker that has measured nothing alone, but with others. */
static bool is_of_team(const lh_stage_speeds *speeds, const lh_worker_report *report) {
    return lh_machine_speed_is_known(&report->speed) && lh_stage_speeds_with(speeds, report->name);
}

/* Without a speed, where that is known of a team alone: estimate_alone. */
static lh_status add_measured(const lh_fleet_options *options, const lh_worker *worker,
                              const lh_stage_speeds *speeds, lh_live_map *live, lh_error *error) {
    const lh_worker_report *report = &worker->report;
    lh_stage_speed speed;
    lh_map_machine *machine;
    bool is_known = lh_stage_speeds_find(speeds, report, &speed);
    if (!is_known && !is_of_team(speeds, report))
        return LH_OK;
    lh_status status =
        add_machine(report->name, report->site, relay_of(options, report), live, &machine, error);
    if (status != LH_OK)
        return status;
    machine->memory_bytes = report->memory_bytes;
    machine->kv_bytes = report->kv_bytes;
    if (is_known)
        set_speed(machine, &speed);
    note_process(options, worker, live, live->map.machine_count - 1);
    return LH_OK;
}

/* A machine that has computed in a team takes alone what it measured at its start, as many times as
 * its team's products take longer than those of as many such machines would. */
static double alone_us(const lh_live_map *live, const lh_map_machine *machine,
                       const lh_stage_speed *team, uint32_t rows, double start_us) {
    const uint32_t members = team->follower_count + 1;
    lh_map_machine together = {.point_count = team->point_count};
    memcpy(together.points, team->points, sizeof together.points);
    double all_us = lh_team_layer_us(&live->map.model, &together, rows) -
                    lh_team_gathers_us(&live->map, machine->site, members, rows),
           part_us = lh_team_layer_mib(&live->map.model) * start_us / members;
    return start_us * fmin(fmax(all_us / part_us, 1 / ESTIMATE_FACTOR), ESTIMATE_FACTOR);
}

static void estimate_alone(const lh_worker_report *report, const lh_stage_speeds *speeds,
                           lh_live_map *live, lh_map_machine *machine) {
    const lh_stage_speed *team = lh_stage_speeds_with(speeds, report->name);
    lh_map_machine_set_speed(machine, &report->speed);
    for (uint32_t i = 0; i < machine->point_count; i++)
        machine->points[i].us =
            alone_us(live, machine, team, machine->points[i].rows, machine->points[i].us);
    machine->attention_us = team->attention_us * (team->follower_count + 1);
    machine->step_us = team->step_us;
}

static void estimate_others(const lh_candidates *candidates, const lh_stage_speeds *speeds,
                            lh_live_map *live) {
    for (uint32_t i = 0; i < candidates->count; i++) {
        const lh_worker_report *report = &candidates->workers[i]->report;
        uint32_t machine = lh_fleet_map_find_machine(&live->map, report->name);
        if (machine != UINT32_MAX && live->machines[machine].point_count == 0)
            estimate_alone(report, speeds, live, &live->machines[machine]);
    }
}

/* ---- Links ---- */

static lh_map_link link_of(const lh_link_value *value) {
    double rate = lh_hop_planned_rate(value->bytes_per_us, value->bytes_per_us_is_bound);
    return (lh_map_link){rate > 0 ? rate : LH_HOP_UNKNOWN_BYTES_PER_US,
                         (double)value->round_trip_us / 2};
}

/* As the fleet calls it: the gateway may have no site. */
static const char *site_of(const lh_fleet_options *options, const lh_live_map *live,
                           uint32_t site) {
    return site == live->map.gateway_site ? options->origin.site : live->places[site].site;
}

static bool read_link(const lh_fleet_options *options, const char *from, const char *to,
                      lh_link_value *value) {
    return options->links && lh_link_matrix_read(options->links, from, to, value);
}

/* Between machines that reach each other. */
static lh_map_link find_direct_link(const lh_fleet_options *options, const char *from,
                                    const char *to) {
    lh_link_value value;
    if (read_link(options, from, to, &value))
        return link_of(&value);
    if (strcmp(from, to) == 0)
        return (lh_map_link){LOCAL_BYTES_PER_US, LOCAL_DELAY_US};
    /* What goes there is small, so that its rate hardly matters. */
    if (strcmp(from, options->origin.site) == 0 && read_link(options, to, from, &value))
        return link_of(&value);
    return (lh_map_link){0};
}

static lh_map_link find_link(const lh_fleet_options *options, const lh_live_map *live,
                             uint32_t from, uint32_t to) {
    const char *from_site = site_of(options, live, from), *to_site = site_of(options, live, to);
    lh_map_link link = find_direct_link(options, from_site, to_site);
    bool is_relayed = live->places[to].relay[0] && strcmp(from_site, to_site) != 0;
    if (!is_relayed)
        return link;
    lh_map_link inside = find_direct_link(options, to_site, to_site);
    return (lh_map_link){fmin(link.bytes_per_us, inside.bytes_per_us),
                         link.delay_us + inside.delay_us};
}

static void add_links(const lh_fleet_options *options, lh_live_map *live) {
    lh_fleet_map *map = &live->map;
    for (uint32_t from = 0; from < map->site_count; from++)
        for (uint32_t to = 0; to < map->site_count; to++)
            map->links[from][to] = find_link(options, live, from, to);
}

void lh_live_map_begin(const lh_fleet_options *options, lh_live_map *live) {
    lh_fleet_map *map = &live->map;
    *live = (lh_live_map){.map.machines = live->machines, .map.teams = live->teams};
    map->gateway_site =
        add_site(live, options->origin.site[0] ? options->origin.site : "gateway", "");
    map->model = *options->model;
}

lh_status lh_live_map_add(const lh_fleet_options *options, const lh_candidates *candidates,
                          const lh_stage_speeds *speeds, lh_live_map *live, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < candidates->count && status == LH_OK; i++)
        status = add_measured(options, candidates->workers[i], speeds, live, error);
    add_links(options, live);
    estimate_others(candidates, speeds, live);
    return status;
}

lh_status lh_live_map_make(const lh_fleet_options *options, const lh_candidates *candidates,
                           const lh_stage_speeds *speeds, lh_live_map *live, lh_error *error) {
    lh_live_map_begin(options, live);
    lh_status status = lh_live_map_add(options, candidates, speeds, live, error);
    if (status == LH_OK && live->map.machine_count == 0)
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "no stage has measured anything yet");
    return status;
}

/* ---- What is not known ---- */

static void assume_links(lh_fleet_map *map) {
    for (uint32_t from = 0; from < map->site_count; from++)
        for (uint32_t to = 0; to < map->site_count; to++)
            if (map->links[from][to].bytes_per_us == 0)
                map->links[from][to] = (lh_map_link){LH_HOP_UNKNOWN_BYTES_PER_US, UNKNOWN_DELAY_US};
}

/* machine: with its points; it may lie where it is added. */
static lh_status add_offer(const lh_map_machine *machine, const char *site, const char *relay,
                           lh_live_map *live, lh_error *error) {
    const lh_map_machine offered = *machine;
    lh_map_machine *added;
    lh_status status = add_machine(offered.name, site, relay, live, &added, error);
    if (status != LH_OK)
        return status;
    const uint32_t number = added->site;
    *added = offered;
    added->site = number;
    added->step_us = USUAL_STEP_US;
    return LH_OK;
}

lh_status lh_live_map_offer(const lh_fleet_options *options, const lh_map_machine *machines,
                            const char *const *sites, uint32_t count, lh_live_map *live,
                            lh_error *error) {
    lh_status status = LH_OK;
    lh_live_map_begin(options, live);
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        status = add_offer(&machines[i], sites[i], "", live, error);
    add_links(options, live);
    assume_links(&live->map);
    return status;
}

bool lh_live_map_is_of_stages(const lh_candidates *candidates, const lh_stage_speeds *speeds) {
    lh_stage_speed speed;
    for (uint32_t i = 0; i < candidates->count; i++)
        if (!lh_stage_speeds_find(speeds, &candidates->workers[i]->report, &speed) &&
            !is_of_team(speeds, &candidates->workers[i]->report))
            return false;
    return true;
}

static lh_status add_offers(const lh_fleet_options *options, const lh_candidates *candidates,
                            lh_live_map *live, lh_error *error) {
    lh_status status = LH_OK;
    assert(live->map.machine_count == 0);
    lh_candidates_machines(candidates, options->model, options->aim.sites, live->machines);
    for (uint32_t i = 0; i < candidates->count && status == LH_OK; i++) {
        const lh_worker *worker = candidates->workers[i];
        status = add_offer(&live->machines[i], worker->report.site,
                           relay_of(options, &worker->report), live, error);
        if (status == LH_OK)
            note_process(options, worker, live, i);
    }
    add_links(options, live);
    return status;
}

/* Those who lead come first. */
static lh_candidates dissolve_teams(const lh_candidates *candidates) {
    lh_candidates all = *candidates;
    memset(all.teams, 0, sizeof all.teams);
    for (uint32_t i = 0; i < candidates->count; i++)
        for (uint32_t k = 0; k < candidates->teams[i].follower_count; k++)
            all.workers[all.count++] = candidates->teams[i].followers[k];
    return all;
}

/* Of machines that are in the order of dissolve_teams. */
static void join_teams(const lh_candidates *candidates, lh_live_map *live) {
    uint32_t next = candidates->count;
    for (uint32_t i = 0; i < candidates->count; i++) {
        lh_team team = {1, {i}};
        lh_map_machine joined;
        for (uint32_t k = 0; k < candidates->teams[i].follower_count; k++)
            team.members[team.count++] = next++;
        lh_team_join(&live->map, &team, &joined);
        live->machines[i] = joined;
    }
    live->map.machine_count = candidates->count;
    live->map.team_count = 0;
}

lh_status lh_live_map_assume(const lh_fleet_options *options, const lh_candidates *candidates,
                             const lh_stage_speeds *speeds, lh_live_map *live, lh_error *error) {
    const lh_candidates all = dissolve_teams(candidates);
    if (candidates->count == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "no worker is registered");
    const bool has_measured = lh_live_map_is_of_stages(&all, speeds);
    lh_live_map_begin(options, live);
    lh_status status = has_measured ? lh_live_map_add(options, &all, speeds, live, error)
                                    : add_offers(options, &all, live, error);
    assume_links(&live->map);
    if (status == LH_OK && has_measured)
        lh_live_map_note_teams(live, speeds, NULL);
    if (status == LH_OK)
        join_teams(candidates, live);
    return status;
}

/* ---- Teams ---- */

static bool find_team(const lh_live_map *live, const lh_stage_speed *names, lh_team *team) {
    *team = (lh_team){.count = names->follower_count + 1};
    for (uint32_t i = 0; i < team->count; i++) {
        team->members[i] =
            lh_fleet_map_find_machine(&live->map, i == 0 ? names->worker : names->followers[i - 1]);
        if (team->members[i] == UINT32_MAX)
            return false;
    }
    return team->count > 1;
}

/* The one of these members, which is added where it is not there yet; NULL: there is no room, or
 * one of them is not in the map. */
static lh_map_team *place_team(lh_live_map *live, const lh_stage_speed *names) {
    lh_team team;
    if (!find_team(live, names, &team))
        return NULL;
    const lh_map_team *known = lh_fleet_map_find_team(&live->map, &team);
    if (known)
        return &live->teams[known - live->teams];
    if (live->map.team_count == LH_LIVE_TEAMS_MAX)
        return NULL;
    lh_map_team *added = &live->teams[live->map.team_count++];
    *added = (lh_map_team){.team = team};
    return added;
}

void lh_live_map_note_teams(lh_live_map *live, const lh_stage_speeds *speeds,
                            const lh_chain *chain) {
    for (uint32_t i = 0; chain && i < chain->stage_count; i++) {
        const lh_stage_speed names = lh_stage_speeds_names(&chain->stages[i]);
        lh_map_team *team = place_team(live, &names);
        if (team)
            team->stands = true;
    }
    for (uint32_t i = 0; i < speeds->count; i++) {
        lh_map_team *team = place_team(live, &speeds->speeds[i]);
        if (team)
            set_speed(&team->measured, &speeds->speeds[i]);
    }
}

bool lh_live_map_layout(const lh_live_map *live, const lh_chain *chain, lh_layout *layout) {
    *layout = (lh_layout){.stage_count = chain->stage_count};
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        const lh_chain_stage *stage = &chain->stages[s];
        uint32_t machine = lh_fleet_map_find_machine(&live->map, stage->name);
        if (machine == UINT32_MAX || live->instances[machine] != stage->instance)
            return false;
        layout->stages[s] = (lh_layout_stage){machine, {stage->first_layer, stage->last_layer}};
    }
    return true;
}

/* ---- Drift ---- */

static bool differ(double a, double b) {
    return fmax(a, b) > DRIFT * fmin(a, b);
}

static bool machine_differs(const lh_map_machine *machine, const lh_map_machine *before) {
    bool differs =
        strcmp(machine->name, before->name) != 0 || machine->memory_bytes != before->memory_bytes ||
        machine->kv_bytes != before->kv_bytes || machine->can_join != before->can_join ||
        machine->point_count != before->point_count || machine->held.first != before->held.first ||
        machine->held.last != before->held.last;
    for (uint32_t i = 0; i < machine->point_count && !differs; i++)
        differs = machine->points[i].rows != before->points[i].rows ||
                  differ(machine->points[i].us, before->points[i].us);
    return differs;
}

/* Sites are the same ones where machines and their sites are. */
static bool link_differs(const lh_fleet_map *map, const lh_fleet_map *before, uint32_t from,
                         uint32_t to) {
    const lh_map_link *now = &map->links[from][to], *then = &before->links[from][to];
    return differ(now->bytes_per_us, then->bytes_per_us) ||
           (differ(now->delay_us, then->delay_us) &&
            fabs(now->delay_us - then->delay_us) > LOCAL_DELAY_US);
}

bool lh_live_map_has_drifted(const lh_live_map *live, const lh_live_map *before) {
    const lh_fleet_map *map = &live->map;
    if (map->machine_count != before->map.machine_count ||
        map->site_count != before->map.site_count)
        return true;
    for (uint32_t s = 0; s < map->site_count; s++)
        if (strcmp(map->sites[s], before->map.sites[s]) != 0)
            return true;
    for (uint32_t m = 0; m < map->machine_count; m++)
        if (live->instances[m] != before->instances[m] ||
            map->machines[m].site != before->map.machines[m].site ||
            machine_differs(&map->machines[m], &before->map.machines[m]))
            return true;
    for (uint32_t from = 0; from < map->site_count; from++)
        for (uint32_t to = 0; to < map->site_count; to++)
            if (link_differs(map, &before->map, from, to))
                return true;
    return false;
}
