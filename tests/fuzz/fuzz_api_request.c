/* Request bodies: hostile JSON through the parsers of all endpoints. What is taken must lie within
 * the documented ranges; what is refused is the caller's fault (never a 500), and its error must be
 * JSON itself. */
#include "common/json/json_object.h"
#include "gateway/anthropic/message_request.h"
#include "gateway/ollama/ollama_embeddings.h"
#include "gateway/ollama/ollama_request.h"
#include "gateway/openai/embeddings.h"
#include "gateway/openai/request.h"
#include "gateway/responses/responses_request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const lh_openai_limits limits = {.model = "tiny",
                                        .vocabulary = 288,
                                        .choices_max = 16,
                                        .prompts_max = 128,
                                        .sequences_max = 64,
                                        .is_traced = true,
                                        .sampling = &lh_sampling_api_defaults};

static void need(bool condition) {
    if (!condition)
        abort();
}

static void check_error(const lh_openai_error *error) {
    need(error->status == 400 || error->status == 404);
    lh_http_reply reply = {0};
    lh_openai_error_reply(error, &reply);
    json_t *again = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    need(json_is_string(json_object_get(json_object_get(again, "error"), "message")));
    json_decref(again);
    free(reply.body);
}

static void check_parameters(const lh_openai_parameters *got) {
    const lh_sampling *sampling = &got->sequence.sampling;
    need(got->choices >= 1 && got->choices <= limits.choices_max);
    need(sampling->temperature >= 0 && sampling->temperature <= 2);
    need(sampling->top_p >= 0 && sampling->top_p <= 1 && sampling->min_p >= 0 &&
         sampling->min_p <= 1);
    need(sampling->repetition_penalty > 0 && sampling->repetition_penalty <= 10);
    need(sampling->presence_penalty >= -2 && sampling->presence_penalty <= 2);
    need(sampling->frequency_penalty >= -2 && sampling->frequency_penalty <= 2);
    need(sampling->top_logprobs <= LH_TOP_LOGPROBS_MAX &&
         sampling->bias_count <= LH_OPENAI_BIASES_MAX);
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        need(sampling->biases[i].token < limits.vocabulary && sampling->biases[i].bias >= -100 &&
             sampling->biases[i].bias <= 100);
    need(got->stop_count <= LH_STOP_STRINGS_MAX);
    for (size_t i = 0; i < got->stop_count; i++)
        need(got->stops[i].length > 0 && got->stops[i].bytes[got->stops[i].length] == '\0');
    for (uint32_t i = 0; i < got->stop_token_count; i++)
        need(got->stop_tokens[i] < limits.vocabulary);
    need(!got->include_usage || got->stream);
}

typedef bool (*parser)(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                       lh_openai_request *request, lh_openai_error *error);

static void try_endpoint(json_t *body, lh_openai_endpoint endpoint, parser parse) {
    lh_openai_request request;
    lh_openai_error error;
    if (parse(json_incref(body), endpoint, &limits, &request, &error)) {
        check_parameters(&request.parameters);
        need(request.reply || lh_openai_is_chat(request.endpoint)
                 ? request.reply || request.message_count > 0
                 : request.prompt_count >= 1 && request.prompt_count <= limits.prompts_max);
        for (size_t i = 0; i < request.message_count; i++)
            need(request.messages[i].role &&
                 (request.messages[i].content || request.messages[i].tool_calls));
        for (size_t i = 0; i < request.prompt_count; i++) {
            need(request.prompts[i].length + request.prompts[i].token_count > 0);
            for (size_t k = 0; k < request.prompts[i].token_count; k++)
                need(request.prompts[i].tokens[k] < limits.vocabulary);
        }
    } else {
        check_error(&error);
    }
    lh_openai_request_reset(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *body = lh_json_object_parse((const char *)data, size, NULL);
    if (!body)
        return 0;
    try_endpoint(body, LH_OPENAI_CHAT, lh_openai_request_parse);
    try_endpoint(body, LH_OPENAI_COMPLETIONS, lh_openai_request_parse);
    try_endpoint(body, LH_OPENAI_RESPONSES, lh_responses_request_parse);
    try_endpoint(body, LH_OPENAI_MESSAGES, lh_anthropic_request_parse);
    try_endpoint(body, LH_OPENAI_OLLAMA_CHAT, lh_ollama_chat_parse);
    try_endpoint(body, LH_OPENAI_OLLAMA_GENERATE, lh_ollama_generate_parse);
    try_endpoint(body, LH_OPENAI_OLLAMA_EMBED, lh_ollama_embed.parse);
    try_endpoint(body, LH_OPENAI_EMBEDDINGS, lh_openai_embeddings.parse);
    json_decref(body);
    return 0;
}
