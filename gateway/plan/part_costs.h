/* The terms of which a layout's two figures for one size of step are sums and maxima (aim.h), so
 * that a search can put layouts together without asking the cost model for each: what a stage costs
 * for its bytes and layers, what a hop between two sites costs. They are the cost model's own: for
 * any layout the terms give what lh_aim_step says of its chain, but for rounding.
 *
 * Machines are in an order of their own, by what they are and only then by name, so that neither
 * the order of a file nor that of joining decides anything. Thread: one at a time. */
#pragma once

#include "gateway/plan/aim.h"
#include "gateway/plan/layout.h"

/* In the arrays of hops: the gateway's place. */
#define LH_PART_GATEWAY LH_MAP_SITES_MAX

typedef struct lh_part_machine {
    uint32_t index; /* in the map */
    uint32_t site;
    uint64_t memory_bytes, first_extra_bytes;
    uint32_t layers_max; /* by keys and values: lh_parts_want */
    lh_map_layers pinned;
    /* of the step */
    double mib_us;   /* for each MiB that a row meets */
    double layer_us; /* for each layer: attention */
    double fixed_us;
    double head_us;      /* at the last stage, once around */
    double head_busy_us; /* and of that, what limits how often steps come */
} lh_part_machine;

typedef struct lh_part_hop {
    double busy_us, delay_us; /* busy_us INFINITY: there is no way */
} lh_part_hop;

typedef struct lh_parts {
    const lh_model_profile *model;
    const lh_map_machine *all; /* to which the machines' indices are */
    const lh_fleet_map *map;   /* NULL: links do not count, and no hop takes any time */
    lh_kv_need kv;             /* that layers_max of the machines is of */
    uint32_t layers;
    double row_mib[LH_MAP_LAYERS_MAX + 1]; /* of the layers before this one */
    uint64_t held_bytes[LH_MAP_LAYERS_MAX + 1];
    uint32_t pinned_layers[LH_MAP_LAYERS_MAX + 1]; /* before this one, somebody is pinned to */
    uint32_t machine_count;
    lh_part_machine *machines;                                    /* owned */
    lh_part_hop hops[LH_MAP_SITES_MAX + 1][LH_MAP_SITES_MAX + 1]; /* the gateway's place is last */
} lh_parts;

/* Machines that are not excluded and have the memory for a layer at least, without costs, with the
 * room for keys and values that the map's model wants. The map has passed its check and outlives
 * the parts. LH_ERR_NO_MEMORY. */
lh_status lh_parts_create(const lh_fleet_map *map, lh_parts **parts, lh_error *error);
/* The same of machines whose links do not count: the numbers of their sites may be any, and they
 * stay in their order. Model and machines outlive the parts. */
lh_status lh_parts_create_unlinked(const lh_model_profile *model, const lh_map_machine *machines,
                                   uint32_t count, lh_parts **parts, lh_error *error);
void lh_parts_destroy(lh_parts *parts);
/* Of the model's smallest layer. */
uint64_t lh_parts_least_layer(const lh_model_profile *model);
/* From now on so much room is wanted instead. */
void lh_parts_want(lh_parts *parts, const lh_kv_need *need);
/* Sets the costs of machines. */
void lh_parts_price_machines(lh_parts *parts, const lh_aim_size *size);
/* Sets all costs, of hops as well. There is a map. */
void lh_parts_price(lh_parts *parts, const lh_aim *aim, const lh_aim_size *size);

/* ---- A stage ---- */

/* Whether the machine may have these layers: by memory, by the room for keys and
 * values, and by pins. */
bool lh_parts_may_hold(const lh_parts *parts, const lh_part_machine *machine, lh_map_layers layers);
/* Its time once around; *busy_us: the part that limits. Searches ask it a million times. */
static inline double lh_parts_stage_us(const lh_parts *parts, const lh_part_machine *machine,
                                       lh_map_layers layers, double *busy_us) {
    double us = (parts->row_mib[layers.last] - parts->row_mib[layers.first]) * machine->mib_us +
                (layers.last - layers.first) * machine->layer_us + machine->fixed_us;
    bool has_head = layers.last == parts->layers;
    *busy_us = us + (has_head ? machine->head_busy_us : 0);
    return us + (has_head ? machine->head_us : 0);
}
/* Of a hop once around. */
static inline double lh_part_hop_us(const lh_part_hop *hop) {
    return hop->busy_us + hop->delay_us;
}

/* ---- A layout ---- */

/* In the indices of `machines`: lh_parts_resolve makes them the map's. */
typedef struct lh_part_ring {
    double ring_us, busiest_us;
    lh_layout layout;
} lh_part_ring;

/* Sets both figures from the layout, in the parts' indices. */
void lh_parts_measure(const lh_parts *parts, lh_part_ring *ring);
void lh_parts_resolve(const lh_parts *parts, lh_layout *layout);
