/* One step that this worker serves, from its request to its answer: body in, shards to the
 * pipeline, frames to the next hop, answer back.
 *
 *     OPEN -----------------------------> DONE   computed here, and taken by the next hop
 *       |  failed, or its sender has gone
 *       +-------------------------------> LOST        what is under way of it is cancelled
 *       |  its sender wants no more of it
 *       +-------------------------------> CANCELLED   the same; nothing is wrong
 *
 * It can be reset when neither its stream nor the pipeline nor the submission to the next hop
 * holds it any more. It never calls its owner: after each call here that says what has happened,
 * the owner looks at the outcome, at waits_for_inbox and at lh_served_step_is_held.
 *
 * Thread: the loop's. */
#pragma once

#include "common/base/log_limit.h"
#include "worker/compute/pipeline/pipeline.h"
#include "worker/serve/chain_place.h"
#include "worker/serve/next_hop.h"
#include "worker/serve/request.h"
#include "worker/serve/shard_request.h"
#include "worker/serve/step_record.h"
#include "worker/serve/step_totals.h"
#include "worker/serve/stopwatch.h"

/* What steps work with, the same for all. */
typedef struct lh_served_step_tools {
    const char *worker; /* its name */
    lh_pipeline *pipeline;
    lh_next_hop *hop;
    lh_chain_place *place;
    lh_stage_meter *meter;
    uint32_t *begun; /* steps that hold a place: their manifests are here */
    lh_step_totals *totals;
    /* of the log: a client may hang up, and the worker before send what fails, without end */
    lh_log_limit *dropped_lines, *failed_lines;
} lh_served_step_tools;

typedef enum lh_served_outcome {
    LH_SERVED_OPEN,
    LH_SERVED_DONE,
    LH_SERVED_LOST,
    LH_SERVED_CANCELLED
} lh_served_outcome;

typedef struct lh_served_step {
    lh_served_outcome outcome;
    bool waits_for_inbox; /* its window stays shut until the pipeline has room */
    const lh_served_step_tools *tools;
    uint64_t number; /* of the path */
    uint32_t epoch;
    lh_step_class step_class;
    lh_h2_stream *upstream;   /* NULL: closed */
    lh_shard_request *shards; /* NULL: they come with the manifest, have not come, or have gone */
    lh_step_reader *reader;
    lh_pipeline_step *pipeline_step; /* NULL: not begun, or ended */
    lh_step_submission *downstream;  /* NULL: not opened, or done */
    int64_t first_byte_us;           /* of the body; 0: none has come */
    size_t held_bytes;               /* come, and their window not opened again */
    size_t pending_bytes;            /* of shards that the compute side has not taken */
    size_t sent_bytes;               /* given downstream, and not yet counted as gone */
    lh_step_record *record;          /* NULL: it is not timed */
    lh_step_stopwatch stopwatch;
    bool shards_go_apart; /* by another connection */
    bool ends_here;       /* it is not passed on */
    bool has_manifest;
    bool has_begun;     /* it holds a place */
    bool awaits_shards; /* its manifest is here, and they may be read */
    bool body_ended;    /* read to its end, and sound */
    bool computed;      /* the pipeline has ended it well */
    bool passed;        /* the next hop has answered 200, or it ends here */
    bool hop_failed;    /* it failed at the next hop: 502 */
} lh_served_step;

/* Begins with its request, whose stream this is. The tools outlive the step. LH_ERR_NO_MEMORY,
 * LH_ERR_LIMIT (the width of the place). */
lh_status lh_served_step_init(lh_served_step *step, const lh_served_step_tools *tools,
                              lh_h2_stream *upstream, const lh_worker_request *request,
                              lh_error *error);
/* Its request is answered already, and nothing has come of it: in place of _reset. */
void lh_served_step_refuse(lh_served_step *step);
/* Of a step that is held no more. */
void lh_served_step_reset(lh_served_step *step);
bool lh_served_step_is_held(const lh_served_step *step);
/* Two steps that are not computed yet are in each other's way: what they take says less. */
void lh_served_step_disturb(lh_served_step *step, lh_served_step *other);

/* ---- From its requests ---- */

/* The body of its own request goes on. The bytes stay in the window until the compute side has
 * room. */
/* Of a frame of its body that has not come to its end. */
size_t lh_served_step_unfinished_bytes(const lh_served_step *step);
void lh_served_step_feed(lh_served_step *step, const uint8_t *bytes, size_t length);
/* Its own request is here to its end. True: it awaits its shards from now on. */
bool lh_served_step_end_request(lh_served_step *step);
/* Its own stream has closed. */
void lh_served_step_close_request(lh_served_step *step, lh_status status);

/* Whether shards for this step of this epoch are its own, and it awaits them. */
bool lh_served_step_wants(const lh_served_step *step, uint32_t epoch, uint64_t number);
/* They come by this request, which no other step takes. */
void lh_served_step_attach(lh_served_step *step, lh_shard_request *shards);
/* The attached request's body goes on; is here to its end. */
void lh_served_step_feed_shards(lh_served_step *step, const uint8_t *bytes, size_t length);
void lh_served_step_end_shards(lh_served_step *step);
/* The attached request's stream has closed; the request is the owner's to destroy. */
void lh_served_step_close_shards(lh_served_step *step, lh_status status);

/* ---- From the pipeline (lh_pipeline_events) ---- */

void lh_served_step_note_consumed(lh_served_step *step, size_t bytes);
/* There is room in the pipeline again. */
void lh_served_step_open_window(lh_served_step *step);
void lh_served_step_end_compute(lh_served_step *step, lh_status status, const char *message,
                                const lh_step_result *results, uint32_t result_count);
/* on_frame and on_worked: they change nothing that its owner looks at. */
void lh_served_step_on_frame(void *context, void *step, void *bytes, size_t length);
void lh_served_step_on_worked(void *context, void *step, const lh_pipeline_span *span);

/* ---- From the next hop (lh_worker_client_events) ---- */

/* The submission has ended, as on_done says. */
void lh_served_step_pass(lh_served_step *step, lh_status status, const char *worker,
                         const char *message);
/* on_times */
void lh_served_step_on_times(void *context, void *step, const uint8_t *frames, size_t length);
/* Counts the bytes that have left downstream since the last time. */
void lh_served_step_count_sent(lh_served_step *step);

/* ---- From its owner ---- */

/* It failed at this worker: an open step is answered so, and what is under way is cancelled. */
void lh_served_step_fail(lh_served_step *step, lh_status status, const char *message);
