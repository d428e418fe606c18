/* The steps that a worker serves and the requests that bring their shards: their streams' events,
 * and where the events of the pipeline and of the next hop go. A step whose life has ended leaves
 * the table within the call that ended it.
 *
 * Thread: the loop's. */
#pragma once

#include "worker/serve/served_step.h"

#include <sys/queue.h>

typedef struct lh_step_table {
    lh_served_step_tools tools;
    TAILQ_HEAD(, lh_step_entry) steps;
    lh_shard_requests shards;
    uint32_t count;          /* of the steps */
    uint32_t begun;          /* those that hold a place (LH_STEPS_OPEN_MAX) */
    lh_stream_quota bodies;  /* of steps and of shards, until they are here to their ends */
    size_t unfinished_bytes; /* of frames of theirs that have not come to their ends */
    bool window_held;        /* some step's window waits for room in the pipeline's inbox */
    /* Steps that were answered well; that failed or were refused; that their senders wanted no more
     * of. */
    uint64_t done, failed, cancelled;
    lh_step_totals totals;
    lh_log_limit dropped_lines, failed_lines;
    /* One more has failed; a step has left the table. They may not close the table's owner. */
    void (*on_failed)(void *context), (*on_left)(void *context);
    void *context;
} lh_step_table;

/* Empty. What the tools point to outlives the table, which stays where it is; tools->begun and all
 * behind it are the table's to set. */
void lh_step_table_init(lh_step_table *table, uv_loop_t *loop, const lh_served_step_tools *tools,
                        void (*on_failed)(void *context), void (*on_left)(void *context),
                        void *context);

/* No request is open. on_closed comes from the loop. */
void lh_step_table_close(lh_step_table *table, void (*on_closed)(void *), void *context);

/* Takes over a request for a step: sets *events and *context, or answers it, where its peer has too
 * many that have not begun (429). Errors: those of lh_served_step_init. */
lh_status lh_step_table_take_step(lh_step_table *table, lh_h2_stream *stream,
                                  const lh_h2_request *http, const lh_worker_request *request,
                                  const lh_h2_stream_events **events, void **context,
                                  lh_error *error);
/* Takes over a request with shards of a step that has come or will come: sets *events and *context,
 * or cancels or answers it. */
void lh_step_table_take_shards(lh_step_table *table, lh_h2_stream *stream,
                               const lh_h2_request *http, const lh_worker_request *request,
                               const lh_h2_stream_events **events, void **context);
/* A step has failed, also one that was refused before it came into the table. */
void lh_step_table_count_failure(lh_step_table *table);

/* Fails all that are open, as failures of this worker. */
void lh_step_table_fail_all(lh_step_table *table, lh_status status, const char *message);
/* The pipeline is gone, and no step is open. */
void lh_step_table_forget_pipeline(lh_step_table *table);
/* Counts the bytes that have left for the next hop since the last time. */
void lh_step_table_count_sent(lh_step_table *table);

/* on_consumed (step is NULL where it had ended) and on_ended of lh_pipeline_events, on_done of
 * lh_worker_client_events. */
void lh_step_table_note_consumed(lh_step_table *table, void *step, size_t bytes);
void lh_step_table_on_ended(void *context, void *step, lh_status status, const char *message,
                            const lh_step_result *results, uint32_t result_count);
void lh_step_table_on_done(void *context, void *step, lh_status status, const char *worker,
                           const char *message);
