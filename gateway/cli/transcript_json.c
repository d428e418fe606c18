/* A list of messages. */
#include "gateway/cli/transcript_json.h"

#include "common/json/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Of a completion, which ends only there where its model knows no end. */
#define COMPLETION_TOKENS_MAX 256

struct lh_transcript {
    const lh_answer_style *style;
    json_t *system; /* its text; "": none */
    json_t *messages;
};

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the conversation");
}

lh_status lh_transcript_create(const lh_answer_style *style, lh_transcript **transcript,
                               lh_error *error) {
    lh_transcript *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error);
    made->style = style;
    made->messages = json_array();
    lh_status status =
        made->messages ? lh_transcript_set_system(made, style->system, error) : fail_memory(error);
    if (status == LH_OK)
        *transcript = made;
    else
        lh_transcript_destroy(made);
    return status;
}

void lh_transcript_destroy(lh_transcript *transcript) {
    if (!transcript)
        return;
    json_decref(transcript->system);
    json_decref(transcript->messages);
    free(transcript);
}

void lh_transcript_clear(lh_transcript *transcript) {
    json_array_clear(transcript->messages);
}

lh_status lh_transcript_set_system(lh_transcript *transcript, const char *system, lh_error *error) {
    json_t *text = lh_json_text(system, strlen(system));
    if (!text)
        return fail_memory(error);
    json_decref(transcript->system);
    transcript->system = text;
    return LH_OK;
}

static json_t *make_message(const char *role, json_t *text) {
    return json_pack("{s:s, s:o}", "role", role, "content", text);
}

lh_status lh_transcript_add(lh_transcript *transcript, const char *role, const char *text,
                            size_t length, lh_error *error) {
    json_t *message = make_message(role, lh_json_text(text, length));
    return json_array_append_new(transcript->messages, message) == 0 ? LH_OK : fail_memory(error);
}

void lh_transcript_take_back(lh_transcript *transcript) {
    json_array_remove(transcript->messages, json_array_size(transcript->messages) - 1);
}

/* The body goes on with how the answer is wanted. */
static char *dump(const lh_transcript *transcript, json_t *body) {
    const lh_answer_style *style = transcript->style;
    body = lh_json_set(body, "temperature", json_real(strtod(style->temperature, NULL)));
    if (style->max_tokens > 0)
        body = lh_json_set(body, "max_tokens", json_integer(style->max_tokens));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

char *lh_transcript_render_chat(const lh_transcript *transcript) {
    json_t *messages = json_copy(transcript->messages);
    bool has_system = json_string_length(transcript->system) > 0;
    if (has_system && messages &&
        json_array_insert_new(messages, 0,
                              make_message("system", json_incref(transcript->system)))) {
        json_decref(messages);
        return NULL;
    }
    return dump(transcript, json_pack("{s:o, s:b}", "messages", messages, "stream", 1));
}

char *lh_transcript_render_completion(const lh_transcript *transcript) {
    size_t count = json_array_size(transcript->messages);
    const json_t *last = count ? json_array_get(transcript->messages, count - 1) : NULL;
    return dump(transcript,
                json_pack("{s:O?, s:i, s:b}", "prompt", json_object_get(last, "content"),
                          "max_tokens", COMPLETION_TOKENS_MAX, "stream", 1));
}
