/* Looking now and then: the figures come once around the ring after the last token, which is soon.
 */
#include "gateway/openai/timing.h"

#include "common/base/clock.h"
#include "gateway/trace/trace_json.h"

#include <assert.h>

#define LOOK_US 2000
/* Longer than any ring takes; without them the answer tells what there is. */
#define WAIT_US 3000000

void lh_openai_timing_open(lh_openai_timing *timing, lh_trace_store *store, const char *id,
                           const char *request_id, int64_t received_us, uint32_t prompt_tokens,
                           bool is_wanted) {
    assert(!timing->store);
    if (!store)
        return;
    *timing = (lh_openai_timing){.store = store, .is_wanted = is_wanted};
    timing->trace = lh_trace_store_open(store, id, request_id, received_us);
    lh_trace_store_note_tokens(store, timing->trace, prompt_tokens, lh_clock_us());
}

void lh_openai_timing_end(lh_openai_timing *timing) {
    if (timing->trace)
        lh_trace_store_note_end(timing->store, timing->trace, lh_clock_us());
}

bool lh_openai_timing_waits(const lh_openai_timing *timing) {
    return timing->until_us != 0;
}

bool lh_openai_timing_ready(lh_openai_timing *timing, json_t **figures, int64_t *again_us) {
    *figures = NULL;
    if (!timing->is_wanted || !timing->trace)
        return true;
    int64_t now_us = lh_clock_us();
    if (timing->until_us == 0)
        timing->until_us = now_us + WAIT_US;
    if (now_us < timing->until_us && !lh_trace_store_is_settled(timing->store, timing->trace)) {
        *again_us = now_us + LOOK_US;
        return false;
    }
    *figures = lh_trace_json_timing(timing->store, timing->trace);
    return true;
}
