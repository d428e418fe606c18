/* json_t out of plain structs. A NULL among the parts makes the whole NULL. */
#include "gateway/anthropic/message_json.h"

#include "common/json/json_object.h"
#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static json_t *input_of(const lh_answer_part *part) {
    lh_error cause;
    const char *bytes = part->text.length ? part->text.bytes : "{}";
    size_t length = part->text.length ? part->text.length : 2;
    json_t *input = lh_json_object_parse(bytes, length, &cause);
    if (input || cause.status == LH_ERR_NO_MEMORY)
        return input;
    return json_pack("{s:o}", "INVALID_JSON", lh_json_text(bytes, length));
}

json_t *lh_anthropic_block(const lh_answer_part *part, bool with_text) {
    json_t *text = lh_json_text(part->text.bytes, with_text ? part->text.length : 0);
    switch (part->kind) {
    case LH_ANSWER_THOUGHT:
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", text, "signature", "");
    case LH_ANSWER_TEXT:
        return json_pack("{s:s, s:o}", "type", "text", "text", text);
    case LH_ANSWER_CALL:
        json_decref(text);
        return json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", part->id, "name",
                         lh_json_text(part->name, strlen(part->name)), "input",
                         with_text ? input_of(part) : json_object());
    }
    return NULL;
}

/* Tokens of the prompt that were found in the caches are told apart from the others. */
json_t *lh_anthropic_usage(const lh_token_usage *usage) {
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens",
                     (json_int_t)(usage->prompt_tokens - usage->cached_tokens),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens",
                     (json_int_t)usage->cached_tokens, "output_tokens",
                     (json_int_t)usage->completion_tokens);
}

json_t *lh_anthropic_message(const lh_openai_frame *frame, json_t *content, json_t *stop_reason,
                             json_t *stop_sequence, const lh_token_usage *usage) {
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", frame->id, "type", "message",
                  "role", "assistant", "model", frame->model->id, "content", content, "stop_reason",
                  stop_reason, "stop_sequence", stop_sequence ? stop_sequence : json_null(),
                  "usage", lh_anthropic_usage(usage));
    return frame->timing ? lh_json_set(all, "longhaul", json_pack("{s:O}", "timing", frame->timing))
                         : all;
}

const char *lh_anthropic_stop_reason(const lh_generation_piece *last, bool is_to_the_end) {
    if (last->reason == LH_FINISH_LENGTH)
        return is_to_the_end ? "model_context_window_exceeded" : "max_tokens";
    return last->stop.bytes ? "stop_sequence" : last->has_called ? "tool_use" : "end_turn";
}

json_t *lh_anthropic_model(const lh_served_model *model, const char *name, size_t length) {
    char created[32] = "";
    time_t seconds = (time_t)model->created;
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:I, s:I}", "type", "model", "id",
                     lh_json_text(name, length), "display_name", lh_json_text(name, length),
                     "created_at", created, "lifecycle", "active", "max_input_tokens",
                     (json_int_t)model->context, "max_tokens", (json_int_t)model->context);
}

/* The id of an entry; null: there is none. */
static json_t *id_at(const json_t *entries, size_t index) {
    json_t *id = json_object_get(json_array_get(entries, index), "id");
    return id ? json_incref(id) : json_null();
}

json_t *lh_anthropic_models(json_t *entries) {
    json_t *first = id_at(entries, 0), *last = id_at(entries, json_array_size(entries) - 1);
    return json_pack("{s:o, s:b, s:o, s:o}", "data", entries, "has_more", 0, "first_id", first,
                     "last_id", last);
}

static const char *type_of(unsigned status) {
    static const struct {
        unsigned status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},      {408, "timeout_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"},
                 {503, "overloaded_error"},     {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            return types[i].type;
    return status < 500 ? "invalid_request_error" : "api_error";
}

/* Clients know a prompt that is too long by its first words. */
json_t *lh_anthropic_error(const lh_openai_error *error, const char *request_id) {
    char text[sizeof error->message + 32];
    bool is_long = error->code && strcmp(error->code, "context_length_exceeded") == 0;
    snprintf(text, sizeof text, "%s%s", is_long ? "prompt is too long: " : "", error->message);
    return json_pack("{s:s, s:{s:s, s:o}, s:s}", "type", "error", "error", "type",
                     type_of(error->status), "message", lh_json_text(text, strlen(text)),
                     "request_id", request_id);
}
