/* Workers that are passed over for a while: PASSED_OVER_US at first, twice as long each time again,
 * PASSED_OVER_MAX_US at most, until they are forgotten, since they have served. What plans do
 * without is the owner's to say: the worker itself (link_avoidance.h), or its part in a team
 * (team_avoidance.h).
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/registry.h"

typedef struct lh_passed_over {
    char worker[LH_WORKER_NAME_BYTES];
    int64_t until_us, pause_us;
    char reason[LH_ERROR_MESSAGE_BYTES];
} lh_passed_over;

/* All zero: nobody is passed over. */
typedef struct lh_passed_list {
    lh_passed_over workers[LH_WORKERS_MAX]; /* also those whose time is over, for their pauses */
    uint32_t count;
} lh_passed_list;

/* The worker is passed over for a while. Returns for how long. */
int64_t lh_passed_list_add(lh_passed_list *list, const char *worker, const char *reason,
                           int64_t now_us);
/* It works, or is no longer what it was: if it fails again, the first pause is short. */
void lh_passed_list_forget(lh_passed_list *list, const char *worker);
/* Nobody is passed over for now, since whoever is there is needed; pauses go on growing. */
void lh_passed_list_relent(lh_passed_list *list);
/* NULL: it is not passed over now. Valid until the next call that is not const. */
const lh_passed_over *lh_passed_list_find(const lh_passed_list *list, const char *worker,
                                          int64_t now_us);
/* Whether it is passed over, or was and has not been forgotten since. */
bool lh_passed_list_has(const lh_passed_list *list, const char *worker);
/* One of those that are passed over now; NULL: nobody is. Valid as above. */
const lh_passed_over *lh_passed_list_any(const lh_passed_list *list, int64_t now_us);
