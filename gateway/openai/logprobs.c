/* Two formats for the same numbers. */
#include "gateway/openai/logprobs.h"

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
    json_t *entry = chat_entry(tokenizer, token->token, token->logprob), *list = json_array();
    for (uint32_t i = 0; i < token->top_count && i < top; i++)
        list =
            lh_json_append(list, chat_entry(tokenizer, token->top[i].token, token->top[i].logprob));
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
    bool whole = map && set_top(map, tokenizer, token->token, token->logprob);
    for (uint32_t i = 0; whole && i < token->top_count && i < top; i++)
        whole = set_top(map, tokenizer, token->top[i].token, token->top[i].logprob);
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
        names = lh_json_append(names, completion_name(name_of(tokenizer, tokens[i].token)));
        numbers = lh_json_append(numbers, number(tokens[i].logprob));
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
        snprintf(text, sizeof text, "%016" PRIx64, tokens[i].digest);
        list = lh_json_append(list, json_string(text));
    }
    return list;
}
