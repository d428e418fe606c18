/* The gateway's answers to a worker's reports: what is taken must be what a worker can act upon. */
#include "common/protocol/control/assignment_reply.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lh_assignment_reply answer;
    lh_error error = {.status = LH_OK};
    if (lh_assignment_reply_parse((const char *)data, size, &answer, &error) != LH_OK) {
        if (error.message[0] == '\0')
            abort();
        return 0;
    }
    const lh_control_assignment *a = &answer.assignment;
    if (answer.renew_ms < 1 || answer.lease_ms < 1)
        abort();
    if (answer.has_assignment &&
        (a->first_layer >= a->last_layer || a->last_layer > a->layers || a->rows_max < 1 ||
         a->steps_max < 1 || !lh_name_is_valid(a->chain) || strlen(a->model.header_sha256) != 64 ||
         a->activations[0] == '\0' || a->kv_type[0] == '\0')) {
        abort();
    }
    return 0;
}
