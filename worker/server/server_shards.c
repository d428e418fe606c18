/* Shards of a step that come by a connection of their own (PROTOCOL.md, "Several connections"). They may come before the step
 * does, then they wait, within the stream's window; and they may come for a step that has failed, then they are thrown away. */
#include "worker/server/server_state.h"

#include <stdlib.h>

/* As much as of shards that wait for the compute side (PROTOCOL.md). */
#define WAITING_BYTES_MAX ((size_t)64 << 20)

static void drop_waiting(lh_server_shards *shards) {
    shards->server->shards_waiting_bytes -= shards->waiting.bytes;
    lh_byte_queue_reset(&shards->waiting);
}

static void detach(lh_server_shards *shards) {
    if (shards->step != NULL) {
        shards->step->shards = NULL;
        shards->step = NULL;
    }
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    lh_server_shards *shards = context;
    lh_server_step *step = shards->step;
    if (step != NULL) {
        step->held_bytes = 0; /* the stream has given them back */
    }
    detach(shards);
    TAILQ_REMOVE(&shards->server->shards, shards, links);
    drop_waiting(shards);
    bool ended = shards->ended;
    free(shards);
    if (step != NULL && !ended) {
        lh_server_step_lose_shards(step);
    }
}

/* Its sender learns from the reset that the step has failed. */
static void keep(lh_server_shards *shards, const uint8_t *bytes, size_t length) {
    size_t *waiting = &shards->server->shards_waiting_bytes;
    if (*waiting + length > WAITING_BYTES_MAX ||
        lh_byte_queue_push(&shards->waiting, bytes, length) != LH_OK) {
        drop_waiting(shards);
        lh_h2_stream_cancel(shards->stream);
        return;
    }
    *waiting += length;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_server_shards *shards = context;
    if (shards->step != NULL) {
        lh_server_step_feed(shards->step, bytes, length);
    } else if (shards->is_unwanted) {
        lh_h2_stream_consume(stream, length);
    } else {
        keep(shards, bytes, length);
    }
}

/* They have been read, or thrown away. The stream closes then. */
static void answer(lh_server_shards *shards) {
    shards->answered = true;
    if (lh_h2_stream_respond(shards->stream, 200, "{}") != LH_OK) {
        lh_h2_stream_cancel(shards->stream);
    }
}

static void on_end(lh_h2_stream *stream, void *context) {
    lh_server_shards *shards = context;
    (void)stream;
    shards->ended = true;
    if (shards->step != NULL) {
        answer(shards);
        lh_server_step_end_body(shards->step);
    } else if (shards->is_unwanted) {
        answer(shards);
    }
}

static const lh_h2_stream_events stream_events = {
    .on_body = on_body, .on_end = on_end, .on_closed = on_closed};

static bool fits(const lh_server_shards *shards, const lh_server_step *step) {
    return step->awaits_shards && step->shards == NULL && !step->body_ended && !step->settled &&
           step->number == shards->number && step->epoch == shards->epoch;
}

/* What has waited goes in now. The step may be gone afterwards. */
static void attach(lh_server_shards *shards, lh_server_step *step) {
    enum { PIECE_BYTES = 16 << 10 };
    uint8_t piece[PIECE_BYTES];
    shards->step = step;
    step->shards = shards;
    while (shards->waiting.bytes > 0 && shards->step != NULL) {
        size_t length = shards->waiting.bytes < PIECE_BYTES ? shards->waiting.bytes : PIECE_BYTES;
        lh_byte_queue_pop(&shards->waiting, piece, length);
        shards->server->shards_waiting_bytes -= length;
        lh_server_step_feed(step, piece, length);
    }
    if (shards->step != NULL && shards->ended) {
        answer(shards);
        lh_server_step_end_body(step);
    }
}

void lh_server_shards_take(lh_server *server, lh_h2_stream *stream, uint32_t epoch, uint64_t number,
                           const lh_h2_stream_events **events, void **context) {
    lh_server_shards *shards = calloc(1, sizeof(*shards));
    if (shards == NULL) {
        lh_h2_stream_cancel(stream);
        return;
    }
    shards->server = server;
    shards->stream = stream;
    shards->epoch = epoch;
    shards->number = number;
    TAILQ_INSERT_TAIL(&server->shards, shards, links);
    *events = &stream_events;
    *context = shards;
    lh_server_step *step;
    TAILQ_FOREACH(step, &server->steps, links) {
        if (fits(shards, step)) {
            attach(shards, step);
            return;
        }
    }
}

void lh_server_shards_find(lh_server_step *step) {
    lh_server_shards *shards;
    TAILQ_FOREACH(shards, &step->server->shards, links) {
        if (shards->step == NULL && !shards->is_unwanted && fits(shards, step)) {
            attach(shards, step);
            return;
        }
    }
}

void lh_server_shards_leave(lh_server_shards *shards, size_t held_bytes) {
    detach(shards);
    shards->is_unwanted = true;
    lh_h2_stream_consume(shards->stream, held_bytes + shards->waiting.bytes);
    drop_waiting(shards);
    if (shards->ended && !shards->answered) {
        answer(shards);
    }
}
