/* The writer: each part of the answer is a block of its content. */
#include "gateway/anthropic/anthropic.h"

#include "common/json/json_text.h"
#include "gateway/anthropic/message_json.h"
#include "gateway/anthropic/message_request.h"

#include <stdlib.h>

typedef struct writer {
    const lh_openai_frame *frame;
    lh_server_events *events; /* NULL: it goes out whole */
    lh_answer_parts parts;
    bool is_open;
    bool hides_thoughts;
    bool is_to_the_end;      /* of the context, unless it ends before */
    json_t *told;            /* of the request, in the message and its end; NULL: nothing */
    const char *stop_reason; /* NULL: it has not ended */
    json_t *stop_sequence;   /* NULL: none ended it */
} writer;

/* ---- Events ---- */

/* An event about the block `index`, with one more member, which it takes (NULL key: none). */
static lh_status put_block(writer *w, const char *type, size_t index, const char *key,
                           json_t *value) {
    json_t *event = json_pack("{s:s, s:I}", "type", type, "index", (json_int_t)index);
    return lh_server_events_put(w->events, type, key ? lh_json_set(event, key, value) : event);
}

static lh_status open_message(writer *w, const lh_token_usage *usage) {
    if (w->is_open)
        return LH_OK;
    w->is_open = true;
    return lh_server_events_put(
        w->events, "message_start",
        json_pack("{s:s, s:o}", "type", "message_start", "message",
                  lh_anthropic_message(w->frame, json_array(), json_null(), NULL, usage)));
}

static lh_status on_begin(void *context, size_t index) {
    writer *w = context;
    return w->events ? put_block(w, "content_block_start", index, "content_block",
                                 lh_anthropic_block(&w->parts.parts[index], false))
                     : LH_OK;
}

static lh_status on_grow(void *context, size_t index, const char *bytes, size_t length,
                         const lh_generation_piece *piece) {
    static const char *const names[][2] = {[LH_ANSWER_THOUGHT] = {"thinking_delta", "thinking"},
                                           [LH_ANSWER_TEXT] = {"text_delta", "text"},
                                           [LH_ANSWER_CALL] = {"input_json_delta", "partial_json"}};
    writer *w = context;
    (void)piece;
    if (!w->events)
        return LH_OK;
    const char *const *name = names[w->parts.parts[index].kind];
    return put_block(
        w, "content_block_delta", index, "delta",
        json_pack("{s:s, s:o}", "type", name[0], name[1], lh_json_text(bytes, length)));
}

static lh_status on_end(void *context, size_t index) {
    writer *w = context;
    return w->events ? put_block(w, "content_block_stop", index, NULL, NULL) : LH_OK;
}

/* ---- The dialect ---- */

static void destroy(void *context) {
    writer *w = context;
    if (!w)
        return;
    lh_answer_parts_reset(&w->parts);
    json_decref(w->told);
    json_decref(w->stop_sequence);
    free(w);
}

static void *open_writer(const lh_openai_frame *frame, lh_openai_reading *reading,
                         lh_server_events *events) {
    const lh_openai_request *request = &reading->request;
    const lh_openai_parameters *parameters = &request->parameters;
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->hides_thoughts = request->hides_thoughts;
    w->is_to_the_end =
        !parameters->max_tokens_given || reading->prompts[0].max_tokens < parameters->max_tokens;
    w->told = json_incref(request->told);
    w->events = events;
    w->parts.listener = (lh_answer_part_listener){on_begin, on_grow, on_end, w};
    return w;
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    writer *w = context;
    lh_generation_piece shown = *piece;
    lh_status status = w->events ? open_message(w, usage) : LH_OK;
    if (w->hides_thoughts)
        shown.thought_length = 0;
    if (!status)
        status = lh_answer_parts_take(&w->parts, &shown);
    if (status || !piece->finished)
        return status;
    w->stop_reason = lh_anthropic_stop_reason(piece, w->is_to_the_end);
    if (piece->stop.bytes &&
        !(w->stop_sequence = lh_json_text(piece->stop.bytes, piece->stop.length)))
        return LH_ERR_NO_MEMORY;
    return lh_answer_parts_end(&w->parts, false);
}

static json_t *stop_sequence_of(const writer *w) {
    return w->stop_sequence ? json_incref(w->stop_sequence) : json_null();
}

/* Adds to the object the fields that repeat parts of the request. The object may be NULL. */
static json_t *with_told(const writer *w, json_t *object) {
    if (object && w->told && json_object_update(object, w->told)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static lh_status end(void *context, const lh_token_usage *usage) {
    writer *w = context;
    json_t *delta = json_pack("{s:s, s:{s:s, s:o}, s:o}", "type", "message_delta", "delta",
                              "stop_reason", w->stop_reason, "stop_sequence", stop_sequence_of(w),
                              "usage", lh_anthropic_usage(usage));
    if (w->frame->timing)
        delta = lh_json_set(delta, "longhaul", json_pack("{s:O}", "timing", w->frame->timing));
    lh_status status = lh_server_events_put(w->events, "message_delta", with_told(w, delta));
    if (!status)
        status = lh_server_events_put(w->events, "message_stop",
                                      json_pack("{s:s}", "type", "message_stop"));
    w->events->done = true;
    return status;
}

static lh_status fail(void *context, const lh_openai_error *error) {
    writer *w = context;
    lh_status status =
        lh_server_events_put(w->events, "error", lh_anthropic_error(error, w->frame->id));
    w->events->done = true;
    return status;
}

/* Clients expect the message's start before any other event. */
static lh_status keep_alive(void *context, const char *waiting) {
    const writer *w = context;
    if (!w->is_open || waiting[0]) {
        lh_status status = lh_server_events_keep_alive(w->events, waiting);
        if (status || !w->is_open)
            return status;
    }
    return lh_server_events_put(w->events, "ping", json_pack("{s:s}", "type", "ping"));
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    json_t *content = json_array();
    for (size_t i = 0; i < w->parts.count; i++)
        content = lh_json_append(content, lh_anthropic_block(&w->parts.parts[i], true));
    return with_told(w, lh_anthropic_message(w->frame, content, json_string(w->stop_reason),
                                             stop_sequence_of(w), usage));
}

const lh_openai_dialect lh_anthropic = {.endpoint = LH_OPENAI_MESSAGES,
                                        .id_prefix = "msg_",
                                        .id_header = "request-id",
                                        .version_header = "anthropic-version",
                                        .parse = lh_anthropic_request_parse,
                                        .open = open_writer,
                                        .destroy = destroy,
                                        .put = put,
                                        .end = end,
                                        .fail = fail,
                                        .keep_alive = keep_alive,
                                        .whole = whole,
                                        .error_json = lh_anthropic_error,
                                        .model_json = lh_anthropic_model,
                                        .models_json = lh_anthropic_models};
