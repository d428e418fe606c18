/* Two counts, each with its allowance. */
#include "common/http2/conduct.h"

enum {
    FAULTS_FREE = 64,       /* faults a peer may make at once ... */
    FAULTS_PER_STREAMS = 8, /* ... and one more for this many streams that ended well */
    RESETS_FREE = 500,      /* a fleet cancels what is in flight */
    RESETS_PER_STREAMS = 2
};

static lh_status spend(const lh_h2_conduct *conduct, uint64_t spent, uint64_t free,
                       uint64_t per_streams, const char *what, lh_error *error) {
    if (spent <= free + conduct->completed / per_streams)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT, "the peer made %llu %s", (unsigned long long)spent, what);
}

lh_status lh_h2_conduct_count_fault(lh_h2_conduct *conduct, lh_error *error) {
    return spend(conduct, ++conduct->faults, FAULTS_FREE, FAULTS_PER_STREAMS, "protocol faults",
                 error);
}

lh_status lh_h2_conduct_count_reset(lh_h2_conduct *conduct, lh_error *error) {
    return spend(conduct, ++conduct->resets, RESETS_FREE, RESETS_PER_STREAMS, "resets of streams",
                 error);
}
