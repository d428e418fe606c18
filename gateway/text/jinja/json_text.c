/* As Python's encoder in its order of questions. */
#include "gateway/text/jinja/json_text.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/sorting.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    jinja_builder *out;
    const jinja_json_style *style;
    size_t level;
} writer;

static void write_value(writer *to, jinja_value value);

/* False: the character stands for itself. */
static bool escape(const jinja_json_style *style, uint32_t code, char text[16]) {
    static const char shorts[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *found = code && code < 0x80 ? strchr(shorts, (int)code) : NULL;
    if (found)
        snprintf(text, 16, "\\%c", letters[found - shorts]);
    else if (code < 0x20 || (style->is_ascii && code >= 0x7F && code < 0x10000 && code != 0x7F))
        snprintf(text, 16, "\\u%04x", code);
    else if (style->is_ascii && code >= 0x10000)
        snprintf(text, 16, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                 0xDC00 + ((code - 0x10000) & 0x3FF));
    else
        return false;
    return true;
}

static void write_string(writer *to, jinja_text text) {
    jinja_builder_add_literal(to->out, "\"");
    jinja_step_bytes(to->out->work, text.length * 4);
    size_t plain = 0, at = 0;
    while (at < text.length) {
        const char *next = text.bytes + at;
        uint32_t code = lh_utf8_decode(&next);
        char escaped[16];
        size_t end = (size_t)(next - text.bytes);
        if (escape(to->style, code, escaped)) {
            jinja_step(to->out->work, JINJA_ESCAPE_STEPS);
            jinja_builder_add(to->out, jinja_text_cut(text, plain, at));
            jinja_builder_add(to->out, jinja_text_of(escaped, strlen(escaped), JINJA_OF_DATA));
            plain = end;
        }
        at = end;
    }
    jinja_builder_add(to->out, jinja_text_cut(text, plain, at));
    jinja_builder_add_literal(to->out, "\"");
}

static void break_line(writer *to) {
    if (!to->style->is_indented)
        return;
    jinja_builder_add_literal(to->out, "\n");
    jinja_builder_add_times(to->out, to->style->indent, to->level);
}

static void write_list(writer *to, const jinja_sequence *list) {
    if (list->count == 0) {
        jinja_builder_add_literal(to->out, "[]");
        return;
    }
    jinja_builder_add_literal(to->out, "[");
    to->level++;
    for (size_t i = 0; i < list->count; i++) {
        if (i)
            jinja_builder_add(to->out, to->style->item_end);
        break_line(to);
        write_value(to, list->items[i]);
    }
    to->level--;
    break_line(to);
    jinja_builder_add_literal(to->out, "]");
}

static void write_number(writer *to, double number) {
    if (isnan(number) || isinf(number))
        jinja_builder_add_literal(to->out, isnan(number) ? "NaN"
                                           : number < 0  ? "-Infinity"
                                                         : "Infinity");
    else
        jinja_float_into(to->out, number);
}

static void write_key(writer *to, jinja_value key) {
    if (key.kind == JINJA_STRING) {
        write_string(to, *key.text);
        return;
    }
    if (!jinja_is_number(key) && key.kind != JINJA_NONE)
        jinja_fail(to->out->work, LH_ERR_INVALID, "tojson: a key must be text, not '%s'",
                   jinja_type_name(key));
    jinja_builder_add_literal(to->out, "\"");
    write_value(to, key);
    jinja_builder_add_literal(to->out, "\"");
}

static void write_dict(writer *to, const jinja_dict *dict) {
    if (dict->count == 0) {
        jinja_builder_add_literal(to->out, "{}");
        return;
    }
    jinja_sequence *keys = jinja_collect_keys(to->out->work, dict);
    if (to->style->sorts_keys)
        jinja_sort(to->out->work, keys->items, keys->items, keys->count, false);
    jinja_builder_add_literal(to->out, "{");
    to->level++;
    for (size_t i = 0; i < keys->count; i++) {
        if (i)
            jinja_builder_add(to->out, to->style->item_end);
        break_line(to);
        write_key(to, keys->items[i]);
        jinja_builder_add(to->out, to->style->key_end);
        write_value(to, *jinja_dict_get(to->out->work, dict, keys->items[i]));
    }
    to->level--;
    break_line(to);
    jinja_builder_add_literal(to->out, "}");
}

static void write_value(writer *to, jinja_value value) {
    jinja_work *work = to->out->work;
    jinja_step(work, 1);
    jinja_enter(work);
    if (value.kind == JINJA_STRING)
        write_string(to, *value.text);
    else if (value.kind == JINJA_NONE)
        jinja_builder_add_literal(to->out, "null");
    else if (value.kind == JINJA_BOOL)
        jinja_builder_add_literal(to->out, value.boolean ? "true" : "false");
    else if (value.kind == JINJA_INT)
        jinja_print_into(to->out, value);
    else if (value.kind == JINJA_FLOAT)
        write_number(to, value.number);
    else if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE)
        write_list(to, value.sequence);
    else if (value.kind == JINJA_DICT)
        write_dict(to, value.dict);
    else
        jinja_fail(work, LH_ERR_INVALID, "tojson: '%s' has no form in JSON",
                   jinja_type_name(value));
    jinja_leave(work);
}

void jinja_json_into(jinja_builder *out, jinja_value value, const jinja_json_style *style) {
    writer to = {out, style, 0};
    write_value(&to, value);
}
