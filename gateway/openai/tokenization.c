/* Ids are printed, not built: a text of a MiB may be a million of them. */
#include "gateway/openai/tokenization.h"

#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "common/json/json_text.h"
#include "gateway/openai/prompt.h"
#include "gateway/openai/served_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lh_text name_of(const lh_served_model *model, uint32_t token) {
    lh_text name;
    if (lh_tokenizer_token_name(model->tokenizer, token, &name.bytes, &name.length))
        name = (lh_text){"", 0};
    return name;
}

static lh_status print(lh_text_buffer *out, const char *text) {
    return lh_text_buffer_append(out, text, strlen(text), NULL);
}

/* ---- Text to ids. ---- */

/* Appends bytes as a list of numbers. */
static lh_status print_bytes(lh_text bytes, lh_text_buffer *out) {
    char number[8];
    lh_status status = print(out, "[");
    for (size_t i = 0; i < bytes.length && !status; i++) {
        snprintf(number, sizeof number, i ? ",%u" : "%u", (unsigned char)bytes.bytes[i]);
        status = print(out, number);
    }
    return status ? status : print(out, "]");
}

/* A token as llama.cpp shows it with_pieces: its text, or its bytes where that is no text. */
static lh_status print_piece(const lh_served_model *model, uint32_t token, lh_text_buffer *out) {
    char head[40];
    lh_text name = name_of(model, token);
    snprintf(head, sizeof head, "{\"id\":%u,\"piece\":", token);
    lh_status status = print(out, head);
    if (status)
        return status;
    status = lh_utf8_valid_prefix(name.bytes, name.length) == name.length
                 ? lh_json_render(lh_json_text(name.bytes, name.length), out)
                 : print_bytes(name, out);
    return status ? status : print(out, "}");
}

typedef enum listing { LIST_IDS, LIST_PIECES, LIST_NAMES } listing;

static lh_status print_token(const lh_served_model *model, uint32_t token, listing as,
                             lh_text_buffer *out) {
    char id[16];
    lh_text name;
    switch (as) {
    case LIST_IDS:
        snprintf(id, sizeof id, "%u", token);
        return print(out, id);
    case LIST_PIECES:
        return print_piece(model, token, out);
    case LIST_NAMES:
        name = name_of(model, token);
        return lh_json_render(lh_json_text(name.bytes, name.length), out);
    }
    return LH_ERR_INTERNAL;
}

static lh_status print_tokens(const lh_served_model *model, const lh_tokens *tokens, listing as,
                              lh_text_buffer *out) {
    lh_status status = print(out, "[");
    for (size_t i = 0; i < tokens->count && !status; i++) {
        status = i ? print(out, ",") : LH_OK;
        status = status ? status : print_token(model, tokens->ids[i], as, out);
    }
    return status ? status : print(out, "]");
}

/* How the answer is to look. */
typedef struct answer_shape {
    bool has_counts; /* vLLM's */
    bool has_names, has_pieces;
} answer_shape;

static lh_status print_answer(const lh_openai_service *service, const lh_tokens *tokens,
                              answer_shape shape, lh_text_buffer *out) {
    const lh_served_model *model = service->model;
    char counts[64] = "{";
    if (shape.has_counts)
        snprintf(counts, sizeof counts, "{\"count\":%zu,\"max_model_len\":%u,", tokens->count,
                 lh_openai_served_context(service));
    lh_status status = print(out, counts);
    if (!status)
        status = print(out, "\"tokens\":");
    if (!status)
        status = print_tokens(model, tokens, shape.has_pieces ? LIST_PIECES : LIST_IDS, out);
    if (!status && shape.has_names)
        status = print(out, ",\"token_strs\":");
    if (!status && shape.has_names)
        status = print_tokens(model, tokens, LIST_NAMES, out);
    return status ? status : print(out, "}");
}

static bool refuse_size(const char *param, lh_openai_error *error) {
    return lh_openai_refuse(error, 400, param, "string_above_max_length",
                            "'%s' has more than %u bytes, the most that are tokenized at once.",
                            param, LH_OPENAI_TOKENIZED_BYTES_MAX);
}

/* Special tokens are recognised in the text, as in both peers: nothing is generated from it. */
static bool tokenize_text(const lh_served_model *model, const lh_body_reader *body, const char *key,
                          bool adds_bos, lh_tokens *tokens) {
    const json_t *text = lh_body_field(body, key);
    bool parses_special = lh_body_bool_or(body, "parse_special", true);
    if (body->error->status)
        return false;
    if (!json_is_string(text))
        return lh_openai_refuse(body->error, 400, key,
                                text ? "invalid_type" : "missing_required_parameter",
                                "'%s' must be a string.", key);
    if (json_string_length(text) > LH_OPENAI_TOKENIZED_BYTES_MAX)
        return refuse_size(key, body->error);
    lh_error cause = {.status = LH_OK};
    lh_status status = LH_OK;
    if (adds_bos && lh_tokenizer_adds_bos(model->tokenizer))
        status = lh_tokens_push(tokens, (uint32_t)lh_tokenizer_bos(model->tokenizer), &cause);
    if (!status)
        status = lh_tokenizer_encode(model->tokenizer, json_string_value(text),
                                     json_string_length(text), parses_special, tokens, &cause);
    return !status || lh_openai_refuse_cause(body->error, &cause);
}

static bool tokenize_chat(const lh_openai_service *service, json_t *body, lh_tokens *tokens,
                          lh_openai_error *error) {
    lh_openai_request request;
    size_t bytes = 0;
    bool is_thinking;
    bool parsed = lh_openai_request_parse(json_incref(body), LH_OPENAI_CHAT,
                                          &service->config.limits, &request, error);
    for (size_t i = 0; parsed && i < request.message_count; i++)
        bytes += request.messages[i].content_length;
    if (parsed && bytes > LH_OPENAI_TOKENIZED_BYTES_MAX)
        parsed = refuse_size("messages", error);
    parsed =
        parsed && lh_openai_prompt_from_chat(service->model, &request, tokens, &is_thinking, error);
    lh_openai_request_reset(&request);
    return parsed;
}

/* What is asked of the body that has one of the three is drawn of all. */
static void draw_texts(const lh_body_reader *body) {
    static const char *const keys[] = {"prompt", "content"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        lh_body_typed(body, keys[i], "string", "a string");
    lh_body_typed(body, "messages", "array", "a list of at least one message");
    lh_body_bool(body, "add_special");
    lh_body_bool(body, "add_special_tokens");
}

bool lh_openai_tokenize(const lh_openai_service *service, const lh_openai_limits *limits,
                        json_t *body, lh_text_buffer *reply, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, NULL};
    bool is_llama = lh_body_field(&reader, "content");
    lh_tokens tokens = {0};
    answer_shape shape = {.has_counts = !is_llama,
                          .has_names = lh_body_bool(&reader, "return_token_strs"),
                          .has_pieces = lh_body_bool(&reader, "with_pieces")};
    bool adds_bos = is_llama ? lh_body_bool(&reader, "add_special")
                             : lh_body_bool_or(&reader, "add_special_tokens", true);
    lh_openai_check_model(&reader, limits);
    draw_texts(&reader);
    bool made =
        !error->status && (lh_body_field(&reader, "messages")
                               ? tokenize_chat(service, body, &tokens, error)
                               : tokenize_text(service->model, &reader,
                                               is_llama ? "content" : "prompt", adds_bos, &tokens));
    if (made && print_answer(service, &tokens, shape, reply))
        made = lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    free(tokens.ids);
    json_decref(body);
    return made;
}

/* ---- Ids to text. ---- */

static bool append_text(const lh_served_model *model, const lh_body_reader *body,
                        const json_t *list, lh_text_buffer *text) {
    lh_text_decoder decoder;
    lh_text_decoder_init(&decoder);
    lh_status status = LH_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        uint32_t token = lh_body_token(body, "tokens", list, i, model->vocabulary);
        if (body->error->status)
            return false;
        lh_text name = name_of(model, token);
        status = lh_text_decoder_push(&decoder, name.bytes, name.length, text, NULL);
        if (text->length > LH_OPENAI_DETOKENIZED_BYTES_MAX) {
            lh_body_refuse(body, "tokens", "array_above_max_length",
                           "stand for more than %u bytes of text.",
                           LH_OPENAI_DETOKENIZED_BYTES_MAX);
            return false;
        }
    }
    status = status ? status : lh_text_decoder_finish(&decoder, text, NULL);
    return !status || lh_openai_refuse_status(body->error, status);
}

bool lh_openai_detokenize(const lh_openai_service *service, const lh_openai_limits *limits,
                          const json_t *body, lh_text_buffer *reply, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, NULL};
    lh_text_buffer text = {0};
    lh_openai_check_model(&reader, limits);
    const json_t *list = lh_body_typed(&reader, "tokens", "array", "a list of token ids");
    if (!list)
        lh_body_refuse(&reader, "tokens", "missing_required_parameter", "is missing.");
    bool made = !error->status && append_text(service->model, &reader, list, &text);
    if (made) {
        json_t *shown = lh_json_text(text.bytes, text.length);
        if (lh_json_render(json_pack("{s:O, s:O}", "prompt", shown, "content", shown), reply))
            made = lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
        json_decref(shown);
    }
    lh_text_buffer_reset(&text);
    return made;
}

/* ---- What the tokenizer is. ---- */

static json_t *name_json(const lh_served_model *model, int64_t token) {
    if (token < 0)
        return json_null();
    lh_text name = name_of(model, (uint32_t)token);
    return lh_json_text(name.bytes, name.length);
}

json_t *lh_openai_tokenizer_json(const lh_served_model *model) {
    const lh_tokenizer *tokenizer = model->tokenizer;
    lh_text chat = {NULL, 0};
    if (model->chat_template)
        chat = lh_chat_template_text(model->chat_template);
    return json_pack("{s:o, s:o, s:o, s:b, s:I, s:I, s:o}", "bos_token",
                     name_json(model, lh_tokenizer_bos(tokenizer)), "eos_token",
                     name_json(model, lh_tokenizer_eos(tokenizer)), "pad_token",
                     name_json(model, lh_tokenizer_pad(tokenizer)), "add_bos_token",
                     lh_tokenizer_adds_bos(tokenizer), "vocab_size", (json_int_t)model->vocabulary,
                     "model_max_length", (json_int_t)model->context, "chat_template",
                     chat.bytes ? lh_json_text(chat.bytes, chat.length) : json_null());
}
