/* --tensor-parallel: how many machines of a site compute each layer together. Thread: any. */
#pragma once

#include "gateway/plan/team_choice.h"

typedef struct lh_team_policy {
    bool is_auto;  /* as many as the cost model finds best for each site (team_choice.h) */
    uint32_t size; /* else so many, where there are so many; 0, 1: each is alone */
} lh_team_policy;

/* What is to be written in a table of options, and what it means. */
#define LH_TEAM_POLICY_CHOICES "auto|off|2|3|4|5|6|7|8"
lh_team_policy lh_team_policy_parse(const char *text);
/* Whether there may be teams at all. */
bool lh_team_policy_makes_teams(const lh_team_policy *policy);
/* Takes as long as the searches of team_choice.h. LH_ERR_NO_MEMORY. */
lh_status lh_team_policy_choose(const lh_team_policy *policy, const lh_fleet_map *alone,
                                const lh_aim *aim, lh_team_sizes *sizes, lh_error *error);
/* The same at once: of an automatic policy the best of those that stand, of none, and of those with
 * which a layer is fastest: three searches of layout_search.h's quick ones at most. */
lh_status lh_team_policy_choose_quickly(const lh_team_policy *policy, const lh_fleet_map *alone,
                                        const lh_aim *aim, lh_team_sizes *sizes, lh_error *error);
