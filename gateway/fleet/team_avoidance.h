/* Teams that do not form although each of their members has its part and waits for the others, and
 * whose members compute alone because of that.
 *
 *   members load .... all wait for each other ...... TEAM_PATIENCE ...| planned without the team
 *                                     ^ they are a team within milliseconds, where nothing is amiss
 *
 * The way between two members may not carry although both reach the gateway: a firewall, a wrong
 * address, somebody who holds the port of one. So the members of such a team are passed over for
 * teams (passed_list.h), and not for stages of their own. When their time is over they are on
 * probation: a handover prepares the team beside the chain that serves, where it is tried, and
 * costs nobody a request. All is forgotten when the team serves in a chain that is ready.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/handover.h"
#include "gateway/fleet/passed_list.h"

/* Since when the members of each stage of a chain wait for each other. All zero: none do. */
typedef struct lh_team_wait {
    int64_t begun_us; /* when the chain was formed, or its successor planned: which one it is */
    int64_t since_us[LH_LAYOUT_STAGES_MAX]; /* 0: they do not */
} lh_team_wait;

/* All zero: nobody is passed over, and no team was ever awaited. */
typedef struct lh_team_avoidance {
    lh_passed_list passed; /* workers that compute with nobody, and whom they waited for */
    lh_team_wait present, prepared;
} lh_team_avoidance;

/* Whether members of a forming chain's team have waited for each other for too long. To be asked at
 * each tick, since waiting counts from when it was first seen. True once, and again after another
 * patience. */
bool lh_team_avoidance_has_overdue(lh_team_avoidance *avoidance, const lh_chain *chain,
                                   const lh_registry *registry, int64_t now_us);
/* The members of all teams of a forming chain that wait for each other now compute alone for a
 * while. */
void lh_team_avoidance_pass_over(lh_team_avoidance *avoidance, const lh_chain *chain,
                                 lh_registry *registry, int64_t now_us);
/* In the log, for how long. */
void lh_team_avoidance_tell(const lh_team_avoidance *avoidance, const lh_chain *chain,
                            const lh_registry *registry, int64_t now_us);
/* They do not, since nothing can be planned without their teams. */
void lh_team_avoidance_readmit(lh_team_avoidance *avoidance, const lh_chain *chain,
                               lh_registry *registry, int64_t now_us);

/* The same of a successor's teams, with the log, at each tick: those that have waited for too long
 * are passed over. True: one was, so that the successor cannot be formed. */
bool lh_team_avoidance_pass_over_prepared(lh_team_avoidance *avoidance, const lh_handover *handover,
                                          const lh_handover_view *view, lh_registry *registry,
                                          int64_t now_us);

/* All teams of this chain have formed. */
void lh_team_avoidance_note_formed(lh_team_avoidance *avoidance, const lh_chain *chain);
/* Into the registry, whose workers are candidates for teams or not: to be called at each tick,
 * since their time may be over. */
void lh_team_avoidance_mark(const lh_team_avoidance *avoidance, lh_registry *registry,
                            int64_t now_us);
