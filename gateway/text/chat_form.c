/* A template is spelled in many ways that mean the same: `{%- if x -%}` or `{% if x %}`, 'a' or
 * "a", `message.role` or `message['role']`, `{{ 'a' + x }}` or `a{{ x }}`, comments, line breaks.
 * It is brought to one form:
 *
 *     {%- for m in ms %}                                     [for m in ms]
 *         {{- '<|im_start|>' + m.role + "\n" -}}      ->     <|im_start|>(m["role"])\n
 *     {%- endfor %}                                          [endfor]
 *
 * with control bytes in the place of [ ] ( ) ". White space goes as transformers has it:
 * trim_blocks and lstrip_blocks on, the template's last line feed dropped.
 *
 * Every step keeps the meaning for the values that a conversation has (strings in dictionaries), so
 * equal forms render equally. The reverse does not hold. */
#include "gateway/text/chat_form.h"

#include "gateway/text/jinja_reader.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct form_writer {
    lh_jinja_reader jinja;
    lh_text_buffer *form;
    bool line_start; /* the text read now begins a line */
    lh_error *error;
} form_writer;

static lh_status put(form_writer *writer, const char *bytes, size_t length) {
    return lh_text_buffer_append(writer->form, bytes, length, writer->error);
}

static lh_status put_mark(form_writer *writer, int mark) {
    return put(writer, &(char){(char)mark}, 1);
}

/* tokens in their one form */

static bool is_sign(const lh_jinja_token *token, char sign) {
    return token->kind == LH_JINJA_SIGN && *token->text == sign;
}

static bool is_name(const lh_jinja_token *token, const char *name) {
    return token->kind == LH_JINJA_NAME && token->length == strlen(name) &&
           memcmp(token->text, name, token->length) == 0;
}

static lh_status put_string_value(form_writer *writer, const lh_jinja_token *token) {
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    lh_status status = LH_OK;
    for (size_t i = 0; i < token->length && !status; i++) {
        const char *byte = &token->text[i];
        if (*byte == '\\') {
            const char *known = i + 1 < token->length ? strchr(from, token->text[i + 1]) : NULL;
            if (!known || !*known)
                return lh_fail(writer->error, LH_ERR_UNSUPPORTED,
                               "the chat template has an escape in a string that is not supported");
            byte = &to[known - from];
            i++;
        }
        status = put(writer, byte, 1);
    }
    return status;
}

static lh_status put_quoted(form_writer *writer, const lh_jinja_token *token) {
    lh_status status;
    if ((status = put_mark(writer, LH_CHAT_FORM_QUOTE)) ||
        (status = put_string_value(writer, token)))
        return status;
    return put_mark(writer, LH_CHAT_FORM_QUOTE);
}

/* Jinja takes True and true, None and none. */
static lh_status put_name(form_writer *writer, const lh_jinja_token *token) {
    static const char *const capital[] = {"True", "False", "None"}, *const plain[] = {
                                                                        "true", "false", "none"};
    for (size_t i = 0; i < 3; i++)
        if (is_name(token, capital[i]))
            return put(writer, plain[i], strlen(plain[i]));
    return put(writer, token->text, token->length);
}

/* `a.b` is `a["b"]` for dictionaries and for `loop`; `a.b()` is a method and stays. */
static bool is_item(const lh_jinja_token *tokens, size_t count, size_t i) {
    return is_sign(&tokens[i], '.') && i > 0 && i + 1 < count &&
           tokens[i + 1].kind == LH_JINJA_NAME && !(i + 2 < count && is_sign(&tokens[i + 2], '('));
}

static lh_status put_item(form_writer *writer, const lh_jinja_token *name) {
    lh_status status;
    if ((status = put(writer, "[", 1)) || (status = put_quoted(writer, name)))
        return status;
    return put(writer, "]", 1);
}

static lh_status put_tokens(form_writer *writer, const lh_jinja_token *tokens, size_t count) {
    lh_status status = LH_OK;
    bool word = false; /* the last was a word: another one needs a space between */
    for (size_t i = 0; i < count && !status; i++) {
        const lh_jinja_token *token = &tokens[i];
        bool is_word = token->kind == LH_JINJA_NAME || token->kind == LH_JINJA_NUMBER;
        if (word && is_word && (status = put(writer, " ", 1)))
            break;
        word = is_word;
        if (is_item(tokens, count, i))
            status = put_item(writer, &tokens[++i]);
        else if (token->kind == LH_JINJA_STRING)
            status = put_quoted(writer, token);
        else if (token->kind == LH_JINJA_NAME)
            status = put_name(writer, token);
        else
            status = put(writer, token->text, token->length);
    }
    return status;
}

static int depth_change(const lh_jinja_token *token) {
    if (token->kind != LH_JINJA_SIGN)
        return 0;
    return strchr("([{", *token->text) ? 1 : strchr(")]}", *token->text) ? -1 : 0;
}

/* Takes brackets off that enclose the whole. */
static void strip_brackets(const lh_jinja_token **tokens, size_t *count) {
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
static bool is_sum(const lh_jinja_token *tokens, size_t count) {
    static const char *const words[] = {"if", "else", "or", "and", "not", "in", "is"};
    int depth = 0;
    for (size_t i = 0; i < count; i++) {
        depth += depth_change(&tokens[i]);
        if (depth > 0)
            continue;
        if (tokens[i].kind == LH_JINJA_SIGN && strchr("=<>!~-*/%", *tokens[i].text))
            return false;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            if (is_name(&tokens[i], words[w]))
                return false;
    }
    return true;
}

static lh_status put_term(form_writer *writer, const lh_jinja_token *tokens, size_t count) {
    lh_status status;
    if (count == 1 && tokens->kind == LH_JINJA_STRING)
        return put_string_value(writer, tokens); /* the same as plain text */
    if ((status = put_mark(writer, LH_CHAT_FORM_OUTPUT_BEGIN)) ||
        (status = put_tokens(writer, tokens, count)))
        return status;
    return put_mark(writer, LH_CHAT_FORM_OUTPUT_END);
}

/* {{ a + b }} is {{ a }}{{ b }}. */
static lh_status put_output(form_writer *writer) {
    const lh_jinja_token *tokens = writer->jinja.tokens;
    size_t count = writer->jinja.count;
    strip_brackets(&tokens, &count);
    bool sum = is_sum(tokens, count);
    lh_status status = LH_OK;
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < count && !status; i++) {
        depth += depth_change(&tokens[i]);
        if (sum && depth == 0 && is_sign(&tokens[i], '+')) {
            status = put_term(writer, tokens + begin, i - begin);
            begin = i + 1;
        }
    }
    return status ? status : put_term(writer, tokens + begin, count - begin);
}

static lh_status put_statement(form_writer *writer) {
    const lh_jinja_token *tokens = writer->jinja.tokens;
    size_t count = writer->jinja.count;
    lh_status status = put_mark(writer, LH_CHAT_FORM_STATEMENT_BEGIN);
    if (!status && count > 0 && (is_name(tokens, "if") || is_name(tokens, "elif"))) {
        if ((status = put_name(writer, tokens)) || (status = put(writer, " ", 1)))
            return status;
        tokens++;
        count--;
        strip_brackets(&tokens, &count);
    }
    if (!status)
        status = put_tokens(writer, tokens, count);
    return status ? status : put_mark(writer, LH_CHAT_FORM_STATEMENT_END);
}

/* text and tags */

/* lstrip_blocks: drops the white space between a line's start and a statement. */
static const char *strip_indent(const form_writer *writer, const char *begin, const char *end) {
    const char *at = end;
    while (at > begin && at[-1] != '\n' && isspace((unsigned char)at[-1]))
        at--;
    bool at_line_start = at > begin ? at[-1] == '\n' : writer->line_start;
    return at_line_start ? at : end;
}

static lh_status read_text(form_writer *writer, const char *tag) {
    const char *begin = writer->jinja.at, *end = tag;
    if (writer->jinja.strip_next) {
        while (begin < end && isspace((unsigned char)*begin))
            begin++;
    } else if (writer->jinja.trim_newline && begin < end && *begin == '\n') {
        begin++;
        writer->line_start = true;
    }
    char sign = writer->jinja.end - tag >= 3 ? tag[2] : '\0';
    if (tag < writer->jinja.end && sign == '-')
        while (end > begin && isspace((unsigned char)end[-1]))
            end--;
    else if (tag < writer->jinja.end && tag[1] != '{' && sign != '+')
        end = strip_indent(writer, begin, end);
    writer->jinja.at = tag;
    writer->line_start = false;
    return put(writer, begin, (size_t)(end - begin));
}

static lh_status read_tag(form_writer *writer) {
    char kind = writer->jinja.at[1];
    writer->jinja.at += 2;
    if (writer->jinja.at < writer->jinja.end &&
        (*writer->jinja.at == '-' || *writer->jinja.at == '+'))
        writer->jinja.at++;
    if (kind == '#')
        return lh_jinja_reader_skip_comment(&writer->jinja, writer->error);
    lh_status status =
        lh_jinja_reader_take_tag(&writer->jinja, kind == '{' ? '}' : '%', writer->error);
    if (status)
        return status;
    return kind == '{' ? put_output(writer) : put_statement(writer);
}

static lh_status read_all(form_writer *writer) {
    lh_status status = LH_OK;
    while (writer->jinja.at < writer->jinja.end && !status) {
        const char *tag = lh_jinja_reader_find_tag(&writer->jinja);
        status = read_text(writer, tag);
        if (!status && tag < writer->jinja.end)
            status = read_tag(writer);
    }
    return status;
}

lh_status lh_chat_form_read(const char *text, size_t length, lh_text_buffer *form,
                            lh_error *error) {
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)text[i] < LH_CHAT_FORM_MARKS_END)
            return lh_fail(error, LH_ERR_UNSUPPORTED, "the chat template has control characters");
    if (length > 0 && text[length - 1] == '\n')
        length--;
    form_writer writer = {.jinja = {.at = text, .end = text + length},
                          .form = form,
                          .line_start = true,
                          .error = error};
    lh_status status = read_all(&writer);
    lh_jinja_reader_reset(&writer.jinja);
    return status;
}
