/* The step pipeline: the compute thread of a worker and the order in which it works. The I/O thread
 * hands in steps and their shards; encoded shards, drawn tokens and ends come back through
 * lh_pipeline_poll.
 *
 *   I/O thread   begin, accept, cancel, ...   --- inbox --->   compute thread: stage begin,
 *                poll: on_consumed, on_frame,    <-- outbox ---   accept, finish
 *                on_ended
 *
 * The compute thread does one piece of work at a time and looks into its inbox between any two:
 * decode steps first, a step that is complete before a shard that has come; a step whose shards are
 * not there holds up nobody but the later steps of its sequences. It never waits for a socket: when
 * more than the outbox's bound of encoded bytes has not left yet, it starts no further prefill
 * step.
 *
 * A step that fails or is cancelled gives its positions back, and the later steps of its sequences
 * that have begun fail with it. Truncations are done when the step's rows are, also when they
 * failed, but never under an earlier step that still works on the sequence or forks from it. A step
 * that forks begins when the earlier ones that write what it takes have ended.
 *
 * Thread: one, the I/O thread, unless said otherwise. */
#pragma once

#include "common/base/status.h"
#include "worker/compute/stage/batch.h"
#include "worker/compute/stage/gather.h"
#include "worker/compute/stage/stage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_pipeline lh_pipeline;
typedef struct lh_pipeline_step lh_pipeline_step; /* valid from begin until its on_ended returns */

typedef enum lh_pipeline_work {
    LH_PIPELINE_BEGIN,  /* pages, an activation buffer, the first stage's embedding */
    LH_PIPELINE_ACCEPT, /* of one shard */
    LH_PIPELINE_EMIT,   /* a shard of the result is computed: a moment */
    LH_PIPELINE_FINISH  /* the layers */
} lh_pipeline_work;

/* When the compute thread worked on a step, by lh_clock_us. */
typedef struct lh_pipeline_span {
    lh_pipeline_work work;
    uint32_t first_row, rows, first_column, columns; /* ACCEPT, EMIT: of the shard */
    int64_t begin_us, end_us;
    /* FINISH of a step that is timed, of a stage that leads others: how its gathers went; as long
     * as the call */
    const lh_gather_times *gathers;
    uint32_t gather_count;
} lh_pipeline_span;

/* Gathers that are told of a step. */
#define LH_PIPELINE_GATHERS_MAX 256u

/* Called by lh_pipeline_poll, in the order in which things happened. They may call into the
 * pipeline, but neither poll nor destroy it: whoever wants it gone when something ends does so
 * after the poll. */
typedef struct lh_pipeline_events {
    /* The stage has accepted a shard, or one of a step that had ended was dropped (step_context is
     * NULL): so many bytes of the inbox are free again. */
    void (*on_consumed)(void *context, void *step_context, size_t bytes);
    /* An encoded shard of the result: bytes are the callee's, to be freed with free(). They count
     * against the outbox's bound until lh_pipeline_frame_gone. */
    void (*on_frame)(void *context, void *step_context, void *bytes, size_t length);
    /* Always the last of a step, exactly once. LH_OK: all frames have been given, results are those
     * of the last stage. Else the message says why: the stage's errors, LH_ERR_CANCELLED,
     * LH_ERR_STALE (reset or removed), LH_ERR_UNAVAILABLE (no stage). */
    void (*on_ended)(void *context, void *step_context, lh_status status, const char *message,
                     const lh_step_result *results, uint32_t result_count);
    /* lh_pipeline_remove is done: the stage is destroyed. What was begun after the removal comes
     * after it. */
    void (*on_removed)(void *context);
    /* A piece of work on a step was done; comes before the on_consumed, on_frame or on_ended that
     * follows from it (BEGIN and FINISH before on_ended). May be NULL. */
    void (*on_worked)(void *context, void *step_context, const lh_pipeline_span *span);
} lh_pipeline_events;

typedef struct lh_pipeline_options {
    size_t inbox_bytes, outbox_bytes; /* bounds of the two queues */
    /* Compute thread: turns a shard into bytes for the wire, of the step's type. *bytes is
     * malloc'd. */
    lh_status (*encode)(lh_wire_type wire, const lh_stage_shard *shard, void **bytes,
                        size_t *length, lh_error *error);
    /* Compute thread: there is something to poll. */
    void (*wake)(void *context);
    lh_pipeline_events events;
    void *context;
} lh_pipeline_options;

/* Starts the compute thread. LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_pipeline_create(const lh_pipeline_options *options, lh_pipeline **pipeline,
                             lh_error *error);
/* Stops and joins the thread after the work that it has in hand, destroys the stage; no event comes
 * any more. NULL is allowed. */
void lh_pipeline_destroy(lh_pipeline *pipeline);
/* Delivers what has come out; not from within an event. */
void lh_pipeline_poll(lh_pipeline *pipeline);

/* ---- The stage ---- */

/* Takes over a stage that takes steps_max at once; there must be none. On an error
 * (LH_ERR_NO_MEMORY) it stays the caller's. */
lh_status lh_pipeline_install(lh_pipeline *pipeline, lh_stage *stage, uint32_t steps_max,
                              lh_error *error);
/* Ends all steps (LH_ERR_STALE) and destroys the stage; on_removed follows, also where there was
 * none. */
lh_status lh_pipeline_remove(lh_pipeline *pipeline, lh_error *error);
/* Ends all steps (LH_ERR_STALE), and empties the KV cache unless that is kept for a KV resync: the
 * chain was re-formed. */
lh_status lh_pipeline_reset(lh_pipeline *pipeline, bool keeps_kv, lh_error *error);

/* ---- Steps ---- */

typedef struct lh_pipeline_begin_options {
    lh_batch batch;    /* copied; rows = 0: only truncations */
    bool decode;       /* goes before those that are not */
    bool timed;        /* gathers are told */
    lh_wire_type wire; /* of its result: for `encode` */
    uint32_t width;    /* columns of the model's hidden state: of what is pooled */
    uint32_t truncation_count;
    const lh_step_truncation *truncations; /* copied */
    lh_step_masks masks;                   /* copied */
    /* the truncations are a KV resync (stage.h), done at once: only before any other step since a
     * reset */
    bool resyncs;
    void *step_context;
} lh_pipeline_begin_options;

/* LH_ERR_NO_MEMORY. */
lh_status lh_pipeline_begin(lh_pipeline *pipeline, const lh_pipeline_begin_options *options,
                            lh_pipeline_step **step, lh_error *error);
/* Hands in a shard of the step's activation; values are copied. LH_ERR_NO_MEMORY. */
lh_status lh_pipeline_accept(lh_pipeline_step *step, const lh_stage_shard *shard, lh_error *error);
/* on_ended follows, with LH_ERR_CANCELLED unless the step was done before that. */
void lh_pipeline_cancel(lh_pipeline_step *step);
/* More shards wait for the compute thread than the inbox's bound: hand in no more for now. */
bool lh_pipeline_is_full(lh_pipeline *pipeline);
/* So many bytes of frames have left for good. */
void lh_pipeline_frame_gone(lh_pipeline *pipeline, size_t bytes);
