/* Each spelling says yes, no, or nothing. */
#include "gateway/openai/reasoning.h"

#include <string.h>

#define EFFORTS "none|minimal|low|medium|high|xhigh|max"

typedef enum wish { NOTHING_SAID, WANTED, DECLINED } wish;

static wish wish_of(const json_t *switched) {
    return json_is_boolean(switched) ? (json_is_true(switched) ? WANTED : DECLINED) : NOTHING_SAID;
}

static bool keep(const lh_body_reader *body, lh_openai_request *request, json_t *value) {
    if (value && json_array_append_new(request->made, value) == 0)
        return true;
    lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    return false;
}

void lh_openai_reasoning_decline(const lh_body_reader *body, lh_openai_request *request) {
    json_t *none = json_string("none");
    if (keep(body, request, none))
        request->reasoning_effort = none;
}

/* The template's own arguments say more than that. */
static void tell_wanted(const lh_body_reader *body, lh_openai_request *request) {
    json_t *arguments = json_pack("{s:b, s:b}", "enable_thinking", 1, "thinking", 1);
    if (keep(body, request, arguments) && request->template_arguments &&
        json_object_update(arguments, (json_t *)request->template_arguments))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    request->template_arguments = arguments;
}

static void follow(const lh_body_reader *body, lh_openai_request *request, wish wanted) {
    if (body->error->status || request->reasoning_effort)
        return; /* an effort that is named counts more */
    if (wanted == DECLINED)
        lh_openai_reasoning_decline(body, request);
    else if (wanted == WANTED)
        tell_wanted(body, request);
}

/* Anthropic's: how long a thought may be is not kept. */
static wish read_thinking(const lh_body_reader *body) {
    const lh_body_reader thinking = lh_body_inside(body, "thinking", "thinking.");
    const char *type = lh_body_choice(&thinking, "type", "enabled|adaptive|disabled|auto");
    if (!type)
        return NOTHING_SAID;
    return strcmp(type, "disabled") == 0  ? DECLINED
           : strcmp(type, "enabled") == 0 ? WANTED
                                          : NOTHING_SAID;
}

/* Ollama's: a switch, or an effort. */
static wish read_think(const lh_body_reader *body, lh_openai_request *request) {
    const json_t *think =
        lh_body_typed(body, "think", "boolean|string", "true, false, or an effort");
    if (json_is_string(think) && !request->reasoning_effort &&
        lh_body_choice(body, "think", EFFORTS))
        request->reasoning_effort = think;
    return wish_of(think);
}

void lh_openai_reasoning_read_think(const lh_body_reader *body, lh_openai_request *request) {
    follow(body, request, read_think(body, request));
}

void lh_openai_reasoning_read_object(const lh_body_reader *body, lh_openai_request *request) {
    const lh_body_reader reasoning = lh_body_inside(body, "reasoning", "reasoning.");
    if (lh_body_choice(&reasoning, "effort", EFFORTS))
        request->reasoning_effort = lh_body_field(&reasoning, "effort");
    lh_body_bool(&reasoning, "enabled");
    follow(body, request, wish_of(lh_body_field(&reasoning, "enabled")));
}

void lh_openai_reasoning_read(const lh_body_reader *body, lh_openai_request *request) {
    if (lh_body_choice(body, "reasoning_effort", EFFORTS))
        request->reasoning_effort = lh_body_field(body, "reasoning_effort");
    lh_openai_reasoning_read_object(body, request);
    follow(body, request, read_thinking(body));
    lh_openai_reasoning_read_think(body, request);
    lh_body_bool(body, "enable_thinking");
    follow(body, request, wish_of(lh_body_field(body, "enable_thinking")));
}
