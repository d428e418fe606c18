/* A word, or a digit. */
#include "gateway/plan/team_policy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(LH_TEAM_MEMBERS_MAX == 8, "the choices end with the largest team");

lh_team_policy lh_team_policy_parse(const char *text) {
    bool is_auto = strcmp(text, "auto") == 0, is_off = strcmp(text, "off") == 0;
    return (lh_team_policy){.is_auto = is_auto,
                            .size = is_auto || is_off ? 0 : (uint32_t)strtoul(text, NULL, 10)};
}

bool lh_team_policy_makes_teams(const lh_team_policy *policy) {
    return policy->is_auto || policy->size > 1;
}

lh_status lh_team_policy_choose(const lh_team_policy *policy, const lh_fleet_map *alone,
                                const lh_aim *aim, lh_team_sizes *sizes, lh_error *error) {
    if (policy->is_auto)
        return lh_team_sizes_choose(alone, aim, sizes, error);
    *sizes = lh_team_sizes_alike(policy->size);
    return LH_OK;
}

lh_status lh_team_policy_choose_quickly(const lh_team_policy *policy, const lh_fleet_map *alone,
                                        const lh_aim *aim, lh_team_sizes *sizes, lh_error *error) {
    if (!policy->is_auto) {
        *sizes = lh_team_sizes_alike(policy->size);
        return LH_OK;
    }
    const lh_team_sizes choices[] = {lh_team_sizes_standing(alone), lh_team_sizes_alike(0),
                                     lh_team_sizes_fastest(alone, aim)};
    uint32_t best;
    lh_status status = lh_team_sizes_compare(alone, aim, choices, sizeof choices / sizeof *choices,
                                             &best, NULL, error);
    *sizes = choices[best];
    return status;
}
