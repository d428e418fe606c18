/* What both sides do with a report's texts. */
#include "common/protocol/worker_report.h"

#include <string.h>

void lh_worker_report_copy_error(char error[LH_REPORT_ERROR_BYTES], const char *message) {
    size_t length = strlen(message);
    length = length < LH_REPORT_ERROR_BYTES ? length : LH_REPORT_ERROR_BYTES - 1;
    while (length > 0 && ((unsigned char)message[length] & 0xc0u) == 0x80u)
        length--;
    memcpy(error, message, length);
    error[length] = '\0';
}

const char *lh_worker_stage_state_name(lh_worker_stage_state state) {
    static const char *const names[] = {"idle", "fetching", "loading", "ready", "failed"};
    return names[state];
}

const char *lh_hop_trial_state_name(lh_hop_trial_state state) {
    static const char *const names[] = {"none", "running", "proven", "failed"};
    return names[state];
}
