/* Why an assignment could not be carried out, and when it is tried again: later and later, as long
 * as it is the same one; never, as long as it is the same model, where this worker cannot compute
 * that (LH_ERR_UNSUPPORTED). Plain state, begun with zeroes; the time is the owner's. */
#pragma once

#include "common/protocol/control/assignment_reply.h"

typedef struct lh_assignment_failure {
    lh_error error;              /* its status is LH_OK while there is none */
    lh_control_assignment about; /* what could not be done */
    uint64_t retry_at_ms, pause_ms;
} lh_assignment_failure;

void lh_assignment_failure_note(lh_assignment_failure *failure, const lh_error *error,
                                const lh_control_assignment *about, uint64_t now_ms);
/* The stage can never load here. */
bool lh_assignment_failure_is_final(const lh_assignment_failure *failure);
void lh_assignment_failure_forget(lh_assignment_failure *failure);
/* Whether this assignment has failed and is not to be tried yet. */
bool lh_assignment_failure_bars(const lh_assignment_failure *failure,
                                const lh_control_assignment *wanted, uint64_t now_ms);
