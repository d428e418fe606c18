/* How many machines of each site compute each layer together: one behind the other, or by two, by
 * three...: whatever the aim is best with. More of them make each layer faster as long as their own
 * network is fast beside their products; and for prompts a chain of as many machines is busy all
 * along as well, without gathers. So layouts are searched with either, and compared by the cost
 * model.
 *
 * Pure functions of a map of machines alone, which has passed its check, and the aim. Thread:
 * any. */
#pragma once

#include "gateway/plan/aim.h"
#include "gateway/plan/team_map.h"

/* What is known of one site's choice. Times are of one layer, for `rows` rows. */
typedef struct lh_team_verdict {
    uint32_t joinable; /* machines that may join others; below 2 there is nothing to choose */
    uint32_t size;     /* 2 or more: the one with which a layer is fastest */
    uint32_t rows;
    double alone_us;    /* the fastest member of such a team alone */
    double together_us; /* all of them, */
    double gathers_us;  /* and of that what they give each other takes by itself */
} lh_team_verdict;

/* By names, the first team of that site. joinable and rows alone are set where there is nothing to
 * choose, or no memory to look. size: of that one; 0: of whichever is fastest. */
lh_team_verdict lh_team_judge(const lh_fleet_map *alone, const lh_aim *aim, uint32_t site,
                              uint32_t size);
/* Of each site the size of its verdict, where that makes a layer clearly faster. Searches for
 * nothing. */
lh_team_sizes lh_team_sizes_fastest(const lh_fleet_map *alone, const lh_aim *aim);
/* The best of `count` choices, by layouts that are searched quickly; INFINITY in *value (NULL: not
 * wanted): with none of them there is a layout. Equally good ones: the first. LH_ERR_NO_MEMORY. */
lh_status lh_team_sizes_compare(const lh_fleet_map *alone, const lh_aim *aim,
                                const lh_team_sizes *choices, uint32_t count, uint32_t *best,
                                double *value, lh_error *error);
/* From the better of machines alone and the fastest sizes, site after site to whatever is better
 * there, until nothing is: LH_TEAM_TRIES_MAX layouts at most. LH_ERR_NO_MEMORY. */
#define LH_TEAM_TRIES_MAX 96u
lh_status lh_team_sizes_choose(const lh_fleet_map *alone, const lh_aim *aim, lh_team_sizes *chosen,
                               lh_error *error);
