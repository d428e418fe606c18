/* Each event goes to the step that it is about; then the table looks at what has become of it. */
#include "worker/serve/step_table.h"

#include <assert.h>
#include <stdlib.h>

/* The step comes first: events carry its address. */
typedef struct lh_step_entry {
    lh_served_step step;
    TAILQ_ENTRY(lh_step_entry) links;
    lh_step_table *table;
    bool is_counted; /* its outcome */
} lh_step_entry;

/* ---- What has become of a step ---- */

void lh_step_table_count_failure(lh_step_table *table) {
    table->failed++;
    table->on_failed(table->context);
}

/* After each call to a step that may have changed it. The step may be gone afterwards. */
static void look_after(void *step) {
    lh_step_entry *entry = step;
    lh_step_table *table = entry->table;
    table->window_held = table->window_held || entry->step.waits_for_inbox;
    if (entry->step.outcome != LH_SERVED_OPEN && !entry->is_counted) {
        entry->is_counted = true;
        if (entry->step.outcome == LH_SERVED_DONE)
            table->done++;
        else if (entry->step.outcome == LH_SERVED_CANCELLED)
            table->cancelled++;
        else
            lh_step_table_count_failure(table);
    }
    if (lh_served_step_is_held(&entry->step))
        return;
    assert(table->count > 0);
    TAILQ_REMOVE(&table->steps, entry, links);
    table->count--;
    lh_served_step_reset(&entry->step);
    free(entry);
    table->on_left(table->context);
}

static void look_after_all(lh_step_table *table) {
    for (lh_step_entry *entry = TAILQ_FIRST(&table->steps), *next; entry; entry = next) {
        next = TAILQ_NEXT(entry, links);
        look_after(entry);
    }
}

/* ---- A step's request ---- */

static void on_body(lh_h2_stream *stream, void *step, const uint8_t *bytes, size_t length) {
    (void)stream;
    lh_served_step_feed(step, bytes, length);
    look_after(step);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    lh_step_entry *entry = context;
    lh_served_step *step = &entry->step;
    if (lh_served_step_end_request(step)) {
        lh_shard_request *shards =
            lh_shard_requests_find(&entry->table->shards, step->epoch, step->number);
        if (shards)
            lh_served_step_attach(step, shards);
    }
    look_after(entry);
}

static void on_closed(lh_h2_stream *stream, void *step, lh_status status) {
    (void)stream;
    lh_served_step_close_request(step, status);
    look_after(step);
}

lh_status lh_step_table_take_step(lh_step_table *table, lh_h2_stream *stream,
                                  const lh_worker_request *request,
                                  const lh_h2_stream_events **events, void **context,
                                  lh_error *error) {
    static const lh_h2_stream_events step_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    if (table->count >= LH_STEPS_OPEN_MAX)
        return lh_fail(error, LH_ERR_BUSY, "%u steps are in progress; the limit is %u",
                       table->count, LH_STEPS_OPEN_MAX);
    lh_step_entry *entry = calloc(1, sizeof *entry), *other;
    if (!entry)
        return lh_fail(error, LH_ERR_NO_MEMORY, "step: out of memory");
    lh_status status = lh_served_step_init(&entry->step, &table->tools, stream, request, error);
    if (status != LH_OK) {
        free(entry);
        return status;
    }
    entry->table = table;
    TAILQ_FOREACH(other, &table->steps, links) {
        lh_served_step_disturb(&entry->step, &other->step);
    }
    TAILQ_INSERT_TAIL(&table->steps, entry, links);
    table->count++;
    *events = &step_events;
    *context = entry;
    return LH_OK;
}

/* ---- A request with a step's shards ---- */

static void on_shards_body(lh_h2_stream *stream, void *context, const uint8_t *bytes,
                           size_t length) {
    (void)stream;
    lh_shard_request *shards = context;
    lh_served_step *step = shards->step;
    if (!step) {
        lh_shard_request_keep(shards, bytes, length);
        return;
    }
    lh_served_step_feed_shards(step, bytes, length);
    look_after(step);
}

static void on_shards_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    lh_shard_request *shards = context;
    lh_served_step *step = shards->step;
    lh_shard_request_end(shards);
    if (step) {
        lh_served_step_end_shards(step);
        look_after(step);
    }
}

static void on_shards_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    lh_shard_request *shards = context;
    lh_served_step *step = shards->step;
    if (step)
        lh_served_step_close_shards(step, status);
    lh_shard_request_destroy(shards);
    if (step)
        look_after(step);
}

void lh_step_table_take_shards(lh_step_table *table, lh_h2_stream *stream,
                               const lh_worker_request *request, const lh_h2_stream_events **events,
                               void **context) {
    static const lh_h2_stream_events shards_events = {
        .on_body = on_shards_body, .on_end = on_shards_end, .on_closed = on_shards_closed};
    lh_shard_request *shards =
        lh_shard_request_create(&table->shards, stream, request->epoch, request->number);
    if (!shards) {
        lh_h2_stream_cancel(stream);
        return;
    }
    *events = &shards_events;
    *context = shards;
    lh_step_entry *entry;
    TAILQ_FOREACH(entry, &table->steps, links) {
        if (lh_served_step_wants(&entry->step, request->epoch, request->number)) {
            lh_served_step_attach(&entry->step, shards);
            return;
        }
    }
}

/* ---- From the pipeline ---- */

void lh_step_table_note_consumed(lh_step_table *table, void *step, size_t bytes) {
    if (step) {
        lh_served_step_note_consumed(step, bytes);
        look_after(step);
    }
    if (!table->window_held || lh_pipeline_is_full(table->tools.pipeline))
        return;
    table->window_held = false;
    lh_step_entry *entry;
    TAILQ_FOREACH(entry, &table->steps, links) {
        lh_served_step_open_window(&entry->step);
        table->window_held = table->window_held || entry->step.waits_for_inbox;
    }
}

void lh_step_table_on_ended(void *context, void *step, lh_status status, const char *message,
                            const lh_step_result *results, uint32_t result_count) {
    (void)context;
    lh_served_step_end_compute(step, status, message, results, result_count);
    look_after(step);
}

/* ---- From the next hop ---- */

void lh_step_table_count_sent(lh_step_table *table) {
    lh_step_entry *entry;
    TAILQ_FOREACH(entry, &table->steps, links) {
        lh_served_step_count_sent(&entry->step);
    }
}

void lh_step_table_on_done(void *context, void *step, lh_status status, const char *worker,
                           const char *message) {
    (void)context;
    lh_served_step_pass(step, status, worker, message);
    look_after(step);
}

/* ---- All of them ---- */

void lh_step_table_init(lh_step_table *table, const lh_served_step_tools *tools,
                        void (*on_failed)(void *context), void (*on_left)(void *context),
                        void *context) {
    *table = (lh_step_table){
        .tools = *tools, .on_failed = on_failed, .on_left = on_left, .context = context};
    TAILQ_INIT(&table->steps);
    lh_shard_requests_init(&table->shards);
}

void lh_step_table_fail_all(lh_step_table *table, lh_status status, const char *message) {
    lh_step_entry *entry;
    TAILQ_FOREACH(entry, &table->steps, links) {
        lh_served_step_fail(&entry->step, status, message);
    }
    look_after_all(table);
}

void lh_step_table_forget_pipeline(lh_step_table *table) {
    table->tools.pipeline = NULL;
    look_after_all(table);
}
