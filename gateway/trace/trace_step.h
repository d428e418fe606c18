/* One step of traced requests: when the gateway formed it and heard of it, the times that its
 * workers reported, and how the clocks stood. Made when the step is over, and never changed; shared
 * by the traces of all requests whose rows it held. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step.h"
#include "common/protocol/step_times.h"
#include "gateway/trace/clock_alignment.h"

#include <stdatomic.h>

#define LH_TRACE_PLAN_BYTES 96u

/* The rows of a request in a step. */
typedef struct lh_trace_part {
    uint64_t trace; /* the request's number */
    uint32_t first_position, rows;
    uint32_t draws;  /* tokens that are sampled for it */
    uint32_t shared; /* positions before its first rows, which others had computed */
    /* With its first rows: how its prompt is cut, and how long that is expected to take; "" and 0:
     * not known. */
    char plan[LH_TRACE_PLAN_BYTES];
    int64_t predicted_us;
} lh_trace_part;

typedef struct lh_trace_step {
    atomic_uint holders;
    uint32_t epoch;
    uint64_t step;
    lh_step_class step_class;
    uint32_t rows; /* of all requests */
    lh_status status;
    int64_t formed_us, submitted_us; /* by the gateway's clock */
    int64_t results_us;              /* when its results came; 0: they did not */
    int64_t answered_us;
    /* of the ring: one more than there are workers; 0: no times came */
    uint32_t hop_count;
    /* [hop_count]: hop i's far clock against its near one, as known when the step ended */
    const lh_clock_bounds *hops;
    /* [believed_count]: what each stage was believed to compute for it; 0: that is not known */
    uint32_t believed_count;
    const double *believed_us;
    size_t frames_bytes;
    const uint8_t *frames; /* times frames: all of them are sound */
} lh_trace_step;

/* A copy of `content`, with arrays of its own, held once. NULL: out of memory. */
lh_trace_step *lh_trace_step_create(const lh_trace_step *content);
lh_trace_step *lh_trace_step_acquire(lh_trace_step *step);
void lh_trace_step_release(lh_trace_step *step);
size_t lh_trace_step_bytes(const lh_trace_step *step);

/* The shard of `from` that holds the beginning of one that `to` took; NULL: it is not listed. */
const lh_step_shard_given *lh_trace_find_given(const lh_step_times *from,
                                               const lh_step_shard_taken *taken);
/* base + offset in the worker's clock; 0: it did not happen. */
int64_t lh_trace_moment(const lh_step_times *times, uint32_t offset_us);
