/* What is quoted keeps the origin of its characters; quotes, brackets and digits are the
 * template's. */
#include "gateway/text/jinja/print.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each try of so many digits. */
#define FLOAT_STEPS   25
#define INTEGER_STEPS 2

/* "1.5e+16" as Python has it: fixed between 1e-4 and 1e16. `digits` is "d.ddde+XX". */
static void lay_out(jinja_builder *out, const char *digits) {
    char text[64];
    const char *exponent_at = strchr(digits, 'e');
    int exponent = atoi(exponent_at + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, sizeof text, "%.*se%c%02d", (int)(exponent_at - digits), digits,
                 exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        int kept = (int)(exponent_at - digits) - (*digits == '-') - 2; /* behind the point */
        int places = kept - exponent;
        snprintf(text, sizeof text, "%.*f", places > 1 ? places : 1, strtod(digits, NULL));
    }
    jinja_builder_add_literal(out, text);
}

void jinja_float_into(jinja_builder *out, double number) {
    if (isnan(number) || isinf(number)) {
        jinja_builder_add_literal(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    for (int precision = 0; precision <= 16; precision++) {
        jinja_step(out->work, FLOAT_STEPS);
        snprintf(digits, sizeof digits, "%.*e", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    lay_out(out, digits);
}

static void quote_character(jinja_builder *out, jinja_text character, uint32_t code, char quote) {
    char escape[16];
    if (code == (uint32_t)quote || code == '\\')
        snprintf(escape, sizeof escape, "\\%c", (int)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        snprintf(escape, sizeof escape, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (jinja_is_printable(code)) {
        jinja_builder_add(out, character);
        return;
    } else if (code < 0x100)
        snprintf(escape, sizeof escape, "\\x%02x", code);
    else if (code < 0x10000)
        snprintf(escape, sizeof escape, "\\u%04x", code);
    else
        snprintf(escape, sizeof escape, "\\U%08x", code);
    jinja_builder_add(out, jinja_text_of(escape, strlen(escape), JINJA_OF_DATA));
}

static void quote(jinja_builder *out, jinja_text text) {
    bool has_single = text.length && memchr(text.bytes, '\'', text.length);
    bool has_double = text.length && memchr(text.bytes, '"', text.length);
    char mark = has_single && !has_double ? '"' : '\'';
    char marks[2] = {mark, 0};
    jinja_builder_add_literal(out, marks);
    const char *at = text.bytes, *end = text.bytes + text.length;
    jinja_step(out->work, text.length);
    while (at < end) {
        size_t begin = (size_t)(at - text.bytes);
        uint32_t code = lh_utf8_decode(&at);
        quote_character(out, jinja_text_cut(text, begin, (size_t)(at - text.bytes)), code, mark);
    }
    jinja_builder_add_literal(out, marks);
}

static void repr_sequence(jinja_builder *out, jinja_value value) {
    const jinja_sequence *sequence = value.sequence;
    bool is_tuple = value.kind == JINJA_TUPLE;
    if (value.kind == JINJA_VIEW) {
        jinja_builder_add_literal(out, sequence->view);
        jinja_builder_add_literal(out, "(");
    }
    jinja_builder_add_literal(out, is_tuple ? "(" : "[");
    for (size_t i = 0; i < sequence->count; i++) {
        if (i)
            jinja_builder_add_literal(out, ", ");
        jinja_repr_into(out, sequence->items[i]);
    }
    jinja_builder_add_literal(out, is_tuple ? (sequence->count == 1 ? ",)" : ")") : "]");
    if (value.kind == JINJA_VIEW)
        jinja_builder_add_literal(out, ")");
}

static void repr_dict(jinja_builder *out, const jinja_dict *dict) {
    jinja_builder_add_literal(out, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i)
            jinja_builder_add_literal(out, ", ");
        jinja_repr_into(out, dict->entries[i].key);
        jinja_builder_add_literal(out, ": ");
        jinja_repr_into(out, dict->entries[i].value);
    }
    jinja_builder_add_literal(out, "}");
}

static void repr_range(jinja_builder *out, const jinja_range *range) {
    char text[96];
    if (range->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)range->start,
                 (long long)range->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)range->start,
                 (long long)range->stop, (long long)range->step);
    jinja_builder_add_literal(out, text);
}

void jinja_repr_into(jinja_builder *out, jinja_value value) {
    jinja_step(out->work, 1);
    jinja_enter(out->work);
    if (value.kind == JINJA_STRING)
        quote(out, *value.text);
    else if (jinja_is_sequence(value))
        repr_sequence(out, value);
    else if (value.kind == JINJA_DICT)
        repr_dict(out, value.dict);
    else if (value.kind == JINJA_UNDEFINED)
        jinja_builder_add_literal(out, "Undefined");
    else
        jinja_print_into(out, value);
    jinja_leave(out->work);
}

static void print_integer(jinja_builder *out, int64_t integer) {
    char text[24];
    jinja_step(out->work, INTEGER_STEPS);
    snprintf(text, sizeof text, "%lld", (long long)integer);
    jinja_builder_add_literal(out, text);
}

void jinja_print_into(jinja_builder *out, jinja_value value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return;
    case JINJA_NONE:
        jinja_builder_add_literal(out, "None");
        return;
    case JINJA_BOOL:
        jinja_builder_add_literal(out, value.boolean ? "True" : "False");
        return;
    case JINJA_INT:
        print_integer(out, value.integer);
        return;
    case JINJA_FLOAT:
        jinja_float_into(out, value.number);
        return;
    case JINJA_STRING:
        jinja_builder_add(out, *value.text);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
    case JINJA_DICT:
        jinja_repr_into(out, value);
        return;
    case JINJA_RANGE:
        repr_range(out, value.range);
        return;
    case JINJA_ITERATOR:
    case JINJA_OBJECT:
        break;
    }
    jinja_builder_add_literal(out, "<");
    jinja_builder_add_literal(out, jinja_type_name(value));
    jinja_builder_add_literal(out, ">");
}

jinja_text jinja_print(jinja_work *work, jinja_value value) {
    if (value.kind == JINJA_STRING)
        return *value.text;
    jinja_builder out = {.work = work};
    jinja_print_into(&out, value);
    return jinja_builder_text(&out);
}
