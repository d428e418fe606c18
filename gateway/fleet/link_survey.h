/* Which pair of workers measures its link next. The hops of a chain are measured by what they
 * carry; of all other pairs of sites nothing would ever be known, and a planner could not tell
 * whether another order of the sites would be better. So one pair at a time is told to connect, to
 * let the connection's probes find out what it carries (link_warmup.h), and to close it again.
 *
 * - The pair of sites of which the oldest figure is known goes first, and one of which none is
 *   before it. Each is surveyed once, since what a hop has carried by then may be too little to
 *   tell. A figure is good for LH_LINK_FRESH_US; a pair that could not be measured, or whose probes
 *   filled nothing, waits as long.
 * - Where no worker is at the gateway's site, the gateway stands for it: the others connect to its
 *   port. The way back is taken for what this one is (live_map.h).
 * - Two spares if there are, else workers of a chain that no sequence needs; others only for a pair
 *   of which nothing is known at all.
 * - Nothing is surveyed while a chain forms or is prepared: what there is belongs to that.
 * - The budget: so many bytes an hour for the whole fleet, a bucket of an hour's share. A survey
 *   takes out what it may send at most, and what it has not sent comes back with its result. And a
 *   pair rests until what it has sent was no more than a hundredth of the link's time.
 *
 * Pure; thread: one at a time. */
#pragma once

#include "gateway/fleet/link_matrix.h"
#include "gateway/fleet/registry.h"

/* How much the rest of the fleet needs a worker. */
typedef enum lh_survey_use { LH_SURVEY_SPARE, LH_SURVEY_IDLE, LH_SURVEY_BUSY } lh_survey_use;

typedef struct lh_survey_machine {
    const lh_worker_report *report;
    lh_survey_use use;
} lh_survey_machine;

typedef struct lh_survey_task {
    char from[LH_WORKER_NAME_BYTES];
    lh_way to; /* to whom that one connects; to the gateway: to its port, without an address */
    uint64_t bytes_max; /* of probes */
} lh_survey_task;

typedef struct lh_link_survey {
    lh_link_matrix *links;
    const char *gateway_site;
    double bytes_per_us, bytes_left; /* of the budget */
    uint64_t bytes_most;
    int64_t counted_us; /* bytes_left as of then */
    int64_t look_us;    /* when to look again for a pair */
    uint32_t dice;      /* any worker of a site, so that one that cannot is not asked again */
    bool is_running;
    lh_survey_task task;
    char from_site[LH_WORKER_NAME_BYTES], to_site[LH_WORKER_NAME_BYTES];
    int64_t begun_us;
} lh_link_survey;

/* bytes_per_hour: 0: nothing is surveyed. Matrix and text outlive it. */
void lh_link_survey_init(lh_link_survey *survey, lh_link_matrix *links, const char *gateway_site,
                         uint64_t bytes_per_hour);
/* A worker's report, which may have the result. */
void lh_link_survey_take(lh_link_survey *survey, const lh_worker_report *report, int64_t now_us);
/* Whether it is time for _look, so that nobody collects machines in vain. */
bool lh_link_survey_is_due(const lh_link_survey *survey, int64_t now_us);
/* Ends a survey that is overdue or no longer wanted, and begins the next one. is_quiet: no chain
 * forms, and none is prepared. */
void lh_link_survey_look(lh_link_survey *survey, const lh_survey_machine *machines, uint32_t count,
                         bool is_quiet, int64_t now_us);
/* What this worker is to measure; NULL: nothing. Valid until the next call. */
const lh_survey_task *lh_link_survey_task(const lh_link_survey *survey, const char *worker);
