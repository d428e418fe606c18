/* A worker that is leaving: it serves until the gateway lets it go, or seems to be gone itself.
 * Plain state, begun with zeroes. Thread: the owner's. */
#pragma once

#include "common/protocol/control/assignment_reply.h"

typedef struct lh_departure {
    bool is_leaving;
    char reason[LH_REPORT_ERROR_BYTES]; /* what the gateway last said of it; "": nothing */
    uint32_t failures;                  /* reports in a row that were not delivered */
} lh_departure;

/* An answer has come. True: it may go. */
bool lh_departure_hear(lh_departure *departure, const lh_assignment_reply *answer);
/* A report was not delivered. True: it may go, since it holds no assignment, or since the gateway
 * counts as gone. */
bool lh_departure_note_failure(lh_departure *departure, bool has_assignment);
