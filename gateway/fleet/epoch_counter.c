/* Seconds, or one more than the last. */
#include "gateway/fleet/epoch_counter.h"

#include <assert.h>

/* A day of seconds: a clock that was ahead and has been set back, or a chain that was formed again
 * and again. A worker that reports more is not believed, or it could let the numbers jump, and end.
 * Where an earlier gateway was further ahead, its numbers are not met for as long. */
#define LEAD_MAX 86400u

void lh_epoch_counter_init(lh_epoch_counter *counter, uint32_t first, uint32_t stride,
                           uint32_t offset, int64_t now_us) {
    assert(offset < (stride ? stride : 1));
    *counter = (lh_epoch_counter){
        .first = first, .stride = stride ? stride : 1, .offset = offset, .created_us = now_us};
}

static uint32_t by_clock(const lh_epoch_counter *counter, int64_t now_us) {
    return counter->first + (uint32_t)((now_us - counter->created_us) / 1000000);
}

uint32_t lh_epoch_counter_next(const lh_epoch_counter *counter, int64_t now_us) {
    uint32_t clock = by_clock(counter, now_us), stride = counter->stride;
    uint32_t epoch = clock > counter->last ? clock : counter->last + 1;
    return epoch + (stride + counter->offset - epoch % stride) % stride;
}

void lh_epoch_counter_take(lh_epoch_counter *counter, uint32_t epoch) {
    assert(epoch > counter->last);
    assert(epoch % counter->stride == counter->offset);
    counter->last = epoch;
}

void lh_epoch_counter_skip(lh_epoch_counter *counter, uint64_t reported, int64_t now_us) {
    if (reported > counter->last && reported < (uint64_t)by_clock(counter, now_us) + LEAD_MAX)
        counter->last = (uint32_t)reported;
}
