/* What a plan's page says of machines that compute each layer together: who they are, what it
 * brings, and of sites where they could and do not, why. Thread: any. */
#pragma once

#include "common/base/text_page.h"
#include "gateway/plan/team_choice.h"

#define LH_PLAN_TEAM_NAME_BYTES (LH_NAME_BYTES + 16)

/* "alpha", or "alpha +2" of one that leads two others. */
void lh_plan_team_name(const lh_team_map *made, uint32_t machine,
                       char text[LH_PLAN_TEAM_NAME_BYTES]);
/* A line for each site that has two or more machines which may join; nothing where none has. */
void lh_plan_teams_put(lh_text_page *page, const lh_fleet_map *alone, const lh_team_map *made,
                       const lh_aim *aim);
