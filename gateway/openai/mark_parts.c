/* Marks are control tokens in some models and text in others: texts become lists of both. */
#include "gateway/openai/mark_parts.h"

#include "common/json/json_text.h"

#include <stdlib.h>
#include <string.h>

/* The name of a token that has no bytes; its length is 0 where it has some. */
static lh_text control_name(const lh_tokenizer *tokenizer, uint32_t token) {
    lh_text name = {"", 0};
    const char *bytes;
    size_t length = 0;
    if (lh_tokenizer_token_bytes(tokenizer, token, &bytes, &length) == LH_OK && length == 0)
        (void)lh_tokenizer_token_name(tokenizer, token, &name.bytes, &name.length);
    return name;
}

/* What stands before the next control token in the text, then that token. */
static json_t *append_parts(json_t *parts, const lh_tokenizer *tokenizer, const char *text,
                            const lh_tokens *tokens) {
    const char *end = text + strlen(text);
    for (size_t i = 0; i < tokens->count; i++) {
        lh_text name = control_name(tokenizer, tokens->ids[i]);
        const char *at =
            name.length ? memmem(text, (size_t)(end - text), name.bytes, name.length) : NULL;
        if (!at)
            continue;
        if (at > text)
            parts = lh_json_append(parts, lh_json_text(text, (size_t)(at - text)));
        parts = lh_json_append(parts, json_integer(tokens->ids[i]));
        text = at + name.length;
    }
    return end > text ? lh_json_append(parts, lh_json_text(text, (size_t)(end - text))) : parts;
}

json_t *lh_openai_mark_parts(const lh_tokenizer *tokenizer, const char *text) {
    lh_tokens tokens = {0};
    bool is_read = lh_tokenizer_encode(tokenizer, text, strlen(text), true, &tokens, NULL) == LH_OK;
    json_t *parts = is_read ? append_parts(json_array(), tokenizer, text, &tokens) : NULL;
    free(tokens.ids);
    return parts;
}
