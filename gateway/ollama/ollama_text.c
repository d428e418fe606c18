/* The writer of both: a stream is an object a line, the last of which tells what it took. What the
 * two have of their own is where a text stands in an object: in `message`, or in `response`. */
#include "gateway/ollama/ollama_text.h"

#include "common/json/json_object.h"
#include "common/json/json_text.h"
#include "gateway/ollama/ollama_json.h"
#include "gateway/ollama/ollama_request.h"
#include "gateway/openai/answer_parts.h"
#include "gateway/openai/logprobs.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    const lh_openai_frame *frame;
    lh_server_events *events; /* NULL: it goes out whole */
    bool is_chat;
    lh_answer_parts parts;
    const char *done_reason;
    json_t *logprobs; /* of tokens that no object has told yet; NULL: none */
} writer;

/* ---- Objects ---- */

/* content and thinking are taken; thinking, calls: NULL where there is none. */
static json_t *object_of(const writer *w, json_t *content, json_t *thinking, json_t *calls) {
    json_t *object = lh_ollama_object(w->frame->model->id);
    if (!w->is_chat) {
        object = lh_json_set(object, "response", content);
        return thinking ? lh_json_set(object, "thinking", thinking) : object;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    if (thinking)
        message = lh_json_set(message, "thinking", thinking);
    if (calls)
        message = lh_json_set(message, "tool_calls", calls);
    return lh_json_set(object, "message", message);
}

/* What is known of the tokens goes with the next object. */
static json_t *with_logprobs(writer *w, json_t *object) {
    json_t *logprobs = w->logprobs;
    w->logprobs = NULL;
    return logprobs ? lh_json_set(object, "logprobs", logprobs) : object;
}

static lh_status note_logprobs(writer *w, const lh_generation_piece *piece) {
    if (!w->frame->logprobs || piece->token_count == 0)
        return LH_OK;
    json_t *told = lh_openai_logprobs(LH_OPENAI_CHAT, w->frame->model->tokenizer, piece->tokens,
                                      piece->token_count, w->frame->top_logprobs);
    json_t *list = json_incref(json_object_get(told, "content"));
    json_decref(told);
    if (!w->logprobs) {
        w->logprobs = list;
        return list ? LH_OK : LH_ERR_NO_MEMORY;
    }
    bool is_extended = list && json_array_extend(w->logprobs, list) == 0;
    json_decref(list);
    return is_extended ? LH_OK : LH_ERR_NO_MEMORY;
}

static lh_status put_object(writer *w, json_t *object) {
    object = with_logprobs(w, object);
    return lh_server_events_put_line(w->events, lh_json_set(object, "done", json_false()));
}

/* What a call is given, as an object. NULL: it is none, since it was cut, or there is no memory for
 * it. */
static json_t *arguments_of(const lh_answer_part *part) {
    lh_error cause;
    return part->text.length ? lh_json_object_parse(part->text.bytes, part->text.length, &cause)
                             : json_object();
}

/* index: among the answer's calls. */
static json_t *call_json(const lh_answer_part *part, json_t *arguments, size_t index) {
    return json_pack("{s:s, s:{s:I, s:o, s:o}}", "id", part->id, "function", "index",
                     (json_int_t)index, "name", lh_json_text(part->name, strlen(part->name)),
                     "arguments", arguments);
}

static size_t calls_before(const writer *w, size_t index) {
    size_t count = 0;
    for (size_t i = 0; i < index; i++)
        count += w->parts.parts[i].kind == LH_ANSWER_CALL;
    return count;
}

/* ---- Streams ---- */

static lh_status on_grow(void *context, size_t index, const char *bytes, size_t length,
                         const lh_generation_piece *piece) {
    writer *w = context;
    lh_answer_part_kind kind = w->parts.parts[index].kind;
    (void)piece;
    if (!w->events || kind == LH_ANSWER_CALL)
        return LH_OK;
    json_t *text = lh_json_text(bytes, length);
    return put_object(w, kind == LH_ANSWER_TEXT ? object_of(w, text, NULL, NULL)
                                                : object_of(w, json_string(""), text, NULL));
}

/* A call comes whole; one that was cut is shown as the text that there is. */
static lh_status on_end(void *context, size_t index) {
    writer *w = context;
    const lh_answer_part *part = &w->parts.parts[index];
    if (!w->events || part->kind != LH_ANSWER_CALL)
        return LH_OK;
    json_t *arguments = arguments_of(part);
    if (!arguments)
        return put_object(
            w, object_of(w, lh_json_text(part->text.bytes, part->text.length), NULL, NULL));
    json_t *calls =
        lh_json_append(json_array(), call_json(part, arguments, calls_before(w, index)));
    return calls ? put_object(w, object_of(w, json_string(""), NULL, calls)) : LH_ERR_NO_MEMORY;
}

/* ---- The dialects ---- */

static void destroy(void *context) {
    writer *w = context;
    if (!w)
        return;
    lh_answer_parts_reset(&w->parts);
    json_decref(w->logprobs);
    free(w);
}

static writer *open_writer(const lh_openai_frame *frame, lh_server_events *events) {
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->events = events;
    w->parts.listener = (lh_answer_part_listener){NULL, on_grow, on_end, w};
    return w;
}

static void *open_chat(const lh_openai_frame *frame, lh_openai_reading *reading,
                       lh_server_events *events) {
    (void)reading;
    writer *w = open_writer(frame, events);
    if (w)
        w->is_chat = true;
    return w;
}

static void *open_generate(const lh_openai_frame *frame, lh_openai_reading *reading,
                           lh_server_events *events) {
    (void)reading;
    return open_writer(frame, events);
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    writer *w = context;
    (void)usage;
    lh_status status = note_logprobs(w, piece);
    if (!status)
        status = lh_answer_parts_take(&w->parts, piece);
    if (status || !piece->finished)
        return status;
    w->done_reason = piece->reason == LH_FINISH_LENGTH ? "length" : "stop";
    return lh_answer_parts_end(&w->parts, false);
}

static lh_status end(void *context, const lh_token_usage *usage) {
    writer *w = context;
    json_t *last = with_logprobs(w, object_of(w, json_string(""), NULL, NULL));
    lh_status status =
        lh_server_events_put_line(w->events, lh_ollama_end(last, w->done_reason, w->frame, usage));
    w->events->done = true;
    return status;
}

static lh_status fail(void *context, const lh_openai_error *error) {
    const writer *w = context;
    lh_status status = lh_server_events_put_line(w->events, lh_ollama_error(error, w->frame->id));
    w->events->done = true;
    return status;
}

/* Clients read every line as an object: one without any text says nothing, and there is no place
 * for a comment. */
static lh_status keep_alive(void *context, const char *waiting) {
    (void)waiting;
    writer *w = context;
    return put_object(w, object_of(w, json_string(""), NULL, NULL));
}

static bool append(lh_text_buffer *text, const lh_answer_part *part) {
    return part->text.length == 0 ||
           !lh_text_buffer_append(text, part->text.bytes, part->text.length, NULL);
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    writer *w = context;
    lh_text_buffer texts[2] = {{0}, {0}}; /* what is said; what is thought */
    json_t *calls = NULL;
    bool has_memory = true;
    for (size_t i = 0; i < w->parts.count && has_memory; i++) {
        const lh_answer_part *part = &w->parts.parts[i];
        json_t *arguments = part->kind == LH_ANSWER_CALL ? arguments_of(part) : NULL;
        if (!arguments) {
            has_memory = append(&texts[part->kind == LH_ANSWER_THOUGHT], part);
            continue;
        }
        calls = lh_json_append(calls ? calls : json_array(),
                               call_json(part, arguments, json_array_size(calls)));
        has_memory = calls;
    }
    json_t *answer = NULL;
    if (has_memory)
        answer = object_of(w, lh_json_text(texts[0].bytes, texts[0].length),
                           texts[1].length ? lh_json_text(texts[1].bytes, texts[1].length) : NULL,
                           calls);
    lh_text_buffer_reset(&texts[0]);
    lh_text_buffer_reset(&texts[1]);
    return has_memory ? lh_ollama_end(with_logprobs(w, answer), w->done_reason, w->frame, usage)
                      : NULL;
}

#define DIALECT(endpoint_, prefix, parse_, open_)                                                  \
    {.endpoint = endpoint_,                                                                        \
     .id_prefix = prefix,                                                                          \
     .stream_type = "application/x-ndjson",                                                        \
     .parse = parse_,                                                                              \
     .open = open_,                                                                                \
     .destroy = destroy,                                                                           \
     .put = put,                                                                                   \
     .end = end,                                                                                   \
     .fail = fail,                                                                                 \
     .keep_alive = keep_alive,                                                                     \
     .whole = whole,                                                                               \
     .error_json = lh_ollama_error}

const lh_openai_dialect lh_ollama_chat =
    DIALECT(LH_OPENAI_OLLAMA_CHAT, "chat-", lh_ollama_chat_parse, open_chat);
const lh_openai_dialect lh_ollama_generate =
    DIALECT(LH_OPENAI_OLLAMA_GENERATE, "gen-", lh_ollama_generate_parse, open_generate);
