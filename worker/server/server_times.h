/* What a worker notes of one timed step, and the answer that it makes of it. Private to server*.c. Thread: the loop's. */
#pragma once

#include "worker/api/step.h"
#include "worker/api/step_times.h"
#include "worker/pipeline/pipeline.h"

typedef struct lh_server_times lh_server_times;

typedef enum lh_server_moment {
    LH_MOMENT_MANIFEST,
    LH_MOMENT_BODY_END,
    LH_MOMENT_SUBMITTED, /* downstream */
    LH_MOMENT_PASSED,    /* the next hop has answered */
    LH_MOMENT_ANSWERED
} lh_server_moment;

/* first_byte_us: when the step's body began to come. NULL: out of memory. */
lh_server_times *lh_server_times_create(const char *worker, int64_t first_byte_us);
/* NULL is allowed. */
void lh_server_times_destroy(lh_server_times *times);

/* Each of these takes NULL for a step that is not timed. */

/* This happened now. */
void lh_server_times_note(lh_server_times *times, lh_server_moment moment);
void lh_server_times_came(lh_server_times *times, const lh_step_shard_header *shard);
void lh_server_times_worked(lh_server_times *times, const lh_pipeline_span *span);
/* The shard that was emitted last is handed to the next hop, as so many bytes. */
void lh_server_times_handed(lh_server_times *times, size_t bytes);
/* Of all that was handed, so many bytes still wait in the stream; is_all: there will be no more. */
void lh_server_times_queued(lh_server_times *times, size_t queued_bytes, bool is_all);
/* The frames of the workers behind this one: copied, cut at a frame's border where they are too much. */
void lh_server_times_passed(lh_server_times *times, const uint8_t *frames, size_t length);

/* The answer's body, malloc'd: this worker's frame and those behind it. NULL: out of memory. */
uint8_t *lh_server_times_render(lh_server_times *times, size_t *length);
