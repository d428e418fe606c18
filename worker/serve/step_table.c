/* Each event goes to the step that it is about; then the table looks at what has become of it. */
#include "worker/serve/step_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A manifest leaves at once, and after it whatever its sender has; none stands still while
     * another of the same sender moves, since they leave it in order. */
    STALL_MS = 10000,
    /* A step whose manifest was taken may wait for a stage that computes its shards, shards that
     * were taken for the next ones: two minutes. */
    BEGUN_PATIENCE = 12,
    PEER_BODIES_MAX = LH_STEPS_OPEN_MAX + 64, /* with shards that go apart */
    BODIES_MAX = 4 * PEER_BODIES_MAX
};

/* Of frames that have come in part. A sender has one manifest on its way, and one shard by each
 * connection, with those of a decode step at most 17. */
#define PEER_MANIFESTS_BYTES_MAX ((size_t)2 * LH_STEP_MANIFEST_BYTES_MAX)
#define PEER_SHARDS_BYTES_MAX    ((size_t)17 * LH_STEP_SHARD_BYTES_MAX)
#define UNFINISHED_BYTES_MAX     (4 * PEER_SHARDS_BYTES_MAX)

/* The step comes first: events carry its address. */
typedef struct lh_step_entry {
    lh_served_step step;
    TAILQ_ENTRY(lh_step_entry) links;
    lh_step_table *table;
    bool is_counted; /* its outcome */
    bool has_place;  /* until its body is here, or not wanted */
    lh_stream_place place;
    size_t unfinished_bytes;
} lh_step_entry;

/* ---- What has become of a step ---- */

void lh_step_table_count_failure(lh_step_table *table) {
    table->failed++;
    table->on_failed(table->context);
}

static void note_unfinished(lh_step_entry *entry, size_t bytes) {
    assert(entry->table->unfinished_bytes >= entry->unfinished_bytes);
    entry->table->unfinished_bytes += bytes - entry->unfinished_bytes;
    entry->unfinished_bytes = bytes;
}

/* Of the same peer, in manifests or in shards as this one. */
static size_t unfinished_beside(const lh_step_entry *entry) {
    const lh_step_entry *other;
    size_t bytes = 0;
    TAILQ_FOREACH(other, &entry->table->steps, links) {
        if (other->step.has_begun == entry->step.has_begun &&
            strcmp(other->place.peer, entry->place.peer) == 0)
            bytes += other->unfinished_bytes;
    }
    return bytes;
}

/* Frames that come in part and never whole. */
static void check_unfinished(lh_step_entry *entry) {
    lh_served_step *step = &entry->step;
    const lh_step_table *table = entry->table;
    if (step->outcome == LH_SERVED_OPEN)
        note_unfinished(entry, lh_served_step_unfinished_bytes(step));
    if (entry->unfinished_bytes == 0 || table->unfinished_bytes <= PEER_MANIFESTS_BYTES_MAX)
        return;
    size_t most = step->has_begun ? PEER_SHARDS_BYTES_MAX : PEER_MANIFESTS_BYTES_MAX;
    if (table->unfinished_bytes > UNFINISHED_BYTES_MAX || unfinished_beside(entry) > most)
        lh_served_step_fail(step, LH_ERR_LIMIT, "too many frames have come in part");
}

static void leave_place(lh_step_entry *entry) {
    if (entry->has_place)
        lh_stream_place_leave(&entry->place);
    entry->has_place = false;
}

static void look_after_place(lh_step_entry *entry) {
    const lh_served_step *step = &entry->step;
    if (!entry->has_place)
        return;
    entry->place.is_held = step->held_bytes > 0;
    if (step->has_begun)
        lh_stream_place_set_patience(&entry->place, BEGUN_PATIENCE);
    if (step->body_ended || step->outcome != LH_SERVED_OPEN)
        leave_place(entry);
}

/* After each call to a step that may have changed it. The step may be gone afterwards. */
static void look_after(void *step) {
    lh_step_entry *entry = step;
    lh_step_table *table = entry->table;
    check_unfinished(entry);
    look_after_place(entry);
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
    leave_place(entry);
    note_unfinished(entry, 0);
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
    lh_step_entry *entry = step;
    if (entry->has_place)
        lh_stream_place_move(&entry->place);
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
                                  const lh_h2_request *http, const lh_worker_request *request,
                                  const lh_h2_stream_events **events, void **context,
                                  lh_error *error) {
    static const lh_h2_stream_events step_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    lh_step_entry *entry = calloc(1, sizeof *entry), *other;
    if (!entry)
        return lh_fail(error, LH_ERR_NO_MEMORY, "step: out of memory");
    lh_status status = lh_served_step_init(&entry->step, &table->tools, stream, request, error);
    if (status != LH_OK) {
        free(entry);
        return status;
    }
    entry->table = table;
    if (lh_stream_place_enter(&entry->place, &table->bodies, stream, http) != LH_OK) {
        lh_served_step_refuse(&entry->step);
        free(entry);
        return LH_OK;
    }
    entry->has_place = true;
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

/* Those that a step has taken may wait for the stage that computes them. */
static void note_shards(lh_shard_request *shards) {
    const lh_served_step *step = shards->step;
    shards->place.is_held = step && step->held_bytes > 0;
    if (step)
        lh_stream_place_set_patience(&shards->place, BEGUN_PATIENCE);
}

static void on_shards_body(lh_h2_stream *stream, void *context, const uint8_t *bytes,
                           size_t length) {
    (void)stream;
    lh_shard_request *shards = context;
    lh_served_step *step = shards->step;
    lh_stream_place_move(&shards->place);
    if (!step) {
        lh_shard_request_keep(shards, bytes, length);
        return;
    }
    lh_served_step_feed_shards(step, bytes, length);
    note_shards(shards);
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
    lh_stream_place_leave(&shards->place);
    lh_shard_request_destroy(shards);
    if (step)
        look_after(step);
}

void lh_step_table_take_shards(lh_step_table *table, lh_h2_stream *stream,
                               const lh_h2_request *http, const lh_worker_request *request,
                               const lh_h2_stream_events **events, void **context) {
    static const lh_h2_stream_events shards_events = {
        .on_body = on_shards_body, .on_end = on_shards_end, .on_closed = on_shards_closed};
    lh_shard_request *shards =
        lh_shard_request_create(&table->shards, stream, request->epoch, request->number);
    if (!shards) {
        lh_h2_stream_cancel(stream);
        return;
    }
    if (lh_stream_place_enter(&shards->place, &table->bodies, stream, http) != LH_OK) {
        lh_shard_request_destroy(shards);
        return;
    }
    *events = &shards_events;
    *context = shards;
    lh_step_entry *entry;
    TAILQ_FOREACH(entry, &table->steps, links) {
        if (lh_served_step_wants(&entry->step, request->epoch, request->number)) {
            lh_served_step_attach(&entry->step, shards);
            note_shards(shards);
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

void lh_step_table_init(lh_step_table *table, uv_loop_t *loop, const lh_served_step_tools *tools,
                        void (*on_failed)(void *context), void (*on_left)(void *context),
                        void *context) {
    *table = (lh_step_table){
        .tools = *tools, .on_failed = on_failed, .on_left = on_left, .context = context};
    static const lh_stream_quota_limits bodies = {.peer_max = PEER_BODIES_MAX,
                                                  .all_max = BODIES_MAX,
                                                  .stall_ms = STALL_MS,
                                                  .is_by_peer = true,
                                                  .has_turnover = true};
    table->tools.begun = &table->begun;
    table->tools.totals = &table->totals;
    table->tools.dropped_lines = &table->dropped_lines;
    table->tools.failed_lines = &table->failed_lines;
    TAILQ_INIT(&table->steps);
    lh_shard_requests_init(&table->shards);
    lh_stream_quota_init(&table->bodies, loop, "bodies of steps", &bodies);
}

void lh_step_table_close(lh_step_table *table, void (*on_quota_closed)(void *), void *context) {
    assert(table->count == 0);
    lh_stream_quota_close(&table->bodies, on_quota_closed, context);
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
