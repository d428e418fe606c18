/* json_t out of plain structs. A NULL among the parts makes the whole NULL. */
#include "gateway/responses/response_json.h"

#include "common/json/json_text.h"
#include "gateway/openai/custom_tool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const json_t *lh_response_kind(const json_t *kinds, const lh_answer_part *part) {
    return part->kind == LH_ANSWER_CALL ? json_object_get(kinds, part->name) : NULL;
}

bool lh_response_is_custom(const json_t *kind) {
    const char *type = json_string_value(json_object_get(kind, "type"));
    return type && strcmp(type, "custom") == 0;
}

void lh_response_item_id(const lh_openai_frame *frame, const lh_answer_part *part,
                         const json_t *kind, size_t index, char id[LH_RANDOM_ID_BYTES]) {
    static const char *const prefixes[] = {
        [LH_ANSWER_THOUGHT] = "rs", [LH_ANSWER_TEXT] = "msg", [LH_ANSWER_CALL] = "fc"};
    const char *own = strchr(frame->id, '_');
    snprintf(id, LH_RANDOM_ID_BYTES, "%s%.36s_%zu",
             lh_response_is_custom(kind) ? "ctc" : prefixes[part->kind], own ? own : "_", index);
}

/* In the client's words for its tool. */
static json_t *call_item(const lh_answer_part *part, const json_t *kind, const char *id,
                         const char *status, bool is_whole) {
    bool is_custom = lh_response_is_custom(kind);
    size_t length = is_whole ? part->text.length : 0;
    json_t *name = json_object_get(kind, "name"), *space = json_object_get(kind, "namespace");
    json_t *item = json_pack(
        "{s:s, s:s, s:s, s:s, s:o}", "id", id, "type",
        is_custom ? "custom_tool_call" : "function_call", "status", status, "call_id", part->id,
        "name", name ? json_incref(name) : lh_json_text(part->name, strlen(part->name)));
    item = is_custom ? lh_json_set(item, "input", lh_openai_custom_input(part->text.bytes, length))
                     : lh_json_set(item, "arguments", lh_json_text(part->text.bytes, length));
    return space ? lh_json_set(item, "namespace", json_incref(space)) : item;
}

json_t *lh_response_content(const lh_answer_part *part, bool with_text, const json_t *logprobs) {
    json_t *text = lh_json_text(part->text.bytes, with_text ? part->text.length : 0);
    if (part->kind == LH_ANSWER_THOUGHT)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations",
                     "logprobs",
                     logprobs && with_text ? json_incref((json_t *)logprobs) : json_array());
}

json_t *lh_response_item(const lh_openai_frame *frame, const lh_answer_part *part,
                         const json_t *kind, size_t index, const char *status,
                         const json_t *logprobs) {
    char id[LH_RANDOM_ID_BYTES];
    bool is_whole = strcmp(status, "in_progress") != 0;
    lh_response_item_id(frame, part, kind, index, id);
    if (part->kind == LH_ANSWER_CALL)
        return call_item(part, kind, id, status, is_whole);
    json_t *content = json_array();
    if (is_whole)
        content = lh_json_append(content, lh_response_content(part, true, logprobs));
    if (part->kind == LH_ANSWER_THOUGHT)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", id, "type", "reasoning", "status",
                         status, "summary", "content", content);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status,
                     "role", "assistant", "content", content);
}

static json_t *usage_json(const lh_token_usage *usage) {
    return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens",
                     (json_int_t)usage->prompt_tokens, "input_tokens_details", "cached_tokens",
                     (json_int_t)usage->cached_tokens, "cache_write_tokens", 0, "output_tokens",
                     (json_int_t)usage->completion_tokens, "output_tokens_details",
                     "reasoning_tokens", (json_int_t)usage->thought_tokens, "total_tokens",
                     (json_int_t)(usage->prompt_tokens + usage->completion_tokens));
}

/* The codes that the API has for it. */
static json_t *failure_json(const lh_openai_error *error) {
    return json_pack("{s:s, s:o}", "code",
                     error->status == 429 ? "rate_limit_exceeded" : "server_error", "message",
                     lh_json_text(error->message, strlen(error->message)));
}

json_t *lh_response_object(const lh_openai_frame *frame, const json_t *told, const char *status,
                           json_t *output, const lh_token_usage *usage,
                           const lh_openai_error *error) {
    bool is_cut = strcmp(status, "incomplete") == 0;
    json_t *all = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", frame->id, "object", "response",
                            "created_at", (json_int_t)frame->created, "status", status, "model",
                            frame->model->id, "output", output);
    all = lh_json_set(all, "error", error ? failure_json(error) : json_null());
    all = lh_json_set(all, "incomplete_details",
                      is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    all = lh_json_set(all, "usage", usage ? usage_json(usage) : json_null());
    if (usage && !is_cut && !error)
        all = lh_json_set(all, "completed_at", json_integer((json_int_t)time(NULL)));
    if (frame->service_tier)
        all = lh_json_set(all, "service_tier", json_string("default"));
    if (frame->timing)
        all = lh_json_set(all, "longhaul", json_pack("{s:O}", "timing", frame->timing));
    if (all && json_object_update_missing(all, (json_t *)told)) {
        json_decref(all);
        return NULL;
    }
    return all;
}
