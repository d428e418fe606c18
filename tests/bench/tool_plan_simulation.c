/* Plans for fleets in regions of the world, beside today's split in the order of names, the same in
 * orders at random, and the bound; and 64 workers in 8 regions beside the same machines in one
 * place. Everything is computed by the cost model: `plan_simulation`. That no plan is better with
 * few machines is tested (tests/gateway/plan).
 *
 * Links between regions are those of tests/support/region_links.h. A home is assumed to be 18 ms
 * from the region next to it, with 20 Mbit/s out and 200 in, as cable has it. */
#include "gateway/plan/even_split.h"
#include "gateway/plan/layout_search.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/region_links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MACHINES 1000u
#define ORDERS   20u
#define FLEETS   3u

static lh_map_link link_of(double gbps, double round_trip_ms) {
    return (lh_map_link){gbps * 125, round_trip_ms * 500};
}

static lh_map_link link_between(uint32_t a, uint32_t b) {
    const region_link link = region_link_between(a, b);
    return link_of(link.gbit_per_s, link.round_trip_ms);
}

/* ---- Fleets ---- */

/* 80 layers of 500 MB: the shapes of a model of 70 billion weights of 4.5 bits. */
static void set_model(lh_fleet_map *map) {
    lh_model_profile *model = &map->model;
    model->layers = 80;
    model->width = 8192;
    model->embedding_bytes = 590000000;
    model->head_bytes = 860000000;
    for (uint32_t i = 0; i < model->layers; i++)
        model->layer_bytes[i] = model->row_bytes[i] = i % 8 == 0 ? 560000000 : 490000000;
}

/* Those regions, and as many homes next to them. */
static void set_sites(lh_fleet_map *map, uint64_t *seed, uint32_t count, uint32_t homes) {
    uint32_t order[REGIONS], near[LH_MAP_SITES_MAX];
    for (uint32_t i = 0; i < REGIONS; i++) {
        uint32_t j = (uint32_t)(test_random(seed) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    map->site_count = count + homes;
    for (uint32_t s = 0; s < map->site_count; s++) {
        near[s] = order[s < count ? s : (s - count) % count];
        snprintf(map->sites[s], sizeof map->sites[s], s < count ? "%s" : "%s-home%u",
                 region_names[near[s]], s);
    }
    for (uint32_t a = 0; a < map->site_count; a++)
        for (uint32_t b = 0; b < map->site_count; b++) {
            lh_map_link link = link_between(near[a], near[b]);
            double gbps = link.bytes_per_us / 125, ms = link.delay_us / 500;
            if (a == b)
                gbps = a < count ? 2 : 1;
            else if (a >= count || b >= count) {
                gbps = fmin(gbps, a >= count ? 0.02 : 0.2);
                ms += 18.0 * ((a >= count) + (b >= count));
            }
            map->links[a][b] = link_of(gbps, ms);
        }
}

/* Of four classes of speed; memory_gb on average. */
static void set_machines(lh_fleet_map *map, uint64_t *seed, uint32_t count, double memory_gb) {
    static const double speeds[] = {1, 1, 1.6, 2.5};
    map->machine_count = count;
    for (uint32_t m = 0; m < count; m++) {
        lh_map_machine *machine = &map->machines[m];
        double slow = speeds[test_random(seed) % 4];
        double memory = memory_gb * (0.6 + 0.2 * (double)(test_random(seed) % 5));
        *machine = (lh_map_machine){.site = m % map->site_count,
                                    .memory_bytes = (uint64_t)(memory * 1e9),
                                    .step_us = 150,
                                    .attention_us = 0.002 * slow};
        snprintf(machine->name, sizeof machine->name, "w%03u",
                 (unsigned)(test_random(seed) % 1000) * 1000 + m);
        lh_map_machine_set_speed(machine, &(lh_machine_speed){0.15 * slow, 5 * slow});
    }
}

/* ---- Others' plans ---- */

/* Today's: the order of sites as told, all machines that fit, layers by speed. INFINITY: none. */
static double split_value(const lh_fleet_map *map, const lh_aim *aim, const char *sites) {
    static lh_map_machine machines[MACHINES];
    const char *names[MACHINES];
    const lh_aim even = {.goal = LH_GOAL_EVEN, .sites = sites};
    lh_even_split *split;
    lh_layout layout;
    for (uint32_t m = 0; m < map->machine_count; m++) {
        machines[m] = map->machines[m];
        names[m] = map->sites[map->machines[m].site];
    }
    lh_even_order_sites(machines, names, map->machine_count, sites);
    if (lh_even_split_create(&map->model, machines, map->machine_count, &even, &split, NULL) !=
        LH_OK)
        exit(1);
    lh_status status = lh_even_split_find_all(split, &layout, NULL);
    lh_even_split_destroy(split);
    if (status != LH_OK)
        return INFINITY;
    static lh_cost_chain chain;
    lh_layout_costs(&layout, map, aim->wire, &chain);
    return lh_aim_judge(aim, &chain, NULL);
}

static int by_value(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The median of orders of sites at random. */
static double random_value(const lh_fleet_map *map, const lh_aim *aim, uint64_t *seed) {
    double values[ORDERS];
    for (uint32_t i = 0; i < ORDERS; i++) {
        char sites[LH_MAP_SITES_MAX * LH_NAME_BYTES] = "";
        bool is_listed[LH_MAP_SITES_MAX] = {false};
        for (uint32_t s = 0; s < map->site_count; s++) {
            uint32_t next = (uint32_t)(test_random(seed) % map->site_count);
            while (is_listed[next])
                next = (next + 1) % map->site_count;
            is_listed[next] = true;
            snprintf(sites + strlen(sites), sizeof sites - strlen(sites), "%s%s", s ? "," : "",
                     map->sites[next]);
        }
        values[i] = split_value(map, aim, sites);
    }
    qsort(values, ORDERS, sizeof *values, by_value);
    return values[ORDERS / 2];
}

/* ---- Tables ---- */

static const lh_aim aims[] = {
    {.goal = LH_GOAL_TTFT, .prompt_rows = 2048, .wire = LH_WIRE_F16},
    {.goal = LH_GOAL_TPOT, .prompt_rows = 2048, .position = 2048, .wire = LH_WIRE_F16},
    {.goal = LH_GOAL_THROUGHPUT,
     .prompt_rows = 2048,
     .position = 2048,
     .sequences_max = 64,
     .wire = LH_WIRE_F16},
};

typedef lh_status search_function(const lh_fleet_map *map, const lh_aim *aim, lh_layout_plan *plan,
                                  lh_error *error);

static double plan_value(search_function *search, const lh_fleet_map *map, const lh_aim *aim,
                         double *bound, double *ms, uint32_t *stages) {
    lh_layout_plan plan;
    lh_error error;
    clock_t begin = clock();
    if (search(map, aim, &plan, &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    *ms = (double)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
    *bound = plan.bound.value;
    *stages = plan.layout.stage_count;
    return plan.value;
}

/* One line: the mean of ratios over some fleets. */
static void compare(lh_fleet_map *map, uint32_t machines, uint32_t count, uint32_t homes,
                    double memory_gb) {
    for (size_t a = 0; a < sizeof aims / sizeof aims[0]; a++) {
        uint64_t seed = machines;
        double named = 0, random = 0, bound_sum = 0, worst_ms = 0, stages_sum = 0, quick = 0,
               quick_ms = 0;
        for (uint32_t fleet = 0; fleet < FLEETS; fleet++) {
            double bound, ms;
            uint32_t stages;
            set_sites(map, &seed, count, homes);
            set_machines(map, &seed, machines, memory_gb);
            double hasty =
                plan_value(lh_layout_search_quickly, map, &aims[a], &bound, &ms, &stages);
            quick_ms = fmax(quick_ms, ms);
            double value = plan_value(lh_layout_search, map, &aims[a], &bound, &ms, &stages);
            quick += hasty / value / FLEETS;
            named += split_value(map, &aims[a], "") / value / FLEETS;
            random += random_value(map, &aims[a], &seed) / value / FLEETS;
            bound_sum += value / bound / FLEETS;
            worst_ms = fmax(worst_ms, ms);
            stages_sum += (double)stages / FLEETS;
        }
        printf("| %u | %u + %u | %.1f | %s | %.1f | %.2f | %.2f | %.2f | %.0f | %.2f | %.0f |\n",
               machines, count, homes, memory_gb, lh_goal_name(aims[a].goal), stages_sum, named,
               random, bound_sum, worst_ms, quick, quick_ms);
        fflush(stdout);
    }
}

/* The same machines, all in one region. */
static void compare_with_one_place(lh_fleet_map *map, double memory_gb) {
    for (size_t a = 0; a < sizeof aims / sizeof aims[0]; a++) {
        uint64_t seed = 64;
        double bound, ms, apart_sum = 0, sites_sum = 0, worst = 0;
        uint32_t stages;
        for (uint32_t fleet = 0; fleet < FLEETS; fleet++) {
            lh_layout_plan plan;
            set_sites(map, &seed, 8, 0);
            set_machines(map, &seed, 64, memory_gb);
            if (lh_layout_search(map, &aims[a], &plan, NULL) != LH_OK)
                exit(1);
            uint64_t visited = 0;
            for (uint32_t s = 0; s < plan.layout.stage_count; s++)
                visited |= UINT64_C(1) << map->machines[plan.layout.stages[s].machine].site;
            for (uint32_t m = 0; m < 64; m++)
                map->machines[m].site = 0;
            double together = plan_value(lh_layout_search, map, &aims[a], &bound, &ms, &stages);
            apart_sum += plan.value / together / FLEETS;
            worst = fmax(worst, plan.value / together);
            sites_sum += (double)__builtin_popcountll(visited) / FLEETS;
        }
        printf("| %.1f | %s | %.1f | %.2f | %.2f |\n", memory_gb, lh_goal_name(aims[a].goal),
               sites_sum, apart_sum, worst);
    }
}

int main(void) {
    static lh_map_machine machines[MACHINES];
    static lh_fleet_map map;
    set_model(&map);
    map.machines = machines;
    puts("How many times as long as the plan's: a mean over 3 fleets.\n");
    puts("| machines | regions + homes | GB each | objective | stages | order of names | orders at "
         "random | plan / bound | ms, at most | plan made at once | ms, at most |\n"
         "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    compare(&map, 8, 2, 0, 12);
    compare(&map, 8, 4, 2, 12);
    compare(&map, 64, 8, 0, 12);
    compare(&map, 64, 8, 0, 1.6);
    compare(&map, 64, 8, 8, 6);
    compare(&map, 256, 8, 0, 6);
    compare(&map, 1000, 8, 0, 6);
    puts("\n64 machines in 8 regions, beside the same ones in one.\n");
    puts("| GB each | objective | regions used | times as long | at most |\n"
         "| --- | --- | --- | --- | --- |");
    compare_with_one_place(&map, 12);
    compare_with_one_place(&map, 3);
    compare_with_one_place(&map, 1.2);
    return 0;
}
