/* Workers that may be planned. Pure. Thread: any. */
#pragma once

#include "gateway/fleet/link_avoidance.h"
#include "gateway/plan/layout.h"
#include "gateway/plan/team_map.h"

/* Those who would compute a stage together with a candidate, whose site they are of. */
typedef struct lh_candidate_team {
    uint32_t follower_count; /* 0: it would compute alone */
    const lh_worker *followers[LH_TEAM_MEMBERS_MAX - 1];
} lh_candidate_team;

/* In the order of their names. Pointers as those of the registry. */
typedef struct lh_candidates {
    uint32_t count;
    const lh_worker *workers[LH_WORKERS_MAX];
    lh_candidate_team teams[LH_WORKERS_MAX];
} lh_candidates;

/* All but those that leave, are excluded, not reached or passed over, each alone. */
void lh_candidates_find(const lh_registry *registry, const lh_link_avoidance *avoidance,
                        int64_t now_us, lh_candidates *candidates);
/* What a worker alone says of itself, without site and points. */
lh_map_machine lh_candidates_machine_of(const lh_worker_report *report);
/* How a team's work, and what it holds, is divided: weights[members], the leader's first, by what
 * each has measured of a token at a time; those that are nearly as fast get the same. */
void lh_candidates_weigh(const lh_worker *leader, const lh_candidate_team *team, uint32_t *weights);
/* As machines of an even split (even_split.h), by what they say of themselves: their speeds are
 * comparable, and their sites in the order of site_order. machines[candidates->count]. A team has
 * the memory that all its members have for their parts, but for the embedding, of which each has
 * the whole, and the speed of all of them together, as if their site's network took no time, and
 * room for keys and values of which each keeps its heads'. */
void lh_candidates_machines(const lh_candidates *candidates, const lh_model_profile *model,
                            const char *site_order, lh_map_machine *machines);
/* The same of others, too, behind them: all are comparable. */
void lh_candidates_machines_beside(const lh_candidates *candidates, const lh_candidates *others,
                                   const lh_model_profile *model, const char *site_order,
                                   lh_map_machine *machines);
/* Among those that lead or are alone; NULL: it is not. */
const lh_worker *lh_candidates_search(const lh_candidates *candidates, const char *name);
/* Makes candidates that are alone the teams of a map that was drawn of `alone`, whose machines they
 * are, all or some of them. False: a member of one of `needed` machines (of drawn's map; NULL: none
 * is needed) is not among them, or is to compute alone. A team of no need which lacks one is left
 * out, with those of it that are there. */
bool lh_candidates_join(lh_candidates *candidates, const lh_fleet_map *alone,
                        const lh_team_map *drawn, const lh_layout *needed);
