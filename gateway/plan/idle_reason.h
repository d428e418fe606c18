/* Why a machine is not in a plan. Pure. Thread: any. */
#pragma once

#include "gateway/plan/layout_search.h"

typedef enum lh_idle_cause {
    LH_IDLE_NOT,      /* it is in the plan */
    LH_IDLE_EXCLUDED, /* it was asked for without it */
    LH_IDLE_MEMORY,   /* it has no room for a single layer */
    LH_IDLE_KV,       /* nor for the keys and values that one is to keep */
    LH_IDLE_NO_WAY,   /* no place in the ring has links there and away */
    LH_IDLE_NO_ROOM,  /* every place would cost a stage of one layer, a pin or the bound */
    LH_IDLE_NO_GAIN   /* with it the aim's value would be this */
} lh_idle_cause;

typedef struct lh_idle_reason {
    lh_idle_cause cause;
    double value;          /* NO_GAIN: with the best place for it and one layer there */
    uint64_t needed_bytes; /* MEMORY: of the smallest layer; KV: of each layer */
} lh_idle_reason;

/* reasons[machine_count], for the map's machines. LH_ERR_NO_MEMORY. */
lh_status lh_idle_reasons_find(const lh_fleet_map *map, const lh_aim *aim,
                               const lh_layout_plan *plan, lh_idle_reason *reasons,
                               lh_error *error);
