/* The text of GET /fleet: workers, chain, links and queue as they are now. Thread: the engine's. */
#pragma once

#include "gateway/engine/router.h"
#include "gateway/engine/self_description.h"
#include "gateway/fleet/port/control_json.h"
#include "gateway/membership/member_list.h"

/* What only the engine knows of the fleet. */
typedef struct lh_fleet_view {
    const char *state; /* "loading", "ready", "no_chain", "draining" */
    uint32_t sequences_max, queue_max;
    const lh_member_list
        *members; /* with certificates of the gateway's own CA; NULL: it has none */
    lh_self_description self;
    const lh_fleet_options *numbers;            /* what they say of how stages compute */
    lh_hop_profile first_hops[LH_REPLICAS_MAX]; /* of each chain; not present: there is none */
} lh_fleet_view;

/* A malloc'd text, which the caller frees; NULL: out of memory. */
char *lh_fleet_view_render(const lh_router *router, const lh_fleet_model *model,
                           const lh_fleet_view *view, int64_t now_us);
