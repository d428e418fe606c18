/* Counts, each with its allowance. */
#include "common/http2/conduct.h"

enum {
    FAULTS_FREE = 64,       /* faults a peer may make at once ... */
    FAULTS_PER_STREAMS = 8, /* ... and one more for this many streams that ended well */
    RESETS_FREE = 500,      /* a fleet cancels what is in flight */
    RESETS_PER_STREAMS = 2,
    IDLE_FREE = 1000,
    IDLE_PER_S = 100,
    BYTES_PER_IDLE = 256
};

/* Of frames (RFC 9113, 6). */
enum { DATA = 0, HEADERS = 1, CONTINUATION = 9, END_STREAM = 1, PADDED = 8, PADDING_MAX = 256 };

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

/* ---- Frames that carry nothing ---- */

/* A DATA frame that may be padding alone counts, too: it makes nobody do anything but read it. */
static bool is_idle(const lh_h2_frame_header *frame) {
    if (frame->type == DATA)
        return !(frame->flags & END_STREAM) &&
               (frame->length == 0 || (frame->flags & PADDED && frame->length <= PADDING_MAX));
    return frame->type != HEADERS && frame->type != CONTINUATION;
}

static void earn(lh_h2_conduct *conduct, uint64_t frames) {
    conduct->idle -= frames < conduct->idle ? frames : conduct->idle;
}

lh_status lh_h2_conduct_count_frame(lh_h2_conduct *conduct, const lh_h2_frame_header *frame,
                                    lh_error *error) {
    if (frame->type == HEADERS)
        earn(conduct, 1);
    if (!is_idle(frame) || ++conduct->idle <= IDLE_FREE)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "the peer floods the connection with frames that carry nothing, at last of type "
                   "%u",
                   frame->type);
}

void lh_h2_conduct_note_sent(lh_h2_conduct *conduct, size_t bytes) {
    conduct->sent_bytes += bytes;
    earn(conduct, conduct->sent_bytes / BYTES_PER_IDLE);
    conduct->sent_bytes %= BYTES_PER_IDLE;
}

void lh_h2_conduct_note_time(lh_h2_conduct *conduct, uint64_t passed_ms) {
    earn(conduct, passed_ms * IDLE_PER_S / 1000);
}
