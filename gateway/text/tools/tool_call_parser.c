/* What is not decided is held back: never more than a mark with white space beside it, a name or a
 * key; and of a call whose head is not out all is kept, in case that it is none. */
#include "gateway/text/tools/tool_call_parser.h"

#include "common/base/growing_array.h"
#include "gateway/text/tools/tool_parameter.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Of a key with its colon, and of a name with what stands between it and the arguments. */
#define KEY_BYTES_MAX 512u

static const char fence[] = "```";

void lh_tool_call_parser_init(lh_tool_call_parser *parser, const lh_tool_format *format,
                              uint32_t calls_max) {
    *parser = (lh_tool_call_parser){.format = format,
                                    .calls_max = calls_max,
                                    .stage = format && (format->begins_bare || format->reads_fences)
                                                 ? LH_TOOL_CALL_BEGIN
                                                 : LH_TOOL_CALL_TEXT};
}

void lh_tool_call_parser_reset(lh_tool_call_parser *parser) {
    lh_text_buffer_reset(&parser->held);
    lh_text_buffer_reset(&parser->raw);
    lh_text_buffer_reset(&parser->early);
    lh_text_buffer_reset(&parser->value);
    lh_text_buffer_reset(&parser->parameter);
    lh_text_buffer_reset(&parser->arguments);
    free(parser->deltas);
}

void lh_tool_call_parser_drop(lh_tool_call_parser *parser) {
    parser->delta_count = parser->arguments.length = 0;
}

/* ---- What is held ---- */

static bool is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static size_t count_blank(const lh_text_buffer *held) {
    size_t count = 0;
    while (count < held->length && is_blank(held->bytes[count]))
        count++;
    return count;
}

static void drop(lh_text_buffer *held, size_t length) {
    held->length -= length;
    if (held->length > 0)
        memmove(held->bytes, held->bytes + length, held->length);
}

/* Gives so much of what is held to the one who gets it. */
static lh_status give(lh_text_buffer *held, size_t length, lh_text_buffer *to, lh_error *error) {
    lh_status status = length ? lh_text_buffer_append(to, held->bytes, length, error) : LH_OK;
    drop(held, length);
    return status;
}

/* The same, of a call: kept while it may turn out to be none. */
static lh_status take(lh_tool_call_parser *parser, size_t length, lh_error *error) {
    if (!parser->is_out)
        return give(&parser->held, length, &parser->raw, error);
    drop(&parser->held, length);
    return LH_OK;
}

typedef enum match { NO_MATCH, PARTIAL_MATCH, WHOLE_MATCH } match;

/* Whether what is held begins with the mark (NULL: it does not). */
static match begins_with(const lh_text_buffer *held, const char *mark) {
    size_t length = mark ? strlen(mark) : 0;
    size_t part = held->length < length ? held->length : length;
    if (length == 0 || memcmp(held->bytes, mark, part) != 0)
        return NO_MATCH;
    return part == length ? WHOLE_MATCH : PARTIAL_MATCH;
}

/* Where the mark (NULL: none) is; where nothing of it is, or only its beginning: the length. */
static size_t find(const lh_text_buffer *held, const char *mark) {
    const char *found = mark ? memmem(held->bytes, held->length, mark, strlen(mark)) : NULL;
    return found ? (size_t)(found - held->bytes) : held->length;
}

/* How much of the end is the beginning of the mark. */
static size_t count_begun(const lh_text_buffer *held, const char *mark) {
    size_t part = mark ? strlen(mark) - 1 : 0;
    part = part < held->length ? part : held->length;
    while (part > 0 && memcmp(held->bytes + held->length - part, mark, part) != 0)
        part--;
    return part;
}

/* The same without white space at its end. */
static size_t trimmed(const lh_text_buffer *held, size_t length) {
    while (length > 0 && is_blank(held->bytes[length - 1]))
        length--;
    return length;
}

/* ---- What comes out ---- */

static void make_id(const lh_tool_format *format, char id[LH_RANDOM_ID_BYTES]) {
    lh_random_id(format->id_length ? "" : "call_", id);
    if (format->id_length)
        id[format->id_length] = '\0';
}

static lh_status add_delta(lh_tool_call_parser *parser, bool begins, lh_error *error) {
    if (!lh_growing_array_reserve(&parser->deltas, &parser->delta_capacity, parser->delta_count + 1,
                                  sizeof *parser->deltas))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a call of a tool");
    lh_tool_call_delta *delta = &parser->deltas[parser->delta_count++];
    *delta = (lh_tool_call_delta){
        .index = parser->count - 1, .begins = begins, .arguments_at = parser->arguments.length};
    if (begins) {
        make_id(parser->format, delta->id);
        memcpy(delta->name, parser->name, sizeof delta->name);
    }
    return LH_OK;
}

static lh_status put_arguments(lh_tool_call_parser *parser, const char *bytes, size_t length,
                               lh_error *error) {
    if (length == 0)
        return LH_OK;
    lh_status status = parser->delta_count == 0 ? add_delta(parser, false, error) : LH_OK;
    if (status == LH_OK)
        status = lh_text_buffer_append(&parser->arguments, bytes, length, error);
    if (status == LH_OK)
        parser->deltas[parser->delta_count - 1].arguments_length += length;
    return status;
}

/* It is a call: what came of its arguments follows its name. */
static lh_status put_head(lh_tool_call_parser *parser, lh_error *error) {
    parser->count++;
    parser->is_out = parser->has_called = true;
    parser->raw.length = 0;
    lh_status status = add_delta(parser, true, error);
    if (status == LH_OK)
        status = put_arguments(parser, parser->early.bytes, parser->early.length, error);
    parser->early.length = 0;
    return status;
}

static void begin_call(lh_tool_call_parser *parser, lh_tool_call_stage stage) {
    parser->is_out = false;
    parser->name[0] = '\0';
    parser->early.length = 0;
    parser->stage = stage;
}

/* What was taken of it is text. */
static lh_status be_text(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    parser->stage = LH_TOOL_CALL_TEXT;
    parser->in_fence = false;
    return give(&parser->raw, parser->raw.length, text, error);
}

/* False: it is no name that a tool may have. */
static bool set_name(lh_tool_call_parser *parser, const char *name, size_t length) {
    if (length == 0 || length > LH_TOOL_NAME_BYTES_MAX || memchr(name, '\0', length))
        return false;
    memcpy(parser->name, name, length);
    parser->name[length] = '\0';
    return true;
}

/* ---- The stages; LH_AGAIN: more is needed to know. ---- */

static lh_status begin(lh_tool_call_parser *parser) {
    size_t blank = count_blank(&parser->held);
    if (blank == parser->held.length)
        return LH_AGAIN;
    bool may_call = parser->format->begins_bare || parser->tools;
    parser->has_called = parser->is_out = false;
    parser->in_fence = !parser->format->begins_bare;
    parser->stage =
        may_call && parser->held.bytes[blank] == '{' ? LH_TOOL_CALL_BETWEEN : LH_TOOL_CALL_TEXT;
    return LH_OK;
}

/* What may be the end of the text, the first of them: a header, or the opening mark. */
static const char *first_mark(const lh_tool_call_parser *parser, size_t *at, size_t *begun) {
    const lh_tool_format *format = parser->format;
    /* Qwen3-Coder forgets the mark around a call at times. */
    const char *bare = format->body == LH_TOOL_BODY_PARAMETERS ? format->call_open : NULL;
    const char *const marks[] = {format->open, format->headers[0], format->headers[1], bare,
                                 format->reads_fences && parser->tools ? fence : NULL};
    const char *first = NULL;
    *at = parser->held.length;
    *begun = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t found = find(&parser->held, marks[i]), part = count_begun(&parser->held, marks[i]);
        first = found < *at ? marks[i] : first;
        *at = found < *at ? found : *at;
        *begun = part > *begun ? part : *begun;
    }
    return first;
}

static lh_status read_text(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    lh_text_buffer *held = &parser->held;
    size_t at, begun;
    const char *mark = first_mark(parser, &at, &begun);
    if (!mark) {
        lh_status status = give(held, trimmed(held, at - begun), text, error);
        return status == LH_OK ? LH_AGAIN : status;
    }
    bool is_bare =
        parser->format->body == LH_TOOL_BODY_PARAMETERS && mark == parser->format->call_open;
    bool is_header = mark != parser->format->open && !is_bare && mark != fence;
    size_t before = trimmed(held, at);
    lh_status status = give(held, before, text, error);
    parser->has_called = parser->is_out = false;
    parser->in_fence = mark == fence;
    parser->stage = is_header          ? LH_TOOL_CALL_HEADER
                    : parser->in_fence ? LH_TOOL_CALL_FENCE
                                       : LH_TOOL_CALL_BETWEEN;
    size_t length = at - before + (is_bare ? 0 : strlen(mark));
    return status == LH_OK ? take(parser, length, error) : status;
}

/* The line that opens a fence may say that JSON follows, or nothing. */
static lh_status read_fence(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    static const char *const languages[] = {"", "json", "tool_call", "function_call"};
    const lh_text_buffer *held = &parser->held;
    size_t end = find(held, "\n"), length = trimmed(held, end), begin = 0;
    bool is_known = false;
    if (end == held->length)
        return end > KEY_BYTES_MAX ? be_text(parser, text, error) : LH_AGAIN;
    while (begin < length && held->bytes[begin] == ' ')
        begin++;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        is_known |= strlen(languages[i]) == length - begin &&
                    memcmp(held->bytes + begin, languages[i], length - begin) == 0;
    if (!is_known)
        return be_text(parser, text, error);
    parser->stage = LH_TOOL_CALL_BETWEEN;
    return take(parser, end + 1, error);
}

/* To the opening mark, or to the end of a header without one. */
static lh_status read_header(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    const lh_tool_format *format = parser->format;
    lh_text_buffer *held = &parser->held;
    size_t opens = find(held, format->open), ends = find(held, format->separator);
    size_t at = opens < ends ? opens : ends;
    if (at == held->length)
        return at > KEY_BYTES_MAX + strlen(format->open) ? be_text(parser, text, error) : LH_AGAIN;
    if (at > KEY_BYTES_MAX)
        return be_text(parser, text, error);
    lh_status status =
        take(parser, at + strlen(opens < ends ? format->open : format->separator), error);
    if (status != LH_OK || opens >= ends)
        return status == LH_OK ? be_text(parser, text, error) : status;
    parser->stage = LH_TOOL_CALL_BETWEEN;
    return LH_OK;
}

/* How long what may stand between calls is, at the beginning of what is held. LH_AGAIN: a mark has
 * begun there; LH_ERR_NOT_FOUND: there is none. */
static lh_status find_filling(const lh_tool_call_parser *parser, size_t *length) {
    const lh_tool_format *format = parser->format;
    const char *const marks[] = {parser->in_fence ? NULL : format->open,
                                 parser->in_fence ? NULL : format->call_close};
    const lh_text_buffer *held = &parser->held;
    bool is_partial = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        match matched = begins_with(held, marks[i]);
        is_partial = is_partial || matched == PARTIAL_MATCH;
        *length = matched == WHOLE_MATCH ? strlen(marks[i]) : 0;
        if (*length > 0)
            return LH_OK;
    }
    *length = 1;
    if (is_blank(*held->bytes) ||
        (format->body == LH_TOOL_BODY_OBJECT && strchr(",;[]", *held->bytes)))
        return is_partial ? LH_AGAIN : LH_OK;
    return is_partial ? LH_AGAIN : LH_ERR_NOT_FOUND;
}

/* Behind the filling: the end, or a call. */
static lh_status leave_between(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    const lh_tool_format *format = parser->format;
    const char *close = parser->in_fence ? fence : format->close;
    match closes = begins_with(&parser->held, close);
    match opens = begins_with(&parser->held, format->call_open);
    bool is_named = format->body != LH_TOOL_BODY_OBJECT;
    if (closes == WHOLE_MATCH) {
        if (parser->in_fence && !parser->has_called)
            return be_text(parser, text, error);
        drop(&parser->held, strlen(close));
        parser->raw.length = 0;
        parser->stage = LH_TOOL_CALL_TURN;
        return LH_OK;
    }
    if (closes == PARTIAL_MATCH || opens == PARTIAL_MATCH)
        return LH_AGAIN;
    if (is_named ? format->call_open && opens == NO_MATCH : *parser->held.bytes != '{')
        return be_text(parser, text, error);
    if (parser->count == parser->calls_max) {
        parser->stage = LH_TOOL_CALL_OVER;
        return LH_OK;
    }
    begin_call(parser, is_named ? LH_TOOL_CALL_NAME : LH_TOOL_CALL_KEY);
    return take(parser, !is_named ? 1 : format->call_open ? strlen(format->call_open) : 0, error);
}

static lh_status read_between(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    size_t length;
    lh_status status = find_filling(parser, &length);
    if (status == LH_OK && !parser->has_called)
        return give(&parser->held, length, &parser->raw, error);
    if (status == LH_OK)
        drop(&parser->held, length);
    return status == LH_ERR_NOT_FOUND ? leave_between(parser, text, error) : status;
}

/* Up to what comes behind a name: the separator, or a further mark before it. */
static lh_status read_name(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    const char *separator = parser->format->separator;
    lh_text_buffer *held = &parser->held;
    size_t at = find(held, separator), begin = count_blank(held), end = begin;
    bool is_whole = at < held->length;
    if (at > KEY_BYTES_MAX + (is_whole ? 0 : strlen(separator)))
        return be_text(parser, text, error);
    if (!is_whole)
        return LH_AGAIN;
    while (end < at && held->bytes[end] != '[' && held->bytes[end] != '<' &&
           !is_blank(held->bytes[end]))
        end++;
    if (!set_name(parser, held->bytes + begin, end > begin ? end - begin : 0))
        return be_text(parser, text, error);
    lh_status status = take(parser, at + strlen(separator), error);
    parser->extent = (lh_json_extent){.depth = 0};
    parser->parameter_count = 0;
    parser->stage = parser->format->body == LH_TOOL_BODY_PARAMETERS ? LH_TOOL_CALL_PARAMETER
                                                                    : LH_TOOL_CALL_ARGUMENTS;
    return status == LH_OK ? put_head(parser, error) : status;
}

/* The call has come to its end. */
static lh_status end_call(lh_tool_call_parser *parser, lh_error *error) {
    parser->stage = LH_TOOL_CALL_BETWEEN;
    if (parser->is_out)
        return LH_OK;
    lh_status status =
        parser->early.length == 0 ? lh_text_buffer_append(&parser->early, "{}", 2, error) : LH_OK;
    return status == LH_OK ? put_head(parser, error) : status;
}

static bool is_key(const char *key, size_t length, const char *name) {
    return strlen(name) == length && memcmp(key, name, length) == 0;
}

/* In an object: the next key, or its end. */
static lh_status read_key(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    lh_text_buffer *held = &parser->held;
    lh_json_extent extent = {.depth = 0};
    char first = *held->bytes;
    if (is_blank(first) || first == ',')
        return take(parser, 1, error);
    if (first == '}' && parser->in_fence && !parser->is_out)
        return be_text(parser, text, error);
    if (first == '}' && (parser->is_out || parser->name[0])) {
        lh_status status = take(parser, 1, error);
        return status == LH_OK ? end_call(parser, error) : status;
    }
    size_t length = first == '"' ? lh_json_extent_take(&extent, held->bytes, held->length) : 0;
    size_t colon = length;
    while (colon < held->length && is_blank(held->bytes[colon]))
        colon++;
    bool is_whole = extent.is_over && colon < held->length;
    if (first != '"' || (is_whole ? colon : held->length) > KEY_BYTES_MAX ||
        (is_whole && held->bytes[colon] != ':'))
        return be_text(parser, text, error);
    if (!is_whole)
        return LH_AGAIN;
    const char *key = held->bytes + 1;
    parser->key = is_key(key, length - 2, "name") ? LH_TOOL_KEY_NAME
                  : is_key(key, length - 2, "arguments") || is_key(key, length - 2, "parameters")
                      ? LH_TOOL_KEY_ARGUMENTS
                      : LH_TOOL_KEY_OTHER;
    bool is_of_call = parser->key != LH_TOOL_KEY_OTHER || is_key(key, length - 2, "type") ||
                      is_key(key, length - 2, "id");
    if (parser->in_fence && !parser->is_out && !is_of_call)
        return be_text(parser, text, error);
    parser->extent = (lh_json_extent){.depth = 0};
    parser->value.length = 0;
    parser->stage = LH_TOOL_CALL_VALUE;
    return take(parser, colon + 1, error);
}

/* *decoded: the value where it is a string, which is the caller's; else NULL. */
static lh_status decode(const lh_text_buffer *value, json_t **decoded, lh_error *error) {
    json_error_t cause;
    json_t *parsed = json_loadb(value->bytes, value->length, JSON_DECODE_ANY, &cause);
    bool is_memory = !parsed && json_error_code(&cause) == json_error_out_of_memory;
    *decoded = json_is_string(parsed) ? parsed : NULL;
    if (!*decoded)
        json_decref(parsed);
    return is_memory ? lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a call of a tool") : LH_OK;
}

/* Arguments that are a string are JSON in a string, as the API has them. */
static lh_status use_arguments(lh_tool_call_parser *parser, lh_error *error) {
    json_t *decoded = NULL;
    lh_status status = decode(&parser->value, &decoded, error);
    const char *bytes = decoded ? json_string_value(decoded) : parser->value.bytes;
    size_t length = decoded ? json_string_length(decoded) : parser->value.length;
    parser->early.length = 0;
    if (status == LH_OK)
        status = lh_text_buffer_append(&parser->early, bytes, length, error);
    json_decref(decoded);
    return status;
}

static bool is_tool(const json_t *tools, const char *name) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *own = json_string_value(json_object_get(function, "name"));
        if (own && strcmp(own, name) == 0)
            return true;
    }
    return false;
}

/* Without a name it is no call. */
static lh_status use_name(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    json_t *name = NULL;
    lh_status status = decode(&parser->value, &name, error);
    bool is_name = name && set_name(parser, json_string_value(name), json_string_length(name));
    json_decref(name);
    is_name = is_name && (!parser->in_fence || is_tool(parser->tools, parser->name));
    return status == LH_OK && !is_name ? be_text(parser, text, error) : status;
}

/* The value is whole. */
static lh_status use_value(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    parser->stage = LH_TOOL_CALL_KEY;
    if (parser->is_out || parser->key == LH_TOOL_KEY_OTHER)
        return LH_OK;
    lh_status status = parser->key == LH_TOOL_KEY_NAME ? use_name(parser, text, error)
                                                       : use_arguments(parser, error);
    bool is_call = parser->name[0] && parser->early.length > 0;
    return status == LH_OK && is_call ? put_head(parser, error) : status;
}

static lh_status read_value(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    lh_text_buffer *held = &parser->held;
    size_t blank = count_blank(held);
    if (!parser->extent.has_begun && blank > 0)
        return take(parser, blank, error);
    if (!parser->extent.has_begun && parser->key == LH_TOOL_KEY_ARGUMENTS && parser->name[0] &&
        !parser->is_out && *held->bytes != '"') {
        parser->stage = LH_TOOL_CALL_ARGUMENTS;
        return put_head(parser, error);
    }
    size_t length = lh_json_extent_take(&parser->extent, held->bytes, held->length);
    lh_status status = lh_text_buffer_append(&parser->value, held->bytes, length, error);
    if (status == LH_OK)
        status = take(parser, length, error);
    return status == LH_OK && parser->extent.is_over ? use_value(parser, text, error) : status;
}

static lh_status read_arguments(lh_tool_call_parser *parser, lh_error *error) {
    lh_text_buffer *held = &parser->held;
    if (!parser->extent.has_begun)
        drop(held, count_blank(held));
    size_t length = lh_json_extent_take(&parser->extent, held->bytes, held->length);
    lh_status status = put_arguments(parser, held->bytes, length, error);
    drop(held, length);
    if (parser->extent.is_over)
        parser->stage =
            parser->format->body == LH_TOOL_BODY_NAMED ? LH_TOOL_CALL_BETWEEN : LH_TOOL_CALL_KEY;
    return status;
}

/* ---- Parameters that are no JSON ---- */

/* The call ends, with its own mark or with that around it, which is left. */
static lh_status end_parameters(lh_tool_call_parser *parser, size_t mark, lh_error *error) {
    drop(&parser->held, mark);
    parser->stage = LH_TOOL_CALL_BETWEEN;
    return parser->parameter_count > 0 ? put_arguments(parser, "}", 1, error)
                                       : put_arguments(parser, "{}", 2, error);
}

/* Behind the mark of a parameter: its name. */
static lh_status begin_parameter(lh_tool_call_parser *parser, lh_error *error) {
    const lh_tool_format *format = parser->format;
    lh_text_buffer *held = &parser->held;
    size_t mark = strlen(format->parameter_open), end = find(held, format->separator);
    if (end == held->length && end <= mark + KEY_BYTES_MAX)
        return LH_AGAIN;
    if (end > mark + KEY_BYTES_MAX) { /* it is none */
        drop(held, mark);
        return LH_OK;
    }
    drop(held, mark);
    parser->parameter.length = 0;
    lh_status status = give(held, end - mark, &parser->parameter, error);
    drop(held, strlen(format->separator));
    parser->stage = LH_TOOL_CALL_WRITTEN;
    return status;
}

/* What is none of the marks is nobody's: the head of the call is out. */
static lh_status read_parameter(lh_tool_call_parser *parser, lh_error *error) {
    const lh_tool_format *format = parser->format;
    const char *const marks[] = {format->parameter_open, format->call_close, format->close,
                                 format->open, format->call_open};
    bool is_partial = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        match matched = begins_with(&parser->held, marks[i]);
        is_partial |= matched == PARTIAL_MATCH;
        if (matched == WHOLE_MATCH)
            return i == 0 ? begin_parameter(parser, error)
                          : end_parameters(parser, i == 1 ? strlen(marks[i]) : 0, error);
    }
    if (is_partial)
        return LH_AGAIN;
    drop(&parser->held, 1);
    return LH_OK;
}

/* `{"name": value` of the first one, `, "name": value` of the others. */
static lh_status put_parameter(lh_tool_call_parser *parser, const char *written, size_t length,
                               lh_error *error) {
    const lh_text_buffer *name = &parser->parameter;
    const char *key = name->length ? name->bytes : "";
    lh_text_buffer json = {0};
    lh_status status = lh_text_buffer_append(&json, parser->parameter_count > 0 ? ", " : "{",
                                             parser->parameter_count > 0 ? 2 : 1, error);
    if (status == LH_OK)
        status = lh_tool_parameter_quote(key, name->length, &json, error);
    if (status == LH_OK)
        status = lh_text_buffer_append(&json, ": ", 2, error);
    if (status == LH_OK)
        status = lh_tool_parameter_render(
            lh_tool_parameter_find(parser->tools, parser->name, key, name->length), written, length,
            &json, error);
    if (status == LH_OK)
        status = put_arguments(parser, json.bytes, json.length, error);
    lh_text_buffer_reset(&json);
    parser->parameter_count++;
    return status;
}

/* All of it, since its type is known only from the whole; the line feeds at its ends are the
 * format's. */
static lh_status read_written(lh_tool_call_parser *parser, lh_error *error) {
    lh_text_buffer *held = &parser->held;
    size_t at = find(held, parser->format->parameter_close), begin = 0, end = at;
    if (at == held->length)
        return LH_AGAIN;
    if (begin < end && held->bytes[begin] == '\n')
        begin++;
    if (begin < end && held->bytes[end - 1] == '\n')
        end--;
    lh_status status = put_parameter(parser, held->bytes + begin, end - begin, error);
    drop(held, at + strlen(parser->format->parameter_close));
    parser->stage = LH_TOOL_CALL_PARAMETER;
    return status;
}

static lh_status turn(lh_tool_call_parser *parser) {
    drop(&parser->held, count_blank(&parser->held));
    if (parser->held.length > 0)
        parser->stage = LH_TOOL_CALL_TEXT;
    return LH_OK;
}

static lh_status advance(lh_tool_call_parser *parser, lh_text_buffer *text, lh_error *error) {
    if (parser->held.length == 0)
        return LH_AGAIN;
    switch (parser->stage) {
    case LH_TOOL_CALL_BEGIN:
        return begin(parser);
    case LH_TOOL_CALL_TEXT:
        break;
    case LH_TOOL_CALL_HEADER:
        return read_header(parser, text, error);
    case LH_TOOL_CALL_FENCE:
        return read_fence(parser, text, error);
    case LH_TOOL_CALL_BETWEEN:
        return read_between(parser, text, error);
    case LH_TOOL_CALL_NAME:
        return read_name(parser, text, error);
    case LH_TOOL_CALL_KEY:
        return read_key(parser, text, error);
    case LH_TOOL_CALL_VALUE:
        return read_value(parser, text, error);
    case LH_TOOL_CALL_ARGUMENTS:
        return read_arguments(parser, error);
    case LH_TOOL_CALL_PARAMETER:
        return read_parameter(parser, error);
    case LH_TOOL_CALL_WRITTEN:
        return read_written(parser, error);
    case LH_TOOL_CALL_TURN:
        return turn(parser);
    case LH_TOOL_CALL_OVER:
        parser->held.length = 0;
        return LH_AGAIN;
    }
    return read_text(parser, text, error);
}

lh_status lh_tool_call_parser_push(lh_tool_call_parser *parser, const char *bytes, size_t length,
                                   lh_text_buffer *text, lh_error *error) {
    if (length == 0)
        return LH_OK;
    if (!parser->format)
        return lh_text_buffer_append(text, bytes, length, error);
    lh_status status = lh_text_buffer_append(&parser->held, bytes, length, error);
    while (status == LH_OK)
        status = advance(parser, text, error);
    return status == LH_AGAIN ? LH_OK : status;
}

/* Of a text that was cut: more than one byte of a mark is the head of a call that did not come, and
 * where there must be a call, all is. */
static bool ends_in_head(const lh_tool_call_parser *parser) {
    const lh_tool_format *format = parser->format;
    const char *const marks[] = {format->open, format->headers[0], format->headers[1]};
    bool ends = parser->must_call;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        ends |= count_begun(&parser->held, marks[i]) > 1;
    return ends;
}

/* Whether what is held, and was taken of what may be a call, is text. */
static bool is_text_at_end(const lh_tool_call_parser *parser, bool is_cut) {
    switch (parser->stage) {
    case LH_TOOL_CALL_BEGIN:
        return !is_cut || !parser->must_call;
    case LH_TOOL_CALL_TEXT:
        return !is_cut || !parser->format || !ends_in_head(parser);
    case LH_TOOL_CALL_TURN:
    case LH_TOOL_CALL_OVER:
        return false;
    case LH_TOOL_CALL_BETWEEN:
        return (!is_cut || parser->in_fence) && !parser->has_called;
    default:
        return (!is_cut || parser->in_fence) && !parser->is_out;
    }
}

lh_status lh_tool_call_parser_finish(lh_tool_call_parser *parser, bool is_cut, lh_text_buffer *text,
                                     lh_error *error) {
    lh_status status = LH_OK;
    if (is_text_at_end(parser, is_cut)) {
        status = give(&parser->raw, parser->raw.length, text, error);
        if (status == LH_OK)
            status = give(&parser->held, parser->held.length, text, error);
    }
    parser->held.length = parser->raw.length = 0;
    return status;
}
