/* What a plan is made from: a model, machines at sites, and the links between every two sites.
 * Plain values; where they come from is the caller's affair. Thread: any. */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"
#include "common/protocol/measurements.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_MAP_LAYERS_MAX   512u
#define LH_MAP_SITES_MAX    64u
#define LH_MAP_MACHINES_MAX 4096u

typedef struct lh_map_model {
    uint32_t layers, width;
    uint64_t layer_bytes[LH_MAP_LAYERS_MAX]; /* what each one holds */
    /* of them, what one row is multiplied with: less where it goes to some of many experts */
    uint64_t row_bytes[LH_MAP_LAYERS_MAX];
    uint64_t embedding_bytes; /* the first stage holds them too */
    uint64_t head_bytes;      /* the last stage holds them too, and a row that draws meets them */
} lh_map_model;

/* Layers [first, last); first == last: none. */
typedef struct lh_map_layers {
    uint32_t first, last;
} lh_map_layers;

typedef struct lh_map_machine {
    char name[LH_NAME_BYTES];
    uint32_t site;
    uint64_t memory_bytes; /* for weights */
    /* the time of a step of so many rows for each MiB of weights: between and beyond them as in
     * lh_compute_profile */
    uint32_t point_count;
    lh_compute_point points[LH_COMPUTE_POINTS_MAX];
    double attention_us;  /* of each row, for each position before it, in each layer */
    double step_us;       /* of each step, outside of the arithmetic */
    lh_map_layers held;   /* on its disk or in its memory: they need not be sent */
    lh_map_layers pinned; /* it is to have these and no others */
    bool is_excluded;     /* it is not to be used */
} lh_map_machine;

typedef struct lh_map_link {
    double bytes_per_us; /* one way; 0: there is no way */
    double delay_us;     /* one way */
} lh_map_link;

typedef struct lh_fleet_map {
    lh_map_model model;
    uint32_t site_count, gateway_site;
    char sites[LH_MAP_SITES_MAX][LH_NAME_BYTES];
    /* from the first to the second; of a site to itself: between its machines */
    lh_map_link links[LH_MAP_SITES_MAX][LH_MAP_SITES_MAX];
    lh_map_machine *machines; /* [machine_count], the caller's */
    uint32_t machine_count;
} lh_fleet_map;

/* Whether a plan can be made from these numbers. LH_ERR_INVALID: which one is impossible, of which
 * machine or link; LH_ERR_UNAVAILABLE: there is no machine. */
lh_status lh_fleet_map_check(const lh_fleet_map *map, lh_error *error);
/* Points from the two figures that a machine measures of itself. */
void lh_map_machine_set_speed(lh_map_machine *machine, const lh_machine_speed *speed);
/* The index of a name, or UINT32_MAX. */
uint32_t lh_fleet_map_find_site(const lh_fleet_map *map, const char *name);
uint32_t lh_fleet_map_find_machine(const lh_fleet_map *map, const char *name);
