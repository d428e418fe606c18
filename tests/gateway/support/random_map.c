/* splitmix64, and nothing that depends on the machine. */
#include "tests/gateway/support/random_map.h"

#include "tests/support/gguf_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

static uint32_t below(uint64_t *seed, uint32_t count) {
    return (uint32_t)(test_random(seed) % count);
}

/* Even on a scale of powers. */
static double between(uint64_t *seed, double low, double high) {
    double share = (double)(test_random(seed) >> 11) / 9007199254740992.0;
    return low * pow(high / low, share);
}

static void make_model(uint64_t *seed, uint32_t layers_max, lh_model_profile *model) {
    bool is_even = below(seed, 2) == 0;
    uint64_t bytes = (uint64_t)(between(seed, 2, 200) * MIB);
    *model =
        (lh_model_profile){.layers = 1 + below(seed, layers_max), .width = 512u << below(seed, 4)};
    for (uint32_t i = 0; i < model->layers; i++) {
        model->layer_bytes[i] = is_even ? bytes : bytes + below(seed, (uint32_t)(bytes / 3));
        model->row_bytes[i] = model->layer_bytes[i];
    }
    model->embedding_bytes = bytes * below(seed, 4);
    model->head_bytes = bytes * below(seed, 4);
}

static void make_machine(uint64_t *seed, const lh_fleet_map *map, uint32_t index,
                         lh_map_machine *machine) {
    const lh_model_profile *model = &map->model;
    double token_us = between(seed, 20, 160);
    uint64_t all = model->embedding_bytes + model->head_bytes;
    for (uint32_t i = 0; i < model->layers; i++)
        all += model->layer_bytes[i];
    *machine = (lh_map_machine){.site = below(seed, map->site_count),
                                .memory_bytes = (uint64_t)((double)all * between(seed, 0.15, 2)),
                                .attention_us = between(seed, 0.001, 0.05),
                                .step_us = between(seed, 20, 400)};
    snprintf(machine->name, sizeof machine->name, "m%u", index);
    lh_map_machine_set_speed(machine,
                             &(lh_machine_speed){token_us / between(seed, 2, 12), token_us});
    /* Drawing takes more than the head's matrix alone; every other machine has measured it. */
    if (index % 2 == 1) {
        machine->draw_us = 1.2 * token_us * (double)model->head_bytes / 1048576;
        machine->draw_more_us = machine->draw_us / 3;
    }
}

static void make_links(uint64_t *seed, lh_fleet_map *map) {
    for (uint32_t a = 0; a < map->site_count; a++)
        for (uint32_t b = 0; b < map->site_count; b++) {
            bool is_inside = a == b;
            map->links[a][b].bytes_per_us = is_inside ? 125 : between(seed, 1.25, 125);
            map->links[a][b].delay_us = is_inside ? 60 : between(seed, 500, 100000);
            if (!is_inside && below(seed, 40) == 0)
                map->links[a][b].bytes_per_us = 0;
        }
}

void random_map_make(uint64_t *seed, uint32_t machines_max, uint32_t sites_max, uint32_t layers_max,
                     lh_fleet_map *map) {
    memset(map, 0, sizeof *map);
    make_model(seed, layers_max, &map->model);
    map->site_count = 1 + below(seed, sites_max);
    map->gateway_site = below(seed, map->site_count);
    for (uint32_t s = 0; s < map->site_count; s++)
        snprintf(map->sites[s], sizeof map->sites[s], "site%u", s);
    make_links(seed, map);
    map->machine_count = 1 + below(seed, machines_max);
    map->machines = calloc(map->machine_count, sizeof *map->machines);
    if (!map->machines)
        abort();
    for (uint32_t m = 0; m < map->machine_count; m++)
        make_machine(seed, map, m, &map->machines[m]);
}

static void shuffle(uint64_t *seed, uint32_t count, uint32_t *order) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = below(seed, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

void random_map_shuffle(uint64_t *seed, const lh_fleet_map *map, lh_fleet_map *shuffled) {
    uint32_t sites[LH_MAP_SITES_MAX], machines[LH_MAP_MACHINES_MAX], place[LH_MAP_SITES_MAX];
    shuffle(seed, map->site_count, sites);
    shuffle(seed, map->machine_count, machines);
    *shuffled = *map;
    shuffled->machines = calloc(map->machine_count, sizeof *shuffled->machines);
    if (!shuffled->machines)
        abort();
    for (uint32_t s = 0; s < map->site_count; s++) {
        place[sites[s]] = s;
        memcpy(shuffled->sites[s], map->sites[sites[s]], sizeof shuffled->sites[s]);
        for (uint32_t t = 0; t < map->site_count; t++)
            shuffled->links[s][t] = map->links[sites[s]][sites[t]];
    }
    shuffled->gateway_site = place[map->gateway_site];
    for (uint32_t m = 0; m < map->machine_count; m++) {
        shuffled->machines[m] = map->machines[machines[m]];
        shuffled->machines[m].site = place[shuffled->machines[m].site];
    }
}

void random_map_bound_kv(uint64_t *seed, lh_fleet_map *map) {
    map->model.kv = (lh_kv_need){.position_bytes = 1000, .heads = 4, .pages = 1 + below(seed, 40)};
    for (uint32_t m = 0; m < map->machine_count; m += 2) {
        uint32_t layers = below(seed, map->model.layers + 1);
        map->machines[m].kv_bytes = 1 + lh_kv_need_layer_bytes(&map->model.kv) * layers;
    }
}

void random_map_reset(lh_fleet_map *map) {
    free(map->machines);
    map->machines = NULL;
}
