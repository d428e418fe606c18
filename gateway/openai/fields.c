/* The table: OpenAI's own fields, and those that llama.cpp's and vLLM's users send. */
#include "gateway/openai/fields.h"

#include <stdio.h>
#include <string.h>

typedef enum treatment {
    HONOURED,       /* parsed elsewhere */
    TAKEN,          /* left out: changes nothing */
    REFUSED,        /* any value but null */
    REFUSED_TRUE,   /* a switch that can only be off */
    REFUSED_FILLED, /* a list, object or text that can only be empty */
    /* Peers' samplers by the number that switches them off, or a lower one. */
    REFUSED_ABOVE_0,
    REFUSED_BUT_1,
} treatment;

#define CHAT        LH_OPENAI_CHAT
#define COMPLETIONS LH_OPENAI_COMPLETIONS
#define BOTH        (LH_OPENAI_CHAT | LH_OPENAI_COMPLETIONS)
#define RESPONSES   LH_OPENAI_RESPONSES
#define MESSAGES    LH_OPENAI_MESSAGES
#define EMBEDDINGS  LH_OPENAI_EMBEDDINGS
#define OLLAMA_CHAT LH_OPENAI_OLLAMA_CHAT
#define GENERATE    LH_OPENAI_OLLAMA_GENERATE
#define EMBED       LH_OPENAI_OLLAMA_EMBED
#define EMBED_ELDER LH_OPENAI_OLLAMA_EMBEDDINGS
#define OPTIONS     LH_OPENAI_OLLAMA_OPTIONS
#define OLLAMA_TEXT (OLLAMA_CHAT | GENERATE)
#define OLLAMA      (OLLAMA_TEXT | EMBED | EMBED_ELDER)
#define CHATS       (CHAT | RESPONSES | MESSAGES)
#define OPENAI      (BOTH | RESPONSES)
#define ALL         (BOTH | RESPONSES | MESSAGES)
#define ANY         (ALL | EMBEDDINGS | OLLAMA)

static const struct {
    const char *name;
    int endpoints;
    treatment action;
} table[] = {
    {"model", ANY, HONOURED},
    {"messages", CHAT | MESSAGES | OLLAMA_CHAT, HONOURED},
    {"prompt", COMPLETIONS | GENERATE | EMBED_ELDER, HONOURED},
    {"temperature", ALL | OPTIONS, HONOURED},
    {"top_p", ALL | OPTIONS, HONOURED},
    {"n", BOTH, HONOURED},
    {"stream", ALL | OLLAMA_TEXT, HONOURED},
    {"stream_options", OPENAI, HONOURED},
    {"stop", OPENAI | OPTIONS, HONOURED},
    {"max_tokens", BOTH | MESSAGES, HONOURED},
    {"max_completion_tokens", CHAT, HONOURED},
    {"presence_penalty", ALL | OPTIONS, HONOURED},
    {"frequency_penalty", ALL | OPTIONS, HONOURED},
    {"logit_bias", ALL | OPTIONS, HONOURED},
    {"logprobs", BOTH | OLLAMA_TEXT, HONOURED},
    {"top_logprobs", CHAT | RESPONSES | OLLAMA_TEXT, HONOURED},
    {"prompt_logprobs", BOTH, HONOURED},
    {"prompt_logprobs", RESPONSES | MESSAGES, REFUSED},
    {"seed", ALL | OPTIONS, HONOURED},
    {"best_of", COMPLETIONS, HONOURED},
    {"echo", COMPLETIONS, HONOURED},
    {"suffix", COMPLETIONS | GENERATE, HONOURED},
    {"parse_special", COMPLETIONS, HONOURED},
    {"response_format", BOTH, HONOURED},
    {"tools", CHATS | OLLAMA_CHAT, HONOURED},
    {"tool_choice", CHATS, HONOURED},
    {"parallel_tool_calls", CHAT | RESPONSES, HONOURED},
    {"user", OPENAI | EMBEDDINGS, HONOURED},
    {"safety_identifier", OPENAI, HONOURED},
    {"prompt_cache_key", OPENAI, HONOURED},
    {"metadata", ALL, HONOURED},
    {"service_tier", ALL, HONOURED},
    {"reasoning_effort", CHAT, HONOURED},
    {"reasoning_format", CHAT, HONOURED},
    {"verbosity", CHAT, HONOURED},
    {"modalities", CHAT, HONOURED},
    {"functions", CHAT, HONOURED},
    {"function_call", CHAT, HONOURED},
    {"think", CHAT | OLLAMA_TEXT, HONOURED},
    {"enable_thinking", CHAT, HONOURED},
    /* OpenAI's Responses. */
    {"input", RESPONSES | EMBEDDINGS | EMBED, HONOURED},
    {"instructions", RESPONSES, HONOURED},
    {"max_output_tokens", RESPONSES, HONOURED},
    {"text", RESPONSES, HONOURED},
    {"reasoning", CHAT | RESPONSES, HONOURED},
    {"truncation", RESPONSES, HONOURED},
    {"include", RESPONSES, HONOURED},
    {"max_tool_calls", RESPONSES, TAKEN}, /* of tools that OpenAI runs itself */
    {"previous_response_id", RESPONSES, REFUSED},
    {"conversation", RESPONSES, REFUSED},
    {"prompt", RESPONSES, REFUSED},
    {"background", RESPONSES, REFUSED_TRUE},
    {"context_management", RESPONSES, REFUSED_FILLED},
    /* Anthropic's Messages. */
    {"system", MESSAGES | GENERATE, HONOURED},
    {"stop_sequences", MESSAGES, HONOURED},
    {"thinking", CHAT | MESSAGES, HONOURED},
    {"output_config", MESSAGES, HONOURED},
    {"context_management", MESSAGES, HONOURED},
    {"cache_control", MESSAGES, TAKEN},
    {"speed", MESSAGES, TAKEN},
    {"container", MESSAGES, REFUSED},
    {"mcp_servers", MESSAGES, REFUSED_FILLED},
    {"inference_geo", MESSAGES, REFUSED},
    /* Embeddings. */
    {"encoding_format", EMBEDDINGS, HONOURED},
    {"dimensions", EMBEDDINGS | EMBED, HONOURED},
    {"embd_normalize", EMBEDDINGS, REFUSED}, /* llama.cpp's: another length than 1 */
    /* Ollama's. Models stay loaded, and have the context that they have; a conversation that is too
     * long for it is refused. */
    {"options", OLLAMA_TEXT, HONOURED},
    {"options", EMBED | EMBED_ELDER, TAKEN},
    {"format", OLLAMA_TEXT, HONOURED},
    {"raw", GENERATE, HONOURED},
    {"images", GENERATE, REFUSED_FILLED},
    {"template", GENERATE, REFUSED_FILLED},
    {"keep_alive", OLLAMA, TAKEN},
    {"truncate", OLLAMA, TAKEN},
    {"shift", OLLAMA_TEXT, TAKEN},
    {"context", GENERATE, TAKEN},
    {"num_predict", OPTIONS, HONOURED},
    {"repeat_last_n", OPTIONS, HONOURED},
    {"num_ctx", OPTIONS, TAKEN},
    {"num_keep", OPTIONS, TAKEN},
    {"num_batch", OPTIONS, TAKEN},
    {"num_gpu", OPTIONS, TAKEN},
    {"main_gpu", OPTIONS, TAKEN},
    {"num_thread", OPTIONS, TAKEN},
    {"numa", OPTIONS, TAKEN},
    {"low_vram", OPTIONS, TAKEN},
    {"use_mmap", OPTIONS, TAKEN},
    {"use_mlock", OPTIONS, TAKEN},
    {"f16_kv", OPTIONS, TAKEN},
    {"penalize_newline", OPTIONS, TAKEN},
    /* Peers' samplers. */
    {"top_k", ALL | OPTIONS, HONOURED},
    {"min_p", ALL | OPTIONS, HONOURED},
    {"repetition_penalty", ALL | OPTIONS, HONOURED},
    {"repeat_penalty", ALL | OPTIONS, HONOURED},
    {"min_tokens", ALL | OPTIONS, HONOURED},
    {"ignore_eos", ALL | OPTIONS, HONOURED},
    {"stop_token_ids", ALL | OPTIONS, HONOURED},
    {"add_special_tokens", ANY, HONOURED},
    {"skip_special_tokens", ALL, HONOURED},
    {"return_token_ids", BOTH, HONOURED},
    {"cache_salt", ANY, HONOURED},
    {"priority", ANY, HONOURED},
    /* Peers' forms of answers. */
    {"guided_json", BOTH, HONOURED},
    {"guided_regex", BOTH, HONOURED},
    {"guided_choice", BOTH, HONOURED},
    {"guided_grammar", BOTH, HONOURED},
    {"structured_outputs", BOTH, HONOURED},
    {"structural_tag", BOTH, HONOURED},
    {"grammar", BOTH, HONOURED},
    {"json_schema", BOTH, HONOURED},
    /* Our own. */
    {"timeout", ANY, HONOURED},
    {"longhaul", ALL | OLLAMA_TEXT, HONOURED},
    /* Hints. */
    {"prediction", CHAT, TAKEN},
    {"moderation", OPENAI, TAKEN},
    {"prompt_cache_options", OPENAI, TAKEN},
    {"prompt_cache_retention", OPENAI, TAKEN},
    {"store", CHAT | RESPONSES, TAKEN}, /* nothing is, and nothing can be asked for again */
    {"request_id", BOTH, TAKEN},
    {"cache_prompt", BOTH, TAKEN},
    {"spaces_between_special_tokens", BOTH, TAKEN},
    {"return_token_strs", CHAT, TAKEN}, /* of /tokenize */
    /* What would change the answer and is not built. */
    {"audio", CHAT, REFUSED},
    {"web_search_options", CHAT, REFUSED},
    {"chat_template", CHAT, REFUSED},
    {"chat_template_kwargs", CHATS | OLLAMA_TEXT, HONOURED},
    {"continue_final_message", CHAT, HONOURED},
    {"add_generation_prompt", CHAT, HONOURED},
    {"documents", CHAT, REFUSED_FILLED},
    {"return_tokens_as_token_ids", BOTH, REFUSED_TRUE},
    {"include_stop_str_in_output", BOTH, REFUSED_TRUE},
    {"use_beam_search", BOTH, REFUSED_TRUE},
    {"guided_whitespace_pattern", BOTH, REFUSED}, /* JSON is written in one way */
    {"logits_processors", BOTH, REFUSED_FILLED},
    {"bad_words", BOTH, REFUSED_FILLED},
    {"allowed_token_ids", BOTH, REFUSED_FILLED},
    {"n_predict", BOTH, HONOURED},
    {"typical_p", BOTH | OPTIONS, REFUSED_BUT_1},
    {"typ_p", BOTH, REFUSED_BUT_1},
    {"tfs_z", BOTH | OPTIONS, REFUSED_BUT_1},
    {"length_penalty", BOTH, REFUSED_BUT_1},
    {"mirostat", BOTH | OPTIONS, REFUSED_ABOVE_0},
    {"mirostat_mode", BOTH, REFUSED_ABOVE_0},
    {"dynatemp_range", BOTH, REFUSED_ABOVE_0},
    {"xtc_probability", BOTH, REFUSED_ABOVE_0},
    {"dry_multiplier", BOTH, REFUSED_ABOVE_0},
    {"top_n_sigma", BOTH, REFUSED_ABOVE_0},
    {"top_a", BOTH, REFUSED_ABOVE_0},
    {"n_probs", BOTH, REFUSED_ABOVE_0},
    {"truncate_prompt_tokens", BOTH | EMBEDDINGS, REFUSED},
    {"samplers", BOTH, REFUSED_FILLED},
    {"lora", BOTH, REFUSED_FILLED},
    /* Nothing without those that are refused. */
    {"mirostat_tau", BOTH | OPTIONS, TAKEN},
    {"mirostat_eta", BOTH | OPTIONS, TAKEN},
    {"dynatemp_exponent", BOTH, TAKEN},
    {"xtc_threshold", BOTH, TAKEN},
    {"dry_base", BOTH, TAKEN},
    {"dry_allowed_length", BOTH, TAKEN},
    {"dry_penalty_last_n", BOTH, TAKEN},
    {"dry_sequence_breakers", BOTH, TAKEN},
    {"early_stopping", BOTH, TAKEN},
};

static bool is_filled(const json_t *value) {
    return !(json_is_array(value) && json_array_size(value) == 0) &&
           !(json_is_object(value) && json_object_size(value) == 0) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

static bool is_refused(const json_t *value, treatment action) {
    switch (action) {
    case HONOURED:
    case TAKEN:
        return false;
    case REFUSED:
        return true;
    case REFUSED_TRUE:
        return json_is_true(value);
    case REFUSED_FILLED:
        return is_filled(value);
    case REFUSED_ABOVE_0:
        return !(json_number_value(value) <= 0);
    case REFUSED_BUT_1:
        return !(json_number_value(value) >= 1 && json_number_value(value) <= 1);
    }
    return false;
}

static void check_field(const lh_body_reader *body, const char *name, const json_t *value,
                        treatment action) {
    bool is_switch = action == REFUSED_TRUE;
    bool is_number = action == REFUSED_ABOVE_0 || action == REFUSED_BUT_1;
    char path[LH_BODY_PATH_BYTES];
    snprintf(path, sizeof path, "%s%s", body->path, name);
    const char *condition = is_switch                   ? ": true"
                            : action == REFUSED_ABOVE_0 ? " above 0"
                            : action == REFUSED_BUT_1   ? " other than 1"
                                                        : "";
    if (is_switch && !json_is_boolean(value))
        lh_body_refuse(body, name, "invalid_type", "must be true or false.");
    else if (is_number && !json_is_number(value))
        lh_body_refuse(body, name, "invalid_type", "must be a number.");
    else if (is_refused(value, action))
        lh_openai_refuse(body->error, 400, path, "unsupported_parameter",
                         "'%s'%s is not supported by this server.", path, condition);
}

static int find(const char *name, lh_openai_endpoint endpoint) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((table[i].endpoints & (int)endpoint) && strcmp(table[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* What a value must be for its field to be taken, beside null. */
static json_t *accepted_json(treatment action) {
    switch (action) {
    case HONOURED:
    case TAKEN:
        break;
    case REFUSED:
        return json_pack("{s:s}", "type", "null");
    case REFUSED_TRUE:
        return json_pack("{s:[b, n]}", "enum", 0);
    case REFUSED_FILLED:
        return json_pack("{s:[s, s, s, s], s:i, s:i, s:i}", "type", "array", "object", "string",
                         "null", "maxItems", 0, "maxProperties", 0, "maxLength", 0);
    case REFUSED_ABOVE_0:
        return json_pack("{s:[s, s], s:i}", "type", "number", "null", "maximum", 0);
    case REFUSED_BUT_1:
        return json_pack("{s:[i, n]}", "enum", 1);
    }
    return json_object();
}

static void draw_fields(const lh_body_reader *body, lh_openai_endpoint endpoint, bool strict) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].endpoints & (int)endpoint)
            lh_body_draw(body, table[i].name, accepted_json(table[i].action));
    if (strict && json_object_set_new(body->sketch, "additionalProperties", json_false()))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
}

size_t lh_openai_fields_check(const lh_body_reader *body, lh_openai_endpoint endpoint,
                              bool strict) {
    size_t unknown = 0;
    const char *name;
    json_t *value;
    if (body->sketch)
        draw_fields(body, endpoint, strict);
    json_object_foreach((json_t *)body->object, name, value) {
        int index = find(name, endpoint);
        if (body->error->status)
            break;
        unknown += index < 0;
        if (index < 0 && strict)
            lh_body_refuse(body, name, "unknown_parameter", "is not a parameter known here.");
        else if (index >= 0 && !json_is_null(value))
            check_field(body, name, value, table[index].action);
        bool is_said = !json_is_null(value) && !json_is_false(value);
        if (is_said && (index < 0 || table[index].action == TAKEN))
            lh_body_leave_out(body, name, NULL);
    }
    return unknown;
}
