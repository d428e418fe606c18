/* A plan: which machine has which layers, in the order of the chain; and what the scheduler's cost
 * model says of it. Thread: any. */
#pragma once

#include "common/protocol/wire_type.h"
#include "gateway/cost/cost_model.h"
#include "gateway/plan/fleet_map.h"

#define LH_LAYOUT_STAGES_MAX LH_COST_STAGES_MAX

typedef struct lh_layout_stage {
    uint32_t machine; /* index into the map's */
    lh_map_layers layers;
} lh_layout_stage;

typedef struct lh_layout {
    uint32_t stage_count;
    lh_layout_stage stages[LH_LAYOUT_STAGES_MAX];
} lh_layout;

/* The chain as the cost model wants it; every link that the layout uses is there. */
void lh_layout_costs(const lh_layout *layout, const lh_fleet_map *map, lh_wire_type wire,
                     lh_cost_chain *costs);
/* Whether all layers follow each other, each machine is there once and has the memory, pins are
 * kept, and every link is there. */
bool lh_layout_is_sound(const lh_layout *layout, const lh_fleet_map *map);
/* What a stage must hold, with the embedding or the head where it is the first or the last. */
uint64_t lh_layout_stage_bytes(const lh_map_model *model, lh_map_layers layers);
/* Of that, what the machine does not hold yet. Embedding and head go with the first and the last
 * layer. */
uint64_t lh_layout_moved_bytes(const lh_fleet_map *map, const lh_layout_stage *stage);
