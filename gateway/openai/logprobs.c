/* Two formats for the same numbers. */
#include "gateway/openai/logprobs.h"

#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "common/json/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FLOOR (-9999.0) /* for what cannot be drawn: JSON has no infinity */

static lh_text name_of(const lh_tokenizer *tokenizer, uint32_t token) {
    lh_text name;
    if (lh_tokenizer_token_name(tokenizer, token, &name.bytes, &name.length))
        name = (lh_text){"", 0};
    return name;
}

static json_t *number(float logprob) {
    double value = (double)logprob;
    return json_real(value >= FLOOR ? value : FLOOR);
}

/* ---- Chat. ---- */

static json_t *byte_list(lh_text name) {
    json_t *list = json_array();
    for (size_t i = 0; i < name.length; i++)
        list = lh_json_append(list, json_integer((unsigned char)name.bytes[i]));
    return list;
}

static json_t *chat_entry(const lh_tokenizer *tokenizer, uint32_t token, float logprob) {
    lh_text name = name_of(tokenizer, token);
    return json_pack("{s:o, s:o, s:o}", "token", lh_json_text(name.bytes, name.length), "logprob",
                     number(logprob), "bytes", byte_list(name));
}

static json_t *chat_token(const lh_tokenizer *tokenizer, const lh_generation_token *token,
                          uint32_t top) {
    json_t *entry = chat_entry(tokenizer, token->answer.token, token->answer.logprob),
           *list = json_array();
    for (uint32_t i = 0; i < token->answer.top_count && i < top; i++)
        list = lh_json_append(
            list, chat_entry(tokenizer, token->answer.top[i].token, token->answer.top[i].logprob));
    return lh_json_set(entry, "top_logprobs", list);
}

static json_t *chat_logprobs(const lh_tokenizer *tokenizer, const lh_generation_token *tokens,
                             size_t count, uint32_t top) {
    json_t *content = json_array();
    for (size_t i = 0; i < count; i++)
        content = lh_json_append(content, chat_token(tokenizer, &tokens[i], top));
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* ---- Completions. ---- */

/* A token's text; for half a character its bytes as "bytes:\xe2\x80", so that different tokens have
 * different names. */
static void print_name(lh_text name, char *out, size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "bytes:");
    for (size_t i = 0; i < name.length && used + 5 <= bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "\\x%02x", (unsigned char)name.bytes[i]);
}

static json_t *completion_name(lh_text name) {
    if (lh_utf8_valid_prefix(name.bytes, name.length) == name.length)
        return lh_json_text(name.bytes, name.length);
    char text[256];
    print_name(name, text, sizeof text);
    return json_string(text);
}

/* Two tokens of one name share an entry: the likelier one's. False: no memory. */
static bool set_top(json_t *map, const lh_tokenizer *tokenizer, uint32_t token, float logprob) {
    json_t *name = completion_name(name_of(tokenizer, token)), *value = number(logprob);
    json_t *known = json_object_getn(map, json_string_value(name), json_string_length(name));
    bool set = name && value;
    if (set && !(known && json_real_value(known) >= json_real_value(value)))
        set = json_object_setn(map, json_string_value(name), json_string_length(name), value) == 0;
    json_decref(value);
    json_decref(name);
    return set;
}

/* The alternatives and the drawn token itself, whose number is the same float as in token_logprobs.
 */
static json_t *top_map(const lh_tokenizer *tokenizer, const lh_generation_token *token,
                       uint32_t top) {
    json_t *map = json_object();
    bool whole = map && set_top(map, tokenizer, token->answer.token, token->answer.logprob);
    for (uint32_t i = 0; whole && i < token->answer.top_count && i < top; i++)
        whole = set_top(map, tokenizer, token->answer.top[i].token, token->answer.top[i].logprob);
    if (whole)
        return map;
    json_decref(map);
    return NULL;
}

static json_t *completion_logprobs(const lh_tokenizer *tokenizer, const lh_generation_token *tokens,
                                   size_t count, uint32_t top) {
    json_t *names = json_array(), *numbers = json_array(), *tops = json_array(),
           *offsets = json_array();
    for (size_t i = 0; i < count; i++) {
        names = lh_json_append(names, completion_name(name_of(tokenizer, tokens[i].answer.token)));
        numbers = lh_json_append(numbers, number(tokens[i].answer.logprob));
        tops = lh_json_append(tops, top_map(tokenizer, &tokens[i], top));
        offsets = lh_json_append(offsets, json_integer((json_int_t)tokens[i].text_offset));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", names, "token_logprobs", numbers,
                     "top_logprobs", tops, "text_offset", offsets);
}

json_t *lh_openai_logprobs(lh_openai_endpoint endpoint, const lh_tokenizer *tokenizer,
                           const lh_generation_token *tokens, size_t count, uint32_t top) {
    return lh_openai_is_chat(endpoint) ? chat_logprobs(tokenizer, tokens, count, top)
                                       : completion_logprobs(tokenizer, tokens, count, top);
}

/* ---- Prompts. ---- */

/* Where each token's text begins, and how many characters all have; what the tokenizer put before
 * the text that is echoed (a blank, with some models) counts for nothing. LH_ERR_NO_MEMORY. */
static lh_status find_offsets(const lh_tokenizer *tokenizer, lh_generation_token *tokens,
                              size_t count, size_t characters) {
    lh_text_decoder decoder;
    lh_text_buffer text = {0};
    lh_status status = LH_OK;
    size_t before = 0;
    lh_text_decoder_init(&decoder);
    for (size_t i = 0; i < count && !status; i++) {
        const char *bytes;
        size_t length;
        tokens[i].text_offset = before;
        text.length = 0;
        status = lh_tokenizer_token_bytes(tokenizer, tokens[i].answer.token, &bytes, &length);
        if (!status)
            status = lh_text_decoder_push(&decoder, bytes, length, &text, NULL);
        before += text.length ? lh_utf8_count(text.bytes, text.length) : 0;
    }
    text.length = 0;
    if (!status)
        status = lh_text_decoder_finish(&decoder, &text, NULL);
    before += text.length ? lh_utf8_count(text.bytes, text.length) : 0;
    size_t extra = before > characters ? before - characters : 0;
    for (size_t i = 0; i < count; i++)
        tokens[i].text_offset -= tokens[i].text_offset < extra ? tokens[i].text_offset : extra;
    lh_text_buffer_reset(&text);
    return status;
}

static lh_generation_token scored_token(const lh_prompt_scores *scores, const lh_prompt_score *of) {
    return (lh_generation_token){
        .answer = {.token = of->token,
                   .logprob = of->logprob,
                   .top_count = of->top_count,
                   .top = of->top_count ? scores->tops + of->first_top : NULL}};
}

json_t *lh_openai_echo_logprobs(const lh_tokenizer *tokenizer, const lh_prompt_scores *scores,
                                uint32_t top) {
    lh_generation_token *tokens = calloc(scores->count, sizeof *tokens);
    json_t *all = NULL;
    for (uint32_t i = 0; tokens && i < scores->count; i++)
        tokens[i] = scored_token(scores, &scores->list[i]);
    if (tokens && !find_offsets(tokenizer, tokens, scores->count, scores->characters))
        all = completion_logprobs(tokenizer, tokens, scores->count, top);
    free(tokens);
    if (all) {
        json_array_set_new(json_object_get(all, "token_logprobs"), 0, json_null());
        json_array_set_new(json_object_get(all, "top_logprobs"), 0, json_null());
    }
    return all;
}

/* The object with one more token; an id that is there stays as it is. */
static json_t *add_scored(json_t *object, const lh_tokenizer *tokenizer, uint32_t token,
                          float logprob, uint32_t rank) {
    char id[16];
    lh_text name = name_of(tokenizer, token);
    snprintf(id, sizeof id, "%u", token);
    if (json_object_get(object, id))
        return object;
    return lh_json_set(object, id,
                       json_pack("{s:o, s:I, s:o}", "logprob", number(logprob), "rank",
                                 (json_int_t)rank, "decoded_token",
                                 lh_json_text(name.bytes, name.length)));
}

static json_t *scored_entry(const lh_tokenizer *tokenizer, const lh_prompt_scores *scores,
                            const lh_prompt_score *of, uint32_t top) {
    json_t *entry = add_scored(json_object(), tokenizer, of->token, of->logprob, of->rank);
    for (uint32_t i = 0; i < of->top_count && i < top; i++) {
        const lh_token_logprob *best = &scores->tops[of->first_top + i];
        entry = add_scored(entry, tokenizer, best->token, best->logprob, i + 1);
    }
    return entry;
}

json_t *lh_openai_prompt_logprobs(const lh_tokenizer *tokenizer, const lh_prompt_scores *scores,
                                  uint32_t top) {
    json_t *list = lh_json_append(json_array(), json_null());
    for (uint32_t i = 1; i < scores->count; i++)
        list = lh_json_append(list, scored_entry(tokenizer, scores, &scores->list[i], top));
    return list;
}

bool lh_openai_logprobs_extend(json_t **all, json_t *more) {
    if (!*all) {
        *all = more;
        return more;
    }
    const char *key;
    json_t *list;
    bool whole = more && (json_is_object(more) || json_array_extend(*all, more) == 0);
    json_object_foreach(more, key, list) {
        if (json_is_array(list) && json_array_extend(json_object_get(*all, key), list) != 0)
            whole = false;
    }
    json_decref(more);
    return whole;
}

json_t *lh_openai_digests(const lh_generation_token *tokens, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[17];
        snprintf(text, sizeof text, "%016" PRIx64, tokens[i].answer.digest);
        list = lh_json_append(list, json_string(text));
    }
    return list;
}
