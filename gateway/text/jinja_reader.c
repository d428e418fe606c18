/* Jinja's tags, token by token: strings, names, numbers, and signs of one byte. What a tag means is
 * left to the caller; how it ends is not, since the end also says what becomes of the white space
 * behind it. */
#include "gateway/text/jinja_reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static lh_status refuse(lh_error *error, const char *why) {
    return lh_fail(error, LH_ERR_UNSUPPORTED, "the chat template %s", why);
}

void lh_jinja_reader_reset(lh_jinja_reader *reader) {
    free(reader->tokens);
    *reader = (lh_jinja_reader){0};
}

static lh_status push_token(lh_jinja_reader *reader, lh_jinja_kind kind, const char *text,
                            size_t length, lh_error *error) {
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity ? reader->capacity * 2 : 64;
        lh_jinja_token *tokens = realloc(reader->tokens, capacity * sizeof *tokens);
        if (!tokens)
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a chat template");
        reader->tokens = tokens;
        reader->capacity = capacity;
    }
    reader->tokens[reader->count++] = (lh_jinja_token){kind, text, length};
    return LH_OK;
}

const char *lh_jinja_reader_find_tag(const lh_jinja_reader *reader) {
    for (const char *at = reader->at; reader->end - at >= 2; at++)
        if (at[0] == '{' && strchr("{%#", at[1]) && at[1])
            return at;
    return reader->end;
}

static lh_status lex_string(lh_jinja_reader *reader, lh_error *error) {
    char quote = *reader->at++;
    const char *text = reader->at;
    while (reader->at < reader->end && *reader->at != quote)
        reader->at += *reader->at == '\\' && reader->end - reader->at > 1 ? 2 : 1;
    if (reader->at == reader->end)
        return refuse(error, "has a string without an end");
    return push_token(reader, LH_JINJA_STRING, text, (size_t)(reader->at++ - text), error);
}

static bool is_name_byte(char byte) {
    return isalnum((unsigned char)byte) || byte == '_';
}

static lh_status lex_token(lh_jinja_reader *reader, lh_error *error) {
    const char *text = reader->at;
    if (*text == '\'' || *text == '"')
        return lex_string(reader, error);
    if (!is_name_byte(*text)) {
        reader->at++;
        return push_token(reader, LH_JINJA_SIGN, text, 1, error);
    }
    while (reader->at < reader->end && is_name_byte(*reader->at))
        reader->at++;
    return push_token(reader, isdigit((unsigned char)*text) ? LH_JINJA_NUMBER : LH_JINJA_NAME, text,
                      (size_t)(reader->at - text), error);
}

/* Does the tag end here, with `close` and a second brace? Takes the end and what it says of white
 * space. */
static bool take_end(lh_jinja_reader *reader, char close) {
    const char *at = reader->at;
    bool minus = *at == '-', plus = *at == '+';
    if (minus || plus)
        at++;
    if (reader->end - at < 2 || at[0] != close || at[1] != '}')
        return false;
    reader->at = at + 2;
    reader->strip_next = minus;
    reader->trim_newline = !minus && !plus && close != '}';
    return true;
}

/* Brackets are counted, since "}}" may close two dictionaries. */
lh_status lh_jinja_reader_take_tag(lh_jinja_reader *reader, char close, lh_error *error) {
    int depth = 0;
    reader->count = 0;
    lh_status status = LH_OK;
    while (!status) {
        while (reader->at < reader->end && isspace((unsigned char)*reader->at))
            reader->at++;
        if (reader->at == reader->end)
            return refuse(error, "has a tag without an end");
        if (depth == 0 && take_end(reader, close))
            return reader->count ? LH_OK : refuse(error, "has an empty tag");
        if (strchr("([{", *reader->at))
            depth++;
        else if (strchr(")]}", *reader->at))
            depth--;
        status = lex_token(reader, error);
    }
    return status;
}

lh_status lh_jinja_reader_skip_comment(lh_jinja_reader *reader, lh_error *error) {
    for (; reader->end - reader->at >= 2; reader->at++)
        if (take_end(reader, '#'))
            return LH_OK;
    return refuse(error, "has a comment without an end");
}
