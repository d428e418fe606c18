/* When things happened to one timed step at this worker, and the answer's body that says so.
 * Thread: the loop's. */
#pragma once

#include "common/protocol/step.h"
#include "common/protocol/step_times.h"
#include "worker/compute/pipeline/pipeline.h"

typedef struct lh_step_record lh_step_record;

typedef enum lh_step_moment {
    LH_MOMENT_MANIFEST,
    LH_MOMENT_BODY_END,
    LH_MOMENT_SUBMITTED, /* downstream */
    LH_MOMENT_PASSED,    /* the next hop has answered */
    LH_MOMENT_ANSWERED
} lh_step_moment;

/* first_byte_us: when the step's body began to come. NULL: out of memory. */
lh_step_record *lh_step_record_create(const char *worker, int64_t first_byte_us);
/* NULL is allowed. */
void lh_step_record_destroy(lh_step_record *record);

/* Each of these takes NULL for a step that is not timed. */

/* This happened now. */
void lh_step_record_note_moment(lh_step_record *record, lh_step_moment moment);
/* A shard of the body is here, whole. */
void lh_step_record_note_shard(lh_step_record *record, const lh_step_shard_header *shard);
/* The compute thread worked on the step. */
void lh_step_record_note_work(lh_step_record *record, const lh_pipeline_span *span);
/* The next of the emitted shards is handed to the next hop's connection, as this many bytes. */
void lh_step_record_note_handed(lh_step_record *record, size_t bytes);
/* How much of what was handed the stream still holds; is_all: no more will be handed. */
void lh_step_record_note_queued(lh_step_record *record, size_t queued_bytes, bool is_all);
/* The frames of the workers behind this one: copied, cut at a frame's border where they are too
 * much. */
void lh_step_record_note_behind(lh_step_record *record, const uint8_t *frames, size_t length);

/* The answer's body, malloc'd: this worker's frame and those behind it. NULL: out of memory. */
uint8_t *lh_step_record_render(lh_step_record *record, size_t *length);
