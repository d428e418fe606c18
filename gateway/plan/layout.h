/* A chain with its layers: which machine computes which layers, in the order of the chain; and the
 * chain of the scheduler's cost model that it becomes. Thread: any. */
#pragma once

#include "common/protocol/wire_type.h"
#include "gateway/cost/cost_model.h"
#include "gateway/plan/fleet_map.h"

#define LH_LAYOUT_STAGES_MAX LH_COST_STAGES_MAX

/* As a stage's machine: the stage has none. */
#define LH_LAYOUT_NOBODY UINT32_MAX

typedef struct lh_layout_stage {
    uint32_t machine; /* index into the map's machines, or the caller's workers */
    lh_map_layers layers;
} lh_layout_stage;

typedef struct lh_layout {
    uint32_t stage_count;
    lh_layout_stage stages[LH_LAYOUT_STAGES_MAX];
} lh_layout;

/* The chain as the cost model wants it; every link that the layout uses is there. */
void lh_layout_costs(const lh_layout *layout, const lh_fleet_map *map, lh_wire_type wire,
                     lh_cost_chain *costs);
/* Whether all layers follow each other, each machine is there once and has the memory, and one page
 * for keys and values, without which it loads nothing, pins are kept, and every link is there. */
bool lh_layout_is_sound(const lh_layout *layout, const lh_fleet_map *map);
typedef struct lh_head_costs {
    double draw_us, draw_more_us; /* of the first row that draws a token, and of each further one */
} lh_head_costs;

/* What the head takes on a machine: as measured, else as one more matrix. */
lh_head_costs lh_layout_head_costs(const lh_model_profile *model, const lh_map_machine *machine);
/* Whether the machine has the memory for these layers. */
bool lh_layout_has_room(const lh_model_profile *model, const lh_map_machine *machine,
                        lh_map_layers layers);
/* What a stage must hold, with the embedding or the head where it is the first or the last. */
uint64_t lh_layout_stage_bytes(const lh_model_profile *model, lh_map_layers layers);
/* Whether the machine has the memory for these layers, and so much room for keys and values. */
bool lh_layout_stage_fits(const lh_model_profile *model, const lh_map_machine *machine,
                          lh_map_layers layers, const lh_kv_need *need);
/* Pages for keys and values that all stages have room for; UINT32_MAX: nobody knows. */
uint32_t lh_layout_kv_pages(const lh_fleet_map *map, const lh_layout *layout);
/* Of the bytes that a stage must hold, what the machine has neither in its memory nor on its disk.
 * Embedding and head go with the first and the last layer. */
uint64_t lh_layout_moved_bytes(const lh_fleet_map *map, const lh_layout_stage *stage);
/* What it has to load, from its disk or as it comes: nothing, or, where it does not hold this very
 * stage in its memory, all of it. */
uint64_t lh_layout_loaded_bytes(const lh_fleet_map *map, const lh_layout_stage *stage);
/* How long it takes until all stages are there: what is on no disk of theirs comes from the
 * gateway, to all of them at once, and then each loads its own: the longest that one of them takes.
 * Every link from the gateway is there. */
double lh_layout_loading_us(const lh_fleet_map *map, const lh_layout *layout);
