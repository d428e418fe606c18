/* A pause that doubles. */
#include "worker/control/assignment_failure.h"

#include "common/base/log.h"

#include <inttypes.h>
#include <string.h>

#define RETRY_FIRST_MS 1000u
#define RETRY_LAST_MS  30000u

bool lh_assignment_failure_is_final(const lh_assignment_failure *failure) {
    return failure->error.status == LH_ERR_UNSUPPORTED;
}

static bool is_about(const lh_assignment_failure *failure, const lh_control_assignment *wanted) {
    if (lh_assignment_failure_is_final(failure))
        return strcmp(failure->about.model.header_sha256, wanted->model.header_sha256) == 0;
    return failure->error.status != LH_OK && lh_control_is_same_assignment(&failure->about, wanted);
}

void lh_assignment_failure_note(lh_assignment_failure *failure, const lh_error *error,
                                const lh_control_assignment *about, uint64_t now_ms) {
    uint64_t pause_ms = is_about(failure, about) ? failure->pause_ms * 2 : RETRY_FIRST_MS;
    failure->pause_ms = pause_ms < RETRY_LAST_MS ? pause_ms : RETRY_LAST_MS;
    failure->retry_at_ms = now_ms + failure->pause_ms;
    failure->error = *error;
    failure->about = *about;
    if (lh_assignment_failure_is_final(failure)) {
        failure->retry_at_ms = UINT64_MAX;
        lh_log(LH_LOG_ERROR, "assignment", "this worker cannot compute the model reason=\"%s\"",
               error->message);
        return;
    }
    lh_log(LH_LOG_ERROR, "assignment", "failed, trying again in %" PRIu64 " ms reason=\"%s\"",
           failure->pause_ms, error->message);
}

void lh_assignment_failure_forget(lh_assignment_failure *failure) {
    failure->error.status = LH_OK;
}

bool lh_assignment_failure_bars(const lh_assignment_failure *failure,
                                const lh_control_assignment *wanted, uint64_t now_ms) {
    return is_about(failure, wanted) && now_ms < failure->retry_at_ms;
}
