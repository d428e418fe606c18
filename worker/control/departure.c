/* The gateway's word, or its silence. */
#include "worker/control/departure.h"

#include "common/base/log.h"

#include <string.h>

/* After this many undelivered reports in a row the gateway counts as gone rather than restarting,
 * and a worker that leaves no longer waits for its answer. */
#define FAILURES_OF_ONE_GONE 3

/* A gateway that does not know `leave` takes the assignment away instead. */
bool lh_departure_hear(lh_departure *departure, const lh_assignment_reply *answer) {
    departure->failures = 0;
    if (!departure->is_leaving)
        return false;
    bool may_go =
        answer->has_leave ? answer->may_go : answer->is_planned && !answer->has_assignment;
    if (answer->has_leave && strcmp(answer->leave_reason, departure->reason) != 0) {
        memcpy(departure->reason, answer->leave_reason, sizeof departure->reason);
        lh_log(LH_LOG_INFO, "assignment", "leaving may_go=%d reason=\"%s\"", may_go,
               departure->reason);
    }
    return may_go;
}

bool lh_departure_note_failure(lh_departure *departure, bool has_assignment) {
    departure->failures++;
    return departure->is_leaving &&
           (departure->failures >= FAILURES_OF_ONE_GONE || !has_assignment);
}
