/* A GGUF carries its chat template as a Jinja program. We do not run it: its families are few, and a program
 * from a file is one more thing to trust. We recognise it, and must not be fooled by spelling, of which every
 * converter and fine-tune has its own: `{%- if x -%}` or `{% if x %}`, 'a' or "a", `message.role` or
 * `message['role']`, `{{ 'a' + x }}` or `a{{ x }}`, comments, line breaks. So the template is brought to one
 * form that means the same, and that form is hashed:
 *
 *     {%- for m in ms %}                                     [for m in ms]
 *         {{- '<|im_start|>' + m.role + "\n" -}}      ->     <|im_start|>(m["role"])\n
 *     {%- endfor %}                                          [endfor]
 *
 * with control bytes in the place of [ ] ( ) ". White space goes as transformers has it: trim_blocks and
 * lstrip_blocks on, the template's last line feed dropped.
 *
 * The one thing that may differ within a family is the system message that ChatML templates put in by
 * default: it is taken out and handed to the caller, with a mark in its place.
 *
 * Every step keeps the meaning for the values that a conversation has (strings in dictionaries), so equal
 * forms render equally. The reverse does not hold: a template that says the same in another way is unknown,
 * and refused. */
#include "gateway/chat_signature.h"

#include "common/digest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BEGIN = 1, OUTPUT_END, STATEMENT_BEGIN, STATEMENT_END, SYSTEM_MARK, QUOTE, MARKS_END };

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN } token_kind;

typedef struct jinja_token {
    token_kind kind;
    const char *text; /* a string without its quotes */
    size_t length;
} jinja_token;

typedef struct jinja_reader {
    const char *at, *end;
    jinja_token *tokens; /* of the tag being read */
    size_t count, capacity;
    lh_text_buffer form;
    bool strip_next;   /* the last tag ended with '-' */
    bool trim_newline; /* the last tag was a statement or a comment, without '+' */
    bool line_start;   /* the text read now begins a line */
    lh_error *error;
} jinja_reader;

static lh_status put(jinja_reader *reader, const char *bytes, size_t length) {
    return lh_text_buffer_append(&reader->form, bytes, length, reader->error);
}

static lh_status put_mark(jinja_reader *reader, int mark) {
    return put(reader, &(char){(char)mark}, 1);
}

static lh_status refuse(jinja_reader *reader, const char *why) {
    return lh_fail(reader->error, LH_ERR_UNSUPPORTED, "the chat template %s", why);
}

/* tokens of a tag */

static lh_status push_token(jinja_reader *reader, token_kind kind, const char *text, size_t length) {
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity ? reader->capacity * 2 : 64;
        jinja_token *tokens = realloc(reader->tokens, capacity * sizeof *tokens);
        if (!tokens)
            return lh_fail(reader->error, LH_ERR_NO_MEMORY, "no memory for a chat template");
        reader->tokens = tokens;
        reader->capacity = capacity;
    }
    reader->tokens[reader->count++] = (jinja_token){kind, text, length};
    return LH_OK;
}

static lh_status lex_string(jinja_reader *reader) {
    char quote = *reader->at++;
    const char *text = reader->at;
    while (reader->at < reader->end && *reader->at != quote)
        reader->at += *reader->at == '\\' && reader->end - reader->at > 1 ? 2 : 1;
    if (reader->at == reader->end)
        return refuse(reader, "has a string without an end");
    return push_token(reader, TOKEN_STRING, text, (size_t)(reader->at++ - text));
}

static bool is_name_byte(char byte) {
    return isalnum((unsigned char)byte) || byte == '_';
}

static lh_status lex_token(jinja_reader *reader) {
    const char *text = reader->at;
    if (*text == '\'' || *text == '"')
        return lex_string(reader);
    if (!is_name_byte(*text)) {
        reader->at++;
        return push_token(reader, TOKEN_SIGN, text, 1);
    }
    while (reader->at < reader->end && is_name_byte(*reader->at))
        reader->at++;
    return push_token(reader, isdigit((unsigned char)*text) ? TOKEN_NUMBER : TOKEN_NAME, text,
                      (size_t)(reader->at - text));
}

/* Does the tag end here, with `close` and a second brace? Takes the end, and what it says about white space.
 */
static bool take_end(jinja_reader *reader, char close) {
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

/* Reads tokens up to the end of the tag. Brackets are counted, since "}}" may close two dictionaries. */
static lh_status lex_tag(jinja_reader *reader, char close) {
    int depth = 0;
    reader->count = 0;
    lh_status status = LH_OK;
    while (!status) {
        while (reader->at < reader->end && isspace((unsigned char)*reader->at))
            reader->at++;
        if (reader->at == reader->end)
            return refuse(reader, "has a tag without an end");
        if (depth == 0 && take_end(reader, close))
            return reader->count ? LH_OK : refuse(reader, "has an empty tag");
        if (strchr("([{", *reader->at))
            depth++;
        else if (strchr(")]}", *reader->at))
            depth--;
        status = lex_token(reader);
    }
    return status;
}

static bool is_sign(const jinja_token *token, char sign) {
    return token->kind == TOKEN_SIGN && *token->text == sign;
}

static bool is_name(const jinja_token *token, const char *name) {
    return token->kind == TOKEN_NAME && token->length == strlen(name) &&
           memcmp(token->text, name, token->length) == 0;
}

/* their one form */

static lh_status put_string_value(jinja_reader *reader, const jinja_token *token) {
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    lh_status status = LH_OK;
    for (size_t i = 0; i < token->length && !status; i++) {
        const char *byte = &token->text[i];
        if (*byte == '\\') {
            const char *known = i + 1 < token->length ? strchr(from, token->text[i + 1]) : NULL;
            if (!known || !*known)
                return refuse(reader, "has an escape in a string that is not supported");
            byte = &to[known - from];
            i++;
        }
        status = put(reader, byte, 1);
    }
    return status;
}

static lh_status put_quoted(jinja_reader *reader, const jinja_token *token) {
    lh_status status;
    if ((status = put_mark(reader, QUOTE)) || (status = put_string_value(reader, token)))
        return status;
    return put_mark(reader, QUOTE);
}

/* Jinja takes True and true, None and none. */
static lh_status put_name(jinja_reader *reader, const jinja_token *token) {
    static const char *const capital[] = {"True", "False", "None"}, *const plain[] = {"true", "false",
                                                                                      "none"};
    for (size_t i = 0; i < 3; i++)
        if (is_name(token, capital[i]))
            return put(reader, plain[i], strlen(plain[i]));
    return put(reader, token->text, token->length);
}

/* `a.b` is `a["b"]` for dictionaries and for `loop`; `a.b()` is a method and stays. */
static bool is_item(const jinja_token *tokens, size_t count, size_t i) {
    return is_sign(&tokens[i], '.') && i > 0 && i + 1 < count && tokens[i + 1].kind == TOKEN_NAME &&
           !(i + 2 < count && is_sign(&tokens[i + 2], '('));
}

static lh_status put_item(jinja_reader *reader, const jinja_token *name) {
    lh_status status;
    if ((status = put(reader, "[", 1)) || (status = put_quoted(reader, name)))
        return status;
    return put(reader, "]", 1);
}

static lh_status put_tokens(jinja_reader *reader, const jinja_token *tokens, size_t count) {
    lh_status status = LH_OK;
    bool word = false; /* the last was a word: another one needs a space between */
    for (size_t i = 0; i < count && !status; i++) {
        const jinja_token *token = &tokens[i];
        bool is_word = token->kind == TOKEN_NAME || token->kind == TOKEN_NUMBER;
        if (word && is_word && (status = put(reader, " ", 1)))
            break;
        word = is_word;
        if (is_item(tokens, count, i))
            status = put_item(reader, &tokens[++i]);
        else if (token->kind == TOKEN_STRING)
            status = put_quoted(reader, token);
        else if (token->kind == TOKEN_NAME)
            status = put_name(reader, token);
        else
            status = put(reader, token->text, token->length);
    }
    return status;
}

static int depth_change(const jinja_token *token) {
    if (token->kind != TOKEN_SIGN)
        return 0;
    return strchr("([{", *token->text) ? 1 : strchr(")]}", *token->text) ? -1 : 0;
}

/* Takes brackets off that enclose the whole. */
static void strip_brackets(const jinja_token **tokens, size_t *count) {
    while (*count >= 2 && is_sign(*tokens, '(') && is_sign(*tokens + *count - 1, ')')) {
        int depth = 0;
        for (size_t i = 0; i + 1 < *count; i++)
            if ((depth += depth_change(*tokens + i)) == 0)
                return; /* the first bracket closes before the end */
        ++*tokens;
        *count -= 2;
    }
}

/* Is it a sum (or one term), not a choice or a comparison? */
static bool is_sum(const jinja_token *tokens, size_t count) {
    static const char *const words[] = {"if", "else", "or", "and", "not", "in", "is"};
    int depth = 0;
    for (size_t i = 0; i < count; i++) {
        depth += depth_change(&tokens[i]);
        if (depth > 0)
            continue;
        if (tokens[i].kind == TOKEN_SIGN && strchr("=<>!~-*/%", *tokens[i].text))
            return false;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            if (is_name(&tokens[i], words[w]))
                return false;
    }
    return true;
}

static lh_status put_term(jinja_reader *reader, const jinja_token *tokens, size_t count) {
    lh_status status;
    if (count == 1 && tokens->kind == TOKEN_STRING)
        return put_string_value(reader, tokens); /* the same as plain text */
    if ((status = put_mark(reader, OUTPUT_BEGIN)) || (status = put_tokens(reader, tokens, count)))
        return status;
    return put_mark(reader, OUTPUT_END);
}

/* {{ a + b }} is {{ a }}{{ b }}. */
static lh_status put_output(jinja_reader *reader) {
    const jinja_token *tokens = reader->tokens;
    size_t count = reader->count;
    strip_brackets(&tokens, &count);
    bool sum = is_sum(tokens, count);
    lh_status status = LH_OK;
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < count && !status; i++) {
        depth += depth_change(&tokens[i]);
        if (sum && depth == 0 && is_sign(&tokens[i], '+')) {
            status = put_term(reader, tokens + begin, i - begin);
            begin = i + 1;
        }
    }
    return status ? status : put_term(reader, tokens + begin, count - begin);
}

static lh_status put_statement(jinja_reader *reader) {
    const jinja_token *tokens = reader->tokens;
    size_t count = reader->count;
    lh_status status = put_mark(reader, STATEMENT_BEGIN);
    if (!status && count > 0 && (is_name(tokens, "if") || is_name(tokens, "elif"))) {
        if ((status = put_name(reader, tokens)) || (status = put(reader, " ", 1)))
            return status;
        tokens++;
        count--;
        strip_brackets(&tokens, &count);
    }
    if (!status)
        status = put_tokens(reader, tokens, count);
    return status ? status : put_mark(reader, STATEMENT_END);
}

/* text and tags */

/* The next "{{", "{%" or "{#", or the end. */
static const char *find_tag(const jinja_reader *reader) {
    for (const char *at = reader->at; reader->end - at >= 2; at++)
        if (at[0] == '{' && strchr("{%#", at[1]) && at[1])
            return at;
    return reader->end;
}

/* lstrip_blocks: drops the white space between a line's start and a statement. */
static const char *strip_indent(const jinja_reader *reader, const char *begin, const char *end) {
    const char *at = end;
    while (at > begin && at[-1] != '\n' && isspace((unsigned char)at[-1]))
        at--;
    bool at_line_start = at > begin ? at[-1] == '\n' : reader->line_start;
    return at_line_start ? at : end;
}

static lh_status read_text(jinja_reader *reader, const char *tag) {
    const char *begin = reader->at, *end = tag;
    if (reader->strip_next) {
        while (begin < end && isspace((unsigned char)*begin))
            begin++;
    } else if (reader->trim_newline && begin < end && *begin == '\n') {
        begin++;
        reader->line_start = true;
    }
    char sign = reader->end - tag >= 3 ? tag[2] : '\0';
    if (tag < reader->end && sign == '-') {
        while (end > begin && isspace((unsigned char)end[-1]))
            end--;
    } else if (tag < reader->end && tag[1] != '{' && sign != '+') {
        end = strip_indent(reader, begin, end);
    }
    reader->at = tag;
    reader->line_start = false;
    return put(reader, begin, (size_t)(end - begin));
}

static lh_status skip_comment(jinja_reader *reader) {
    for (; reader->end - reader->at >= 2; reader->at++)
        if (take_end(reader, '#'))
            return LH_OK;
    return refuse(reader, "has a comment without an end");
}

static lh_status read_tag(jinja_reader *reader) {
    char kind = reader->at[1];
    reader->at += 2;
    if (reader->at < reader->end && (*reader->at == '-' || *reader->at == '+'))
        reader->at++;
    if (kind == '#')
        return skip_comment(reader);
    lh_status status = lex_tag(reader, kind == '{' ? '}' : '%');
    if (status)
        return status;
    return kind == '{' ? put_output(reader) : put_statement(reader);
}

static lh_status read_all(jinja_reader *reader) {
    lh_status status = LH_OK;
    while (reader->at < reader->end && !status) {
        const char *tag = find_tag(reader);
        status = read_text(reader, tag);
        if (!status && tag < reader->end)
            status = read_tag(reader);
    }
    return status;
}

/* the default system message */

/* The plain text between a ChatML system turn's head and end, if the template has one. */
static bool find_system(const lh_text_buffer *form, const char **system, size_t *length) {
    static const char head[] = "<|im_start|>system\n", tail[] = "<|im_end|>";
    if (form->length == 0)
        return false;
    const char *at = form->bytes, *end = at + form->length;
    while ((at = memmem(at, (size_t)(end - at), head, sizeof head - 1))) {
        at += sizeof head - 1;
        const char *stop = at;
        while (stop < end && (uint8_t)*stop >= MARKS_END)
            stop++;
        const char *close = memmem(at, (size_t)(stop - at), tail, sizeof tail - 1);
        if (close && close > at) {
            *system = at;
            *length = (size_t)(close - at);
            return true;
        }
    }
    return false;
}

static lh_status hash_form(const lh_text_buffer *form, uint64_t *hash, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_sha256_digest(form->bytes, form->length, digest);
    if (status)
        return lh_fail(error, status, "no memory for a chat template's signature");
    *hash = 0;
    for (size_t i = 0; i < 8; i++)
        *hash = *hash << 8 | digest[i];
    return LH_OK;
}

/* Hashes the form with a mark in every place of the system message, and hands that out. */
static lh_status finish(jinja_reader *reader, lh_chat_signature *signature) {
    lh_text_buffer marked = {0};
    const char *system;
    size_t length;
    lh_status status = LH_OK;
    if (!find_system(&reader->form, &system, &length))
        return hash_form(&reader->form, &signature->hash, reader->error);
    const char *at = reader->form.bytes, *end = at + reader->form.length;
    for (const char *next; !status && (next = memmem(at, (size_t)(end - at), system, length));
         at = next + length)
        if (!(status = lh_text_buffer_append(&marked, at, (size_t)(next - at), reader->error)))
            status = lh_text_buffer_append(&marked, &(char){SYSTEM_MARK}, 1, reader->error);
    if (!status && !(status = lh_text_buffer_append(&marked, at, (size_t)(end - at), reader->error)))
        status = lh_text_buffer_append(&signature->system, system, length, reader->error);
    if (!status)
        status = hash_form(&marked, &signature->hash, reader->error);
    lh_text_buffer_reset(&marked);
    return status;
}

lh_status lh_chat_signature_read(const char *text, size_t length, lh_chat_signature *signature,
                                 lh_error *error) {
    *signature = (lh_chat_signature){0};
    if (length > LH_CHAT_TEMPLATE_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "the chat template has %zu bytes, more than %u", length,
                       LH_CHAT_TEMPLATE_BYTES_MAX);
    jinja_reader reader = {.at = text, .end = text + length, .line_start = true, .error = error};
    if (length > 0 && text[length - 1] == '\n')
        reader.end--;
    lh_status status = LH_OK;
    for (size_t i = 0; i < length && !status; i++)
        if ((uint8_t)text[i] < MARKS_END)
            status = refuse(&reader, "has control characters");
    if (!status && !(status = read_all(&reader)))
        status = finish(&reader, signature);
    lh_text_buffer_reset(&reader.form);
    free(reader.tokens);
    return status;
}
