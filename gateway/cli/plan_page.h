/* A plan as a page of text. Thread: any. */
#pragma once

#include "common/base/text_page.h"
#include "gateway/plan/idle_reason.h"
#include "gateway/plan/team_map.h"

/* What the page says; all of it is the caller's. */
typedef struct lh_plan_page {
    const lh_fleet_map *alone; /* machines alone */
    const lh_team_map *teams;  /* those that compute together are one */
    const lh_fleet_map *map;   /* teams->map */
    const lh_aim *aim;
    const lh_layout_plan *plan;
    const lh_idle_reason *idle;      /* [map->machine_count] */
    const lh_cost_chain *costs;      /* of the plan's layout */
    double first_token_us, token_us; /* by the scheduler's cost model */
    uint32_t sequences;              /* of the figures below */
    uint32_t groups;                 /* of them */
    double period_us;                /* between two tokens of each */
    /* the chain of each machine alone where there are several, and which one this is; NULL: one */
    const uint32_t *replica_of;
    uint32_t replica;
    char cut[160]; /* how the scheduler cuts the prompt */
} lh_plan_page;

/* Sets the figures from the costs. LH_ERR_NO_MEMORY. */
lh_status lh_plan_page_predict(lh_plan_page *page, lh_error *error);
/* Appends the page. LH_ERR_NO_MEMORY. */
lh_status lh_plan_page_render(const lh_plan_page *page, unsigned width, lh_text_buffer *out);
