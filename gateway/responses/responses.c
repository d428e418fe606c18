/* The writer: each part of the answer is an item of its output. A stream tells an item's beginning,
 * its pieces and its end, and around them the response as it is; an answer that goes out whole is
 * that same response at its end. */
#include "gateway/responses/responses.h"

#include "common/json/json_text.h"
#include "gateway/openai/custom_tool.h"
#include "gateway/openai/logprobs.h"
#include "gateway/responses/response_json.h"
#include "gateway/responses/responses_request.h"

#include <stdlib.h>

typedef struct writer {
    const lh_openai_frame *frame;
    lh_server_events *events; /* NULL: it goes out whole */
    json_t *told;
    json_t *kinds; /* of tools, as lh_openai_tools has them; NULL: none */
    lh_answer_parts parts;
    json_t *logprobs; /* [parts.count]: a list for each */
    json_int_t next_event;
    bool is_open, is_cut;
} writer;

static const char *end_status(const writer *w) {
    return w->is_cut ? "incomplete" : "completed";
}

/* ---- Events ---- */

/* An event of this type with these members, which it takes. */
static lh_status put_event(writer *w, const char *type, json_t *members) {
    json_t *event =
        json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)w->next_event++);
    if (event && members && json_object_update_missing(event, members) == 0) {
        json_decref(members);
        return lh_server_events_put(w->events, type, event);
    }
    json_decref(event);
    json_decref(members);
    return LH_ERR_NO_MEMORY;
}

static const json_t *logprobs_of(const writer *w, size_t index) {
    return json_array_get(w->logprobs, index);
}

static const json_t *kind_of(const writer *w, size_t index) {
    return lh_response_kind(w->frame->tool_kinds, &w->parts.parts[index]);
}

/* The items as they are. NULL: no memory. */
static json_t *output_json(const writer *w) {
    json_t *output = json_array();
    for (size_t i = 0; i < w->parts.count; i++)
        output = lh_json_append(
            output, lh_response_item(w->frame, &w->parts.parts[i], kind_of(w, i), i,
                                     i + 1 == w->parts.count ? end_status(w) : "completed",
                                     logprobs_of(w, i)));
    return output;
}

static lh_status put_response(writer *w, const char *type, const char *status, json_t *output,
                              const lh_token_usage *usage, const lh_openai_error *error) {
    return put_event(
        w, type,
        json_pack("{s:o}", "response",
                  lh_response_object(w->frame, w->told, status, output, usage, error)));
}

static lh_status open_response(writer *w) {
    if (w->is_open)
        return LH_OK;
    w->is_open = true;
    lh_status status = put_response(w, "response.created", "in_progress", json_array(), NULL, NULL);
    return status
               ? status
               : put_response(w, "response.in_progress", "in_progress", json_array(), NULL, NULL);
}

static lh_status put_item(writer *w, const char *type, size_t index, const char *status) {
    return put_event(w, type,
                     json_pack("{s:I, s:o}", "output_index", (json_int_t)index, "item",
                               lh_response_item(w->frame, &w->parts.parts[index], kind_of(w, index),
                                                index, status, logprobs_of(w, index))));
}

/* An event about an item's content, of which there is one. */
static lh_status put_content(writer *w, const char *type, size_t index, const char *key,
                             json_t *value, json_t *logprobs) {
    const lh_answer_part *part = &w->parts.parts[index];
    char id[LH_RANDOM_ID_BYTES];
    lh_response_item_id(w->frame, part, kind_of(w, index), index, id);
    json_t *members =
        json_pack("{s:s, s:I, s:o}", "item_id", id, "output_index", (json_int_t)index, key, value);
    if (part->kind != LH_ANSWER_CALL)
        members = lh_json_set(members, "content_index", json_integer(0));
    if (logprobs)
        members = lh_json_set(members, "logprobs", logprobs);
    return put_event(w, type, members);
}

/* ---- Items ---- */

static const struct {
    const char *grows, *ends, *key;
} names[] = {
    [LH_ANSWER_THOUGHT] = {"response.reasoning_text.delta", "response.reasoning_text.done", "text"},
    [LH_ANSWER_TEXT] = {"response.output_text.delta", "response.output_text.done", "text"},
    [LH_ANSWER_CALL] = {"response.function_call_arguments.delta",
                        "response.function_call_arguments.done", "arguments"}};

static lh_status on_begin(void *context, size_t index) {
    writer *w = context;
    const lh_answer_part *part = &w->parts.parts[index];
    if (json_array_append_new(w->logprobs, json_array()))
        return LH_ERR_NO_MEMORY;
    lh_status status =
        w->events ? put_item(w, "response.output_item.added", index, "in_progress") : LH_OK;
    if (status || !w->events || part->kind == LH_ANSWER_CALL)
        return status;
    return put_content(w, "response.content_part.added", index, "part",
                       lh_response_content(part, false, NULL), NULL);
}

/* Those of a piece of text, also kept; NULL: no memory. */
static json_t *take_logprobs(writer *w, size_t index, const lh_generation_piece *piece) {
    if (!w->frame->logprobs)
        return json_array();
    json_t *all = lh_openai_logprobs(LH_OPENAI_CHAT, w->frame->model->tokenizer, piece->tokens,
                                     piece->token_count, w->frame->top_logprobs);
    json_t *list = json_incref(json_object_get(all, "content"));
    json_decref(all);
    if (list && json_array_extend(json_array_get(w->logprobs, index), list) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static lh_status on_grow(void *context, size_t index, const char *bytes, size_t length,
                         const lh_generation_piece *piece) {
    writer *w = context;
    lh_answer_part_kind kind = w->parts.parts[index].kind;
    json_t *logprobs = NULL;
    if (lh_response_is_custom(kind_of(w, index)))
        return LH_OK; /* what it stands for is known once it is whole */
    if (kind == LH_ANSWER_TEXT && !(logprobs = take_logprobs(w, index, piece)))
        return LH_ERR_NO_MEMORY;
    if (w->events)
        return put_content(w, names[kind].grows, index, "delta", lh_json_text(bytes, length),
                           logprobs);
    json_decref(logprobs);
    return LH_OK;
}

/* The text of a custom tool in one piece. */
static lh_status end_custom(writer *w, size_t index) {
    const lh_answer_part *part = &w->parts.parts[index];
    json_t *input = lh_openai_custom_input(part->text.bytes, part->text.length);
    lh_status status = put_content(w, "response.custom_tool_call_input.delta", index, "delta",
                                   json_incref(input), NULL);
    if (!status)
        status = put_content(w, "response.custom_tool_call_input.done", index, "input",
                             json_incref(input), NULL);
    json_decref(input);
    return status ? status : put_item(w, "response.output_item.done", index, end_status(w));
}

static lh_status on_end(void *context, size_t index) {
    writer *w = context;
    if (!w->events)
        return LH_OK;
    const lh_answer_part *part = &w->parts.parts[index];
    if (lh_response_is_custom(kind_of(w, index)))
        return end_custom(w, index);
    bool is_text = part->kind == LH_ANSWER_TEXT;
    lh_status status = put_content(w, names[part->kind].ends, index, names[part->kind].key,
                                   lh_json_text(part->text.bytes, part->text.length),
                                   is_text ? json_incref((json_t *)logprobs_of(w, index)) : NULL);
    if (!status && part->kind != LH_ANSWER_CALL)
        status = put_content(w, "response.content_part.done", index, "part",
                             lh_response_content(part, true, logprobs_of(w, index)), NULL);
    return status ? status : put_item(w, "response.output_item.done", index, end_status(w));
}

/* ---- The dialect ---- */

static void destroy(void *context) {
    writer *w = context;
    if (!w)
        return;
    lh_answer_parts_reset(&w->parts);
    json_decref(w->logprobs);
    json_decref(w->told);
    free(w);
}

static void *open_writer(const lh_openai_frame *frame, lh_openai_reading *reading,
                         lh_server_events *events) {
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->frame = frame;
    w->events = events;
    w->told = json_incref(reading->request.told);
    w->parts.listener = (lh_answer_part_listener){on_begin, on_grow, on_end, w};
    w->logprobs = json_array();
    if (w->logprobs)
        return w;
    destroy(w);
    return NULL;
}

static lh_status put(void *context, const lh_generation_piece *piece, const lh_token_usage *usage) {
    (void)usage;
    writer *w = context;
    lh_status status = w->events ? open_response(w) : LH_OK;
    if (!status)
        status = lh_answer_parts_take(&w->parts, piece);
    if (status || !piece->finished)
        return status;
    w->is_cut = piece->reason == LH_FINISH_LENGTH;
    return lh_answer_parts_end(&w->parts, true);
}

static lh_status end(void *context, const lh_token_usage *usage) {
    writer *w = context;
    lh_status status = put_response(w, w->is_cut ? "response.incomplete" : "response.completed",
                                    end_status(w), output_json(w), usage, NULL);
    w->events->done = true;
    return status;
}

static lh_status fail(void *context, const lh_openai_error *error) {
    writer *w = context;
    lh_status status = open_response(w);
    w->is_cut = true;
    if (!status)
        status = put_response(w, "response.failed", "failed", output_json(w), NULL, error);
    w->events->done = true;
    return status;
}

static lh_status keep_alive(void *context, const char *waiting) {
    return lh_server_events_keep_alive(((writer *)context)->events, waiting);
}

static json_t *whole(void *context, const lh_token_usage *usage) {
    const writer *w = context;
    return lh_response_object(w->frame, w->told, end_status(w), output_json(w), usage, NULL);
}

const lh_openai_dialect lh_responses = {.endpoint = LH_OPENAI_RESPONSES,
                                        .id_prefix = "resp_",
                                        .parse = lh_responses_request_parse,
                                        .open = open_writer,
                                        .destroy = destroy,
                                        .put = put,
                                        .end = end,
                                        .fail = fail,
                                        .keep_alive = keep_alive,
                                        .whole = whole};
