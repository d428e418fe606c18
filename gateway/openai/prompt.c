/* Text to tokens, within the context. */
#include "gateway/openai/prompt.h"

#include "common/base/text_decoder.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define COMPLETION_TOKENS_DEFAULT 16u
/* A bound of theirs is none that must be reached. */
#define OLLAMA_TEXT (LH_OPENAI_OLLAMA_CHAT | LH_OPENAI_OLLAMA_GENERATE | LH_OPENAI_OLLAMA_RAW)

/* Statuses of the tokenizer and the template; both say what is wrong with what the client sent. */
static bool refuse(const char *param, const lh_error *cause, lh_openai_error *error) {
    if (cause->status == LH_ERR_NO_MEMORY || lh_status_is_fatal(cause->status))
        return lh_openai_refuse_cause(error, cause);
    return lh_openai_refuse(error, 400, param, "invalid_value", "%s", cause->message);
}

/* The field that has the prompt. */
static const char *what_of(lh_openai_endpoint endpoint) {
    switch (endpoint) {
    case LH_OPENAI_COMPLETIONS:
    case LH_OPENAI_OLLAMA_GENERATE:
    case LH_OPENAI_OLLAMA_RAW:
    case LH_OPENAI_OLLAMA_EMBEDDINGS:
        return "prompt";
    case LH_OPENAI_RESPONSES:
    case LH_OPENAI_EMBEDDINGS:
    case LH_OPENAI_OLLAMA_EMBED:
        return "input";
    default:
        return "messages";
    }
}

/* False: the model cannot chat. */
static bool check_chats(const lh_served_model *model, lh_openai_endpoint endpoint,
                        lh_openai_error *error) {
    return model->chat_template ||
           lh_openai_refuse(error, 400, what_of(endpoint), "unsupported_value",
                            "This model cannot chat: %s. Use /v1/completions.",
                            model->chat_refusal ? model->chat_refusal : "it has no chat template");
}

static lh_chat_conversation conversation_of(const lh_openai_request *request) {
    return (lh_chat_conversation){.messages = request->messages,
                                  .count = request->message_count,
                                  .tools = request->tools.list,
                                  .arguments = request->template_arguments,
                                  .reasoning_effort = request->reasoning_effort,
                                  .without_answer_head = !request->has_answer_head,
                                  .goes_on = request->continues_last_message,
                                  .now_s = (int64_t)time(NULL)};
}

/* Where the model wants one. */
static lh_status push_bos(const lh_served_model *model, lh_tokens *tokens, lh_error *cause) {
    if (!lh_tokenizer_adds_bos(model->tokenizer))
        return LH_OK;
    return lh_tokens_push(tokens, (uint32_t)lh_tokenizer_bos(model->tokenizer), cause);
}

bool lh_openai_prompt_from_chat(const lh_served_model *model, const lh_openai_request *request,
                                lh_tokens *tokens, bool *is_thinking, lh_openai_error *error) {
    lh_error cause;
    if (!check_chats(model, request->endpoint, error))
        return false;
    const lh_chat_conversation conversation = conversation_of(request);
    lh_status status = request->parameters.adds_special ? push_bos(model, tokens, &cause) : LH_OK;
    if (!status)
        status = lh_chat_template_render(model->chat_template, model->tokenizer, &conversation,
                                         tokens, is_thinking, &cause);
    return !status || refuse(what_of(request->endpoint), &cause, error);
}

bool lh_openai_prompt_text_of_chat(const lh_served_model *model, const lh_openai_request *request,
                                   lh_text_buffer *text, lh_openai_error *error) {
    lh_error cause;
    if (!check_chats(model, request->endpoint, error))
        return false;
    const lh_chat_conversation conversation = conversation_of(request);
    return !lh_chat_template_show(model->chat_template, model->tokenizer, &conversation, text,
                                  &cause) ||
           refuse(what_of(request->endpoint), &cause, error);
}

/* Appends a text as the request wants it read. A text whose first token is the one in front of it
 * brings that itself. */
static lh_status push_text(const lh_served_model *model, const char *text, size_t length,
                           bool parses_special, lh_tokens *tokens, lh_error *cause) {
    size_t first = tokens->count;
    int64_t bos = lh_tokenizer_bos(model->tokenizer);
    lh_status status =
        lh_tokenizer_encode(model->tokenizer, text, length, parses_special, tokens, cause);
    if (!status && first > 0 && tokens->count > first && tokens->ids[first - 1] == bos &&
        tokens->ids[first] == bos) {
        tokens->count--;
        memmove(tokens->ids + first, tokens->ids + first + 1,
                (tokens->count - first) * sizeof *tokens->ids);
    }
    return status;
}

static lh_status push_mark(const lh_served_model *model, lh_fill_mark mark, lh_tokens *tokens,
                           lh_error *cause) {
    return lh_tokens_push(tokens, lh_tokenizer_fill_mark(model->tokenizer, mark), cause);
}

static lh_status push_prompt(const lh_served_model *model, const lh_openai_request *request,
                             const lh_openai_prompt *prompt, lh_tokens *tokens, lh_error *cause) {
    return prompt->text ? push_text(model, prompt->text, prompt->length, request->parses_special,
                                    tokens, cause)
                        : lh_tokens_append(tokens, prompt->tokens, prompt->token_count, cause);
}

/* What stands before the gap and behind it, between their marks. */
static lh_status push_around(const lh_served_model *model, const lh_openai_request *request,
                             const lh_openai_prompt *prompt, lh_tokens *tokens, lh_error *cause) {
    lh_status status = push_mark(model, LH_FILL_BEFORE, tokens, cause);
    if (!status)
        status = push_prompt(model, request, prompt, tokens, cause);
    if (!status)
        status = push_mark(model, LH_FILL_BETWEEN, tokens, cause);
    if (!status)
        status = push_text(model, request->suffix, strlen(request->suffix), request->parses_special,
                           tokens, cause);
    return status ? status : push_mark(model, LH_FILL_BEHIND, tokens, cause);
}

bool lh_openai_prompt_from_completion(const lh_served_model *model,
                                      const lh_openai_request *request,
                                      const lh_openai_prompt *prompt, lh_tokens *tokens,
                                      lh_openai_error *error) {
    lh_error cause;
    lh_status status = LH_OK;
    if (request->suffix && !lh_tokenizer_fills(model->tokenizer))
        return lh_openai_refuse(error, 400, "suffix", "unsupported_value",
                                "'suffix': this model has no tokens to fill in what stands between "
                                "two texts.");
    if (prompt->text && request->parameters.adds_special)
        status = push_bos(model, tokens, &cause);
    if (!status)
        status = request->suffix ? push_around(model, request, prompt, tokens, &cause)
                                 : push_prompt(model, request, prompt, tokens, &cause);
    return !status || refuse("prompt", &cause, error);
}

/* The prompt alone is too long. Clients know the error by its first words or, as LangChain, by its
 * code in the text. */
static bool refuse_prompt(uint32_t context, lh_openai_endpoint endpoint, const char *at_least,
                          size_t prompt_tokens, lh_openai_error *error) {
    const char *what = what_of(endpoint);
    return lh_openai_refuse(error, 400, what, "context_length_exceeded",
                            "This model's maximum context length is %u tokens. However, your %s "
                            "resulted in %s%zu tokens. Please reduce the length of the %s. "
                            "(context_length_exceeded)",
                            context, what, at_least, prompt_tokens, what);
}

size_t lh_openai_prompt_longest_token(const lh_served_model *model) {
    size_t longest = 1;
    for (uint32_t token = 0; token < model->vocabulary; token++) {
        const char *bytes;
        size_t length;
        if (!lh_tokenizer_token_bytes(model->tokenizer, token, &bytes, &length) && length > longest)
            longest = length;
    }
    return longest;
}

bool lh_openai_prompt_may_fit(uint32_t context, lh_openai_endpoint endpoint, size_t text_bytes,
                              size_t longest_token_bytes, lh_openai_error *error) {
    size_t tokens = text_bytes / longest_token_bytes;
    return tokens <= context || refuse_prompt(context, endpoint, "at least ", tokens, error);
}

bool lh_openai_prompt_fit(uint32_t context, lh_openai_endpoint endpoint, size_t prompt_tokens,
                          const lh_openai_parameters *parameters, uint32_t *max_tokens,
                          lh_openai_error *error) {
    uint32_t wanted = parameters->max_tokens_given ? parameters->max_tokens : 1;
    if (prompt_tokens > context || (prompt_tokens == context && wanted > 0))
        return refuse_prompt(context, endpoint, "", prompt_tokens, error);
    uint32_t room = context - (uint32_t)prompt_tokens;
    if (parameters->max_tokens_given)
        *max_tokens = wanted < room ? wanted : room;
    else if (lh_openai_is_chat(endpoint) || endpoint & OLLAMA_TEXT)
        *max_tokens = room;
    else
        *max_tokens = room < COMPLETION_TOKENS_DEFAULT ? room : COMPLETION_TOKENS_DEFAULT;
    return true;
}

lh_status lh_openai_prompt_text(const lh_served_model *model, const lh_openai_prompt *prompt,
                                lh_text_buffer *out) {
    if (prompt->text)
        return lh_text_buffer_append(out, prompt->text, prompt->length, NULL);
    lh_text_decoder decoder;
    lh_text_decoder_init(&decoder);
    lh_status status = LH_OK;
    for (size_t i = 0; i < prompt->token_count && !status; i++) {
        const char *bytes;
        size_t length;
        status = lh_tokenizer_token_bytes(model->tokenizer, prompt->tokens[i], &bytes, &length);
        if (!status)
            status = lh_text_decoder_push(&decoder, bytes, length, out, NULL);
    }
    return status ? status : lh_text_decoder_finish(&decoder, out, NULL);
}
