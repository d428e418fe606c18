/* What both sides do with a report's texts. */
#include "worker/api/worker_report.h"

#include <string.h>

void lh_worker_report_set_error(lh_worker_report *report, const char *message) {
    size_t length = strlen(message), capacity = sizeof(report->assignment.error);
    length = length < capacity ? length : capacity - 1;
    while (length > 0 && ((unsigned char)message[length] & 0xc0u) == 0x80u) {
        length--;
    }
    memcpy(report->assignment.error, message, length);
    report->assignment.error[length] = '\0';
}

const char *lh_worker_stage_state_name(lh_worker_stage_state state) {
    static const char *const names[] = {"idle", "fetching", "loading", "ready", "failed"};
    return names[state];
}
