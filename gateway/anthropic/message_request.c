/* What the API calls otherwise than chat does. */
#include "gateway/anthropic/message_request.h"

#include "gateway/anthropic/content_blocks.h"

#include <string.h>

/* ---- Thinking ---- */

/* A text of the request's own, NULL: no memory. */
static const json_t *keep_word(lh_openai_conversation *conversation, const char *word) {
    const json_t *made = conversation->request->made;
    return lh_openai_conversation_keep(conversation, word, strlen(word))
               ? json_array_get(made, json_array_size(made) - 1)
               : NULL;
}

/* Disabled thinking is passed to the template as an effort of none. The budget of thoughts is left
 * out: the model or max_tokens ends a thought. */
static void read_thinking(const lh_body_reader *body, lh_openai_conversation *conversation) {
    const lh_body_reader thinking = lh_body_inside(body, "thinking", "thinking.");
    const char *type = lh_body_choice(&thinking, "type", "enabled|adaptive|disabled");
    if (thinking.object && !type)
        lh_body_refuse(&thinking, "type", "missing_required_parameter", "is missing.");
    lh_body_integer(&thinking, "budget_tokens", 1, INT32_MAX, 1);
    if (lh_body_field(&thinking, "budget_tokens"))
        lh_body_leave_out(&thinking, "budget_tokens", NULL);
    const char *display = lh_body_choice(&thinking, "display", "summarized|omitted");
    conversation->request->hides_thoughts = display && strcmp(display, "omitted") == 0;
    if (type && strcmp(type, "disabled") == 0 && !body->error->status)
        conversation->request->reasoning_effort = keep_word(conversation, "none");
}

static void read_output(const lh_body_reader *body, lh_openai_request *request) {
    const lh_body_reader output = lh_body_inside(body, "output_config", "output_config.");
    lh_openai_output_format_parse_schema(&output, "output_config.format", &request->format);
    if (lh_body_choice(&output, "effort", "low|medium|high|xhigh|max"))
        request->reasoning_effort = lh_body_field(&output, "effort");
}

/* Edits would take old parts of a conversation out of it once it is long: none is made, which is
 * what the answer tells of them. */
static void read_context_management(const lh_body_reader *body, lh_openai_request *request) {
    if (!lh_body_object(body, "context_management"))
        return;
    lh_body_leave_out(body, "context_management", NULL);
    request->told = json_pack("{s:{s:[]}}", "context_management", "applied_edits");
    if (!request->told)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
}

/* ---- Tools ---- */

static void read_tools(const lh_body_reader *body, lh_openai_request *request) {
    static const lh_openai_tool_words words = {
        .parameters = "input_schema", .type = "custom", .may_lack_type = true};
    const json_t *list = lh_openai_tools_read(body, &words, request->made, NULL);
    const lh_body_reader choice = lh_body_inside(body, "tool_choice", "tool_choice.");
    const char *type = lh_body_choice(&choice, "type", "auto|any|tool|none");
    bool is_named = type && strcmp(type, "tool") == 0;
    if (choice.object && !type)
        lh_body_refuse(&choice, "type", "missing_required_parameter", "is missing.");
    lh_openai_tools_choose(body, list,
                           is_named                            ? LH_TOOL_CHOICE_NAMED
                           : type && strcmp(type, "any") == 0  ? LH_TOOL_CHOICE_REQUIRED
                           : type && strcmp(type, "none") == 0 ? LH_TOOL_CHOICE_NONE
                                                               : LH_TOOL_CHOICE_AUTO,
                           is_named ? lh_openai_tool_name(&choice) : NULL, &request->tools);
    request->tools.has_one_call = lh_body_bool_or(&choice, "disable_parallel_tool_use", is_named);
}

/* ---- All of it ---- */

/* Where the assistant has spoken last, its text goes on. */
static void decide_beginning(lh_openai_request *request) {
    const lh_chat_message *last = &request->messages[request->message_count - 1];
    request->continues_last_message =
        strcmp(last->role, "assistant") == 0 && last->content_length > 0 && !last->tool_calls;
    request->has_answer_head = !request->continues_last_message;
}

bool lh_anthropic_request_parse(json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_request *request,
                                lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    lh_openai_conversation conversation;
    *request = (lh_openai_request){
        .endpoint = endpoint, .body = body, .keeps_thoughts = limits->keeps_thoughts};
    *error = (lh_openai_error){0};
    lh_openai_parameters_parse(&reader, endpoint, limits, &request->parameters);
    request->template_arguments = lh_body_object(&reader, "chat_template_kwargs");
    lh_openai_conversation_begin(&conversation, request, error);
    read_output(&reader, request);
    read_context_management(&reader, request);
    read_thinking(&reader, &conversation);
    read_tools(&reader, request);
    lh_anthropic_messages_read(&reader, &conversation);
    lh_openai_request_check_form(&reader, request);
    if (!error->status)
        decide_beginning(request);
    return !error->status;
}
