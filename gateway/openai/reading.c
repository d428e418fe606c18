/* JSON to a request, a request to tokens within the context. */
#include "gateway/openai/reading.h"

#include "common/base/utf8.h"
#include "common/json/json_object.h"
#include "common/json/json_text.h"
#include "gateway/openai/answer_lead.h"
#include "gateway/openai/dialect.h"
#include "gateway/openai/prompt.h"
#include "gateway/openai/served_context.h"
#include "gateway/openai/tokenization.h"
#include "gateway/openai/tool_form.h"
#include "gateway/trace/trace_json.h"

#include <stdlib.h>
#include <string.h>

/* NULL: *error says why. */
static json_t *parse_json(const char *bytes, size_t length, size_t *replaced,
                          lh_openai_error *error) {
    lh_error cause;
    json_t *body = lh_json_object_parse_freely(bytes, length, replaced, &cause);
    if (!body && cause.status == LH_ERR_NO_MEMORY)
        lh_openai_refuse_cause(error, &cause);
    else if (!body)
        lh_openai_refuse(error, 400, NULL, "invalid_json", "%s", cause.message);
    return body;
}

static size_t content_bytes(const lh_openai_request *request) {
    size_t bytes = 0;
    for (size_t i = 0; i < request->message_count; i++)
        bytes += request->messages[i].content_length;
    return bytes;
}

/* Ids are taken as they are. */
static bool append_eos(const lh_served_model *model, const lh_openai_prompt *given,
                       lh_tokens *tokens, lh_openai_error *error) {
    int64_t eos = lh_tokenizer_eos(model->tokenizer);
    lh_error cause;
    return !given->text || eos < 0 || !lh_tokens_push(tokens, (uint32_t)eos, &cause) ||
           lh_openai_refuse_cause(error, &cause);
}

/* The conversation, or the prompt of this index. */
static bool tokenize(lh_openai_reading *reading, const lh_openai_service *service, size_t index,
                     uint32_t context, lh_openai_error *error) {
    const lh_openai_request *request = &reading->request;
    bool is_chat = lh_openai_is_chat(request->endpoint);
    const lh_openai_prompt *given = is_chat ? NULL : &request->prompts[index];
    lh_generation_prompt *prompt = &reading->prompts[index];
    lh_tokens *tokens = &reading->tokens[index];
    if (!lh_openai_prompt_may_fit(context, request->endpoint,
                                  is_chat ? content_bytes(request) : given->length,
                                  service->longest_token_bytes, error) ||
        !(is_chat
              ? lh_openai_prompt_from_chat(service->model, request, tokens, &prompt->is_thinking,
                                           error)
              : lh_openai_prompt_from_completion(service->model, request, given, tokens, error)) ||
        (request->appends_eos && !append_eos(service->model, given, tokens, error)) ||
        !lh_openai_prompt_fit(context, request->endpoint, tokens->count, &request->parameters,
                              &prompt->max_tokens, error))
        return false;
    prompt->tokens = tokens->ids;
    prompt->token_count = (uint32_t)tokens->count;
    return true;
}

/* Room for each prompt's tokens, and for its text where that is to be echoed. False: no memory. */
static bool make_room(lh_openai_reading *reading) {
    const lh_openai_request *request = &reading->request;
    size_t count = lh_openai_is_chat(request->endpoint) ? 1 : request->prompt_count;
    reading->tokens = calloc(count, sizeof *reading->tokens);
    reading->prompts = calloc(count, sizeof *reading->prompts);
    reading->echoes = request->echo ? calloc(count, sizeof *reading->echoes) : NULL;
    reading->prompt_count = count;
    return reading->tokens && reading->prompts && (reading->echoes || !request->echo);
}

static bool keep_echo(lh_openai_reading *reading, const lh_served_model *model, size_t index) {
    lh_text_buffer *echo = &reading->echoes[index];
    if (lh_openai_prompt_text(model, &reading->request.prompts[index], echo))
        return false;
    reading->prompts[index].echo_characters =
        echo->length ? lh_utf8_count(echo->bytes, echo->length) : 0;
    return true;
}

static bool keep_echoes(lh_openai_reading *reading, const lh_served_model *model) {
    for (size_t i = 0; reading->echoes && i < reading->prompt_count; i++)
        if (!keep_echo(reading, model, i))
            return false;
    return true;
}

/* What the answer is to tell of the tokens of its prompts stays in memory until it is whole. */
static bool check_scores(const lh_openai_reading *reading, lh_openai_error *error) {
    const lh_openai_parameters *parameters = &reading->request.parameters;
    const lh_sequence_request *sequence = &parameters->sequence;
    uint64_t tokens = 0;
    for (size_t i = 0; i < reading->prompt_count; i++)
        tokens += reading->prompts[i].token_count;
    uint64_t numbers = tokens * parameters->choices * (sequence->prompt_tops + 2u);
    if (!sequence->scores_prompt || numbers <= LH_OPENAI_SCORES_MAX)
        return true;
    const char *field = parameters->wants_prompt_logprobs ? "prompt_logprobs" : "logprobs";
    return lh_openai_refuse(error, 400, field, "invalid_value",
                            "'%s' of %llu tokens of prompts, for %u choices of each, with %u "
                            "alternatives: tokens x choices x (alternatives + 2) may be at most "
                            "%u. Send fewer prompts at once.",
                            field, (unsigned long long)tokens, parameters->choices,
                            sequence->prompt_tops, LH_OPENAI_SCORES_MAX);
}

static bool tokenize_all(lh_openai_reading *reading, const lh_openai_service *service,
                         lh_openai_error *error) {
    uint32_t context = lh_openai_served_context(service);
    if (!make_room(reading) || !keep_echoes(reading, service->model))
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    for (size_t i = 0; i < reading->prompt_count; i++)
        if (!tokenize(reading, service, i, context, error))
            return false;
    return check_scores(reading, error);
}

/* ---- The form of the answers. ---- */

/* Nobody could call a tool whose name the model's format has no way to write. */
static bool check_names(const lh_openai_tools *tools, const lh_served_model *model,
                        lh_openai_error *error) {
    const lh_tool_format *format =
        tools->list ? lh_chat_template_tool_format(model->chat_template) : NULL;
    for (size_t i = 0; i < json_array_size(tools->list); i++) {
        const json_t *function = json_object_get(json_array_get(tools->list, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!lh_tool_format_takes_name(format, name))
            return lh_openai_refuse(error, 400, "tools", "unsupported_value",
                                    "'tools' has the name \"%.80s\": this model writes names of "
                                    "tools without blanks and without any of [ < >.",
                                    name);
    }
    return true;
}

/* What calls of tools must be becomes the answer's form, in place of the one that was given, which
 * then holds where nothing is called. False: no memory. */
static bool set_form_of_calls(lh_openai_reading *reading, const lh_openai_service *service,
                              bool has_channels) {
    lh_openai_output_format *format = &reading->request.format;
    const lh_openai_tools *tools = &reading->request.tools;
    if (!tools->list || (!format->is_given && !lh_openai_tools_have_form(tools)))
        return true;
    /* Behind a header, text is a form, too. */
    json_t *any = json_string("[\\s\\S]*");
    const lh_constraint_source text = {.kind = LH_CONSTRAINT_REGEX, .value = any};
    json_t *form =
        lh_openai_tool_form(tools, lh_chat_template_tool_format(service->model->chat_template),
                            service->model->tokenizer,
                            format->is_given ? &format->source
                            : has_channels   ? &text
                                             : NULL,
                            has_channels ? lh_answer_lead_header() : "");
    json_decref(any);
    lh_openai_output_format_reset(format);
    format->is_given = true;
    format->param = "tools";
    format->own = form;
    format->source = (lh_constraint_source){.kind = LH_CONSTRAINT_CALLS, .value = form};
    return form != NULL;
}

static bool find_constraint(lh_openai_reading *reading, const lh_openai_service *service,
                            json_t *lead, lh_openai_error *error) {
    lh_openai_output_format *format = &reading->request.format;
    lh_error cause;
    format->source.lead = json_is_null(lead) ? NULL : lead;
    if (lh_constraint_cache_find(service->constraints, &format->source, &reading->constraint,
                                 &cause))
        return lh_openai_output_format_refuse(format, &cause, error);
    reading->request.parameters.sequence.constraint = reading->constraint;
    return true;
}

/* Where the answer has a thought, its form begins behind that. */
static bool compile_form(lh_openai_reading *reading, const lh_openai_service *service,
                         lh_openai_error *error) {
    const lh_openai_request *request = &reading->request;
    const lh_thinking_marks *marks = lh_openai_is_chat(request->endpoint)
                                         ? lh_chat_template_thinking(service->model->chat_template)
                                         : NULL;
    bool has_channels = marks && marks->are_channels;
    const lh_answer_lead of = {.marks = marks,
                               .tokenizer = service->model->tokenizer,
                               .prompt = &reading->tokens[0],
                               .is_thinking = reading->prompts[0].is_thinking,
                               .has_head =
                                   request->has_answer_head && !request->continues_last_message,
                               .has_header = has_channels && !request->tools.list};
    if (!check_names(&request->tools, service->model, error))
        return false;
    if (!set_form_of_calls(reading, service, has_channels))
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    if (!request->format.is_given)
        return true;
    if (has_channels && !of.has_head && !of.is_thinking)
        return lh_openai_refuse(
            error, 400, request->format.param, "unsupported_value",
            "'%s' is not supported where an answer with channels does not begin "
            "anew.",
            request->format.param);
    json_t *lead = lh_answer_lead_make(&of);
    bool found = lead ? find_constraint(reading, service, lead, error)
                      : lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    reading->request.format.source.lead = NULL;
    json_decref(lead);
    return found;
}

/* What a conversation becomes, shown and not sent. */
static bool show_prompt(lh_openai_reading *reading, const lh_openai_service *service,
                        lh_openai_error *error) {
    lh_text_buffer text = {0};
    bool shown = lh_openai_prompt_text_of_chat(service->model, &reading->request, &text, error);
    if (shown && lh_json_render(json_pack("{s:o}", "prompt", lh_json_text(text.bytes, text.length)),
                                &reading->reply))
        shown = lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    lh_text_buffer_reset(&text);
    return shown;
}

/* Nothing is taken out of a long conversation, so that its count is what it was before, too. */
static bool show_count(lh_openai_reading *reading, lh_openai_reading_goal goal,
                       lh_openai_error *error) {
    json_int_t tokens = reading->prompts[0].token_count;
    json_t *count = json_pack("{s:I}", "input_tokens", tokens);
    if (goal == LH_READING_RESPONSE_COUNT)
        count = lh_json_set(count, "object", json_string("response.input_tokens"));
    if (json_object_get(reading->request.told, "context_management"))
        count = lh_json_set(count, "context_management",
                            json_pack("{s:I}", "original_input_tokens", tokens));
    return !lh_json_render(count, &reading->reply) ||
           lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
}

bool lh_openai_reading_goal_of(lh_openai_action action, lh_openai_reading_goal *goal) {
    static const struct {
        lh_openai_action action;
        lh_openai_reading_goal goal;
    } goals[] = {
        {LH_OPENAI_POST_CHAT, LH_READING_CHAT},
        {LH_OPENAI_POST_COMPLETION, LH_READING_COMPLETIONS},
        {LH_OPENAI_POST_RESPONSE, LH_READING_RESPONSES},
        {LH_OPENAI_POST_MESSAGE, LH_READING_MESSAGES},
        {LH_OPENAI_POST_EMBEDDINGS, LH_READING_EMBEDDINGS},
        {LH_OPENAI_OLLAMA_POST_CHAT, LH_READING_OLLAMA_CHAT},
        {LH_OPENAI_OLLAMA_POST_GENERATE, LH_READING_OLLAMA_GENERATE},
        {LH_OPENAI_OLLAMA_POST_EMBED, LH_READING_OLLAMA_EMBED},
        {LH_OPENAI_OLLAMA_POST_EMBEDDINGS, LH_READING_OLLAMA_EMBEDDINGS},
        {LH_OPENAI_OLLAMA_POST_SHOW, LH_READING_OLLAMA_SHOW},
        {LH_OPENAI_POST_COUNT, LH_READING_COUNT},
        {LH_OPENAI_POST_RESPONSE_COUNT, LH_READING_RESPONSE_COUNT},
        {LH_OPENAI_POST_TEMPLATE, LH_READING_TEMPLATE},
        {LH_OPENAI_POST_TOKENIZE, LH_READING_TOKENIZE},
        {LH_OPENAI_POST_DETOKENIZE, LH_READING_DETOKENIZE},
        {LH_OPENAI_GET_TRACE, LH_READING_TRACE},
    };
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++)
        if (goals[i].action == action) {
            *goal = goals[i].goal;
            return true;
        }
    return false;
}

bool lh_openai_reading_has_body(lh_openai_reading_goal goal) {
    return goal != LH_READING_TRACE;
}

bool lh_openai_reading_is_answered(lh_openai_reading_goal goal) {
    return goal <= LH_READING_EMBEDDINGS;
}

lh_openai_endpoint lh_openai_reading_endpoint(lh_openai_reading_goal goal) {
    switch (goal) {
    case LH_READING_COMPLETIONS:
        return LH_OPENAI_COMPLETIONS;
    case LH_READING_EMBEDDINGS:
        return LH_OPENAI_EMBEDDINGS;
    case LH_READING_OLLAMA_CHAT:
    case LH_READING_OLLAMA_SHOW:
        return LH_OPENAI_OLLAMA_CHAT;
    case LH_READING_OLLAMA_GENERATE:
        return LH_OPENAI_OLLAMA_GENERATE;
    case LH_READING_OLLAMA_EMBED:
        return LH_OPENAI_OLLAMA_EMBED;
    case LH_READING_OLLAMA_EMBEDDINGS:
        return LH_OPENAI_OLLAMA_EMBEDDINGS;
    case LH_READING_RESPONSES:
    case LH_READING_RESPONSE_COUNT:
        return LH_OPENAI_RESPONSES;
    case LH_READING_MESSAGES:
    case LH_READING_COUNT:
        return LH_OPENAI_MESSAGES;
    default:
        return LH_OPENAI_CHAT;
    }
}

static bool use_request(lh_openai_reading *reading, const lh_openai_service *service,
                        lh_openai_reading_goal goal, lh_openai_error *error) {
    json_t *reply = reading->request.reply;
    if (goal == LH_READING_TEMPLATE)
        return show_prompt(reading, service, error);
    if (reply)
        return !lh_json_render(json_incref(reply), &reading->reply) ||
               lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    if (!tokenize_all(reading, service, error))
        return false;
    return goal == LH_READING_COUNT || goal == LH_READING_RESPONSE_COUNT
               ? show_count(reading, goal, error)
               : compile_form(reading, service, error);
}

/* The rest of the goals is about ids and text alone. */
static bool is_shown(lh_openai_reading_goal goal) {
    return goal == LH_READING_TOKENIZE || goal == LH_READING_DETOKENIZE ||
           goal == LH_READING_OLLAMA_SHOW;
}

static bool show_model(const lh_openai_service *service, const lh_openai_limits *limits,
                       const json_t *body, lh_text_buffer *reply, lh_openai_error *error) {
    json_t *told = service->config.ollama->tell(LH_OPENAI_OLLAMA_POST_SHOW, service->model, limits,
                                                true, body, error);
    return told &&
           (!lh_json_render(told, reply) || lh_openai_refuse_status(error, LH_ERR_NO_MEMORY));
}

/* What reads a body that is not sent on. The body is released. */
static bool take_shown(const lh_openai_service *service, const lh_openai_limits *limits,
                       lh_openai_reading_goal goal, json_t *body, lh_text_buffer *reply,
                       lh_openai_error *error) {
    if (goal == LH_READING_TOKENIZE)
        return lh_openai_tokenize(service, limits, body, reply, error);
    bool taken = goal == LH_READING_OLLAMA_SHOW
                     ? show_model(service, limits, body, reply, error)
                     : lh_openai_detokenize(service, limits, body, reply, error);
    json_decref(body);
    return taken;
}

/* What a model writes without JSON is read by the schemas of its parameters; what it writes in a
 * fence is a call if it has the name of a tool. A fence is text where calls have a form, which it
 * does not keep to. */
static void keep_tools(lh_openai_request *request, const lh_served_model *model) {
    const lh_tool_format *format =
        model->chat_template ? lh_chat_template_tool_format(model->chat_template) : NULL;
    if (request->tools.list && format &&
        (format->body == LH_TOOL_BODY_PARAMETERS ||
         (format->reads_fences && !request->format.is_given)))
        request->kept_tools = json_incref((json_t *)request->tools.list);
}

static bool take_request(lh_openai_reading *reading, const lh_openai_service *service,
                         lh_openai_reading_goal goal, json_t *body, lh_openai_error *error) {
    lh_openai_endpoint endpoint = lh_openai_reading_endpoint(goal);
    const lh_openai_dialect *dialect = lh_openai_dialect_of(service, endpoint);
    bool taken =
        dialect->parse(body, endpoint, &service->config.limits, &reading->request, error) &&
        use_request(reading, service, goal, error);
    keep_tools(&reading->request, service->model);
    lh_openai_request_drop_text(&reading->request);
    return taken;
}

static bool show_trace(lh_openai_reading *reading, const lh_openai_service *service,
                       const char *rest, lh_openai_error *error) {
    lh_trace_store *store = service->config.traces;
    char id[LH_TRACE_NAME_BYTES];
    bool is_id = lh_openai_route_decode(rest, id, sizeof id);
    json_t *events = NULL;
    lh_error cause;
    if (!store)
        return lh_openai_refuse(error, 404, NULL, "tracing_off",
                                "This server keeps no traces: it runs with --traces 0.");
    if (!is_id || lh_trace_json_find(store, id, &events, &cause) == LH_ERR_NOT_FOUND)
        return lh_openai_refuse(error, 404, NULL, "trace_not_found",
                                "There is no trace of '%.140s': it was none of the last requests.",
                                is_id ? id : rest);
    return !lh_json_render(events, &reading->reply) ||
           lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
}

bool lh_openai_reading_take(lh_openai_reading *reading, const lh_openai_service *service,
                            lh_openai_reading_goal goal, const char *bytes, size_t length,
                            lh_openai_error *error) {
    *reading = (lh_openai_reading){0};
    if (goal == LH_READING_TRACE)
        return show_trace(reading, service, bytes, error);
    json_t *body = parse_json(bytes, length, &reading->replaced_characters, error);
    if (!body)
        return false;
    return is_shown(goal)
               ? take_shown(service, &service->config.limits, goal, body, &reading->reply, error)
               : take_request(reading, service, goal, body, error);
}

/* What is missing of an empty body is drawn as what must be there; but memory must not be missing.
 */
json_t *lh_openai_reading_describe(const lh_openai_service *service, lh_openai_reading_goal goal) {
    lh_openai_limits limits = service->config.limits;
    lh_openai_endpoint endpoint = lh_openai_reading_endpoint(goal);
    lh_openai_request request = {0};
    lh_openai_error error = {0};
    lh_text_buffer nothing = {0};
    json_t *body = json_object();
    limits.sketch = json_pack("{s:s}", "type", "object");
    if (!body || !limits.sketch)
        lh_openai_refuse_status(&error, LH_ERR_NO_MEMORY);
    else if (is_shown(goal))
        take_shown(service, &limits, goal, json_incref(body), &nothing, &error);
    else
        lh_openai_dialect_of(service, endpoint)
            ->parse(json_incref(body), endpoint, &limits, &request, &error);
    json_decref(body);
    lh_text_buffer_reset(&nothing);
    lh_openai_request_reset(&request);
    if (error.status != 500)
        return limits.sketch;
    json_decref(limits.sketch);
    return NULL;
}

void lh_openai_reading_reset(lh_openai_reading *reading) {
    for (size_t i = 0; reading->tokens && i < reading->prompt_count; i++)
        free(reading->tokens[i].ids);
    for (size_t i = 0; reading->echoes && i < reading->prompt_count; i++)
        lh_text_buffer_reset(&reading->echoes[i]);
    lh_text_buffer_reset(&reading->reply);
    lh_constraint_release(reading->constraint);
    free(reading->tokens);
    free(reading->prompts);
    free(reading->echoes);
    lh_openai_request_reset(&reading->request);
    *reading = (lh_openai_reading){0};
}
