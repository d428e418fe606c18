/* Counts, each with its allowance. */
#include "common/http2/conduct.h"

enum {
    FAULTS_FREE = 64,       /* faults a peer may make at once ... */
    FAULTS_PER_STREAMS = 8, /* ... and one more for this many streams that ended well */
    RESETS_FREE = 500,      /* a fleet cancels what is in flight */
    RESETS_PER_STREAMS = 2,
    IDLE_FREE = 1000,
    IDLE_PER_S = 100,
    BYTES_PER_IDLE = 256,
    FIELD_OVERHEAD = 32, /* RFC 9113, 6.5.2 */
    HEADER_BYTES_FREE = 256 << 10,
    COST_OF_UNSEEN_BYTE = 8,
    HEADER_BYTES_PER_MS = (2 << 20) / 1000
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

static void earn(uint64_t *taken, uint64_t earned) {
    *taken -= earned < *taken ? earned : *taken;
}

lh_status lh_h2_conduct_count_frame(lh_h2_conduct *conduct, const lh_h2_frame_header *frame,
                                    lh_error *error) {
    if (frame->type == HEADERS)
        earn(&conduct->idle, 1);
    if (!is_idle(frame) || ++conduct->idle <= IDLE_FREE)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "the peer floods the connection with frames that carry nothing, at last of type "
                   "%u",
                   frame->type);
}

/* ---- Header fields ---- */

static lh_status check_header_bytes(const lh_h2_conduct *conduct, lh_error *error) {
    if (conduct->header_bytes <= HEADER_BYTES_FREE)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT, "the peer floods the connection with headers");
}

lh_status lh_h2_conduct_count_block_frame(lh_h2_conduct *conduct, bool begins_block, size_t length,
                                          lh_error *error) {
    uint64_t bytes = (uint64_t)length * COST_OF_UNSEEN_BYTE;
    if (begins_block)
        conduct->unseen_bytes = conduct->block_bytes = 0;
    conduct->unseen_bytes += bytes;
    conduct->header_bytes += bytes;
    return check_header_bytes(conduct, error);
}

void lh_h2_conduct_end_block(lh_h2_conduct *conduct) {
    earn(&conduct->header_bytes, conduct->unseen_bytes);
    conduct->unseen_bytes = 0;
}

lh_status lh_h2_conduct_count_field(lh_h2_conduct *conduct, size_t name_length, size_t value_length,
                                    size_t block_bytes_max, lh_error *error) {
    uint64_t bytes = FIELD_OVERHEAD + (uint64_t)name_length + value_length;
    conduct->block_bytes += bytes;
    conduct->header_bytes += bytes;
    if (conduct->block_bytes > block_bytes_max)
        return lh_fail(error, LH_ERR_LIMIT,
                       "the headers of one request or answer are over %zu bytes", block_bytes_max);
    return check_header_bytes(conduct, error);
}

/* ---- What is earned ---- */

void lh_h2_conduct_note_sent(lh_h2_conduct *conduct, size_t bytes) {
    conduct->sent_bytes += bytes;
    earn(&conduct->idle, conduct->sent_bytes / BYTES_PER_IDLE);
    conduct->sent_bytes %= BYTES_PER_IDLE;
}

void lh_h2_conduct_note_time(lh_h2_conduct *conduct, uint64_t passed_ms) {
    earn(&conduct->idle, passed_ms * IDLE_PER_S / 1000);
    earn(&conduct->header_bytes, passed_ms * HEADER_BYTES_PER_MS);
}
