/* A field's flags, width and precision are read alike for both, and laid out by one function. */
#include "gateway/text/jinja/format.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH_MAX     100000
#define PRECISION_MAX 300
/* Hundreds of digits take some microseconds. */
#define NUMBER_STEPS 300
/* To read a field and to find its value. */
#define FIELD_STEPS 8

typedef struct layout {
    char align; /* '<', '>', '^', '=' or 0 */
    jinja_text fill;
    char sign; /* '+', ' ' or 0 */
    bool is_alternate, has_commas;
    int64_t width, precision; /* precision -1: none */
    char type;
} layout;

/* Reads a format's bytes one by one. */
typedef struct scan {
    jinja_work *work;
    jinja_text text;
    size_t at;
} scan;

static char peek(const scan *s) {
    return s->at < s->text.length ? s->text.bytes[s->at] : 0;
}

static bool take(scan *s, char byte) {
    bool is_there = s->at < s->text.length && s->text.bytes[s->at] == byte;
    s->at += is_there;
    return is_there;
}

static int64_t take_number(scan *s, int64_t most) {
    int64_t number = 0;
    while (peek(s) >= '0' && peek(s) <= '9') {
        number = number * 10 + s->text.bytes[s->at++] - '0';
        if (number > most)
            jinja_fail(s->work, LH_ERR_LIMIT, "a format asks for more than %lld", (long long)most);
    }
    return number;
}

static void lay_out(jinja_builder *out, jinja_text text, const layout *field, char align) {
    int64_t room = field->width - (int64_t)jinja_text_count(out->work, text);
    jinja_text fill = field->fill.length ? field->fill : jinja_text_literal(" ");
    if (room <= 0) {
        jinja_builder_add(out, text);
        return;
    }
    size_t sign = align == '=' && text.length && strchr("+- ", text.bytes[0]) ? 1 : 0;
    int64_t front = align == '<' ? 0 : align == '^' ? room / 2 : room;
    jinja_builder_add(out, jinja_text_cut(text, 0, sign));
    jinja_builder_add_times(out, fill, (size_t)front);
    jinja_builder_add(out, jinja_text_cut(text, sign, text.length));
    jinja_builder_add_times(out, fill, (size_t)(room - front));
}

static void format_text(jinja_builder *out, jinja_text text, const layout *field) {
    if (field->precision >= 0)
        text = jinja_text_cut(text, 0, jinja_text_at(out->work, text, (size_t)field->precision));
    lay_out(out, text, field, field->align ? field->align : '<');
}

/* Digits in groups of three. */
static void add_commas(char *text, size_t capacity) {
    size_t begin = strspn(text, "+- "), digits = strspn(text + begin, "0123456789");
    size_t length = strlen(text);
    for (size_t at = digits; at > 3 && length + 1 < capacity; length++) {
        at -= 3;
        memmove(text + begin + at + 1, text + begin + at, length - begin - at + 1);
        text[begin + at] = ',';
    }
}

static void format_number(jinja_builder *out, jinja_value value, const layout *field) {
    char pattern[16], text[800];
    bool is_float = strchr("eEfFgG%", field->type) && field->type;
    const char *sign = field->sign == '+' ? "+" : field->sign == ' ' ? " " : "";
    const char *alternate = field->is_alternate ? "#" : "";
    double number = jinja_number(value) * (field->type == '%' ? 100 : 1);
    int precision = field->precision < 0 ? 6 : (int)field->precision;
    jinja_step(out->work, NUMBER_STEPS);
    if (is_float) {
        snprintf(pattern, sizeof pattern, "%%%s%s.*%c", sign, alternate,
                 field->type == '%' ? 'f' : field->type);
        snprintf(text, sizeof text - 1, pattern, precision, number);
        if (field->type == '%')
            strcat(text, "%");
    } else {
        bool is_hex = field->type == 'x' || field->type == 'X' || field->type == 'o';
        int64_t integer = jinja_integer(value);
        uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
        snprintf(pattern, sizeof pattern, "%s%s%%.*ll%c", integer < 0 ? "-" : sign,
                 field->is_alternate && field->type == 'o' ? "0o"
                 : field->is_alternate && is_hex           ? "0x"
                                                           : "",
                 is_hex ? field->type : 'u');
        if (field->is_alternate && field->type == 'X')
            pattern[integer < 0 || *sign ? 2 : 1] = 'X';
        snprintf(text, sizeof text, pattern, field->precision < 0 ? 1 : precision,
                 (unsigned long long)size);
    }
    if (field->has_commas)
        add_commas(text, sizeof text);
    lay_out(out, jinja_text_literal(text), field, field->align ? field->align : '>');
}

static jinja_text shown(jinja_work *work, jinja_value value, char how) {
    jinja_builder out = {.work = work};
    if (how == 'r')
        jinja_repr_into(&out, value);
    else
        jinja_print_into(&out, value);
    return jinja_builder_text(&out);
}

/* ---- "%" ---- */

typedef struct percent_values {
    jinja_value all;
    size_t next;
    bool is_used; /* a lone value, or a dict, has been asked for */
} percent_values;

static jinja_value next_value(scan *s, percent_values *values) {
    if (values->all.kind != JINJA_TUPLE) {
        if (values->next++ > 0)
            jinja_fail(s->work, LH_ERR_INVALID, "not enough arguments for the format");
        values->is_used = true;
        return values->all;
    }
    if (values->next >= values->all.sequence->count)
        jinja_fail(s->work, LH_ERR_INVALID, "not enough arguments for the format");
    return values->all.sequence->items[values->next++];
}

static jinja_value value_of_name(scan *s, percent_values *values) {
    size_t begin = s->at;
    int depth = 1;
    while (s->at < s->text.length && depth > 0) {
        depth += peek(s) == '(' ? 1 : peek(s) == ')' ? -1 : 0;
        s->at++;
    }
    if (depth > 0 || values->all.kind != JINJA_DICT)
        jinja_fail(s->work, LH_ERR_INVALID, "the format \"%%(name)\" requires a mapping");
    jinja_text name = jinja_text_cut(s->text, begin, s->at - 1);
    const jinja_value *found = jinja_dict_get_text(s->work, values->all.dict, name);
    if (!found)
        jinja_fail(s->work, LH_ERR_INVALID, "the format's \"%%(%.*s)\" is not in the mapping",
                   (int)(name.length < 40 ? name.length : 40), name.bytes);
    values->is_used = true;
    return *found;
}

static int64_t take_count(scan *s, percent_values *values, int64_t most) {
    if (!take(s, '*'))
        return take_number(s, most);
    jinja_value given = next_value(s, values);
    if (!jinja_is_integer(given) || jinja_integer(given) > most)
        jinja_fail(s->work, LH_ERR_INVALID, "a format's \"*\" wants a small integer");
    return jinja_integer(given);
}

static void format_one(jinja_builder *out, scan *s, layout *field, jinja_value value) {
    if (strchr("sra", field->type)) {
        format_text(out, shown(s->work, value, field->type == 's' ? 's' : 'r'), field);
        return;
    }
    if (field->type == 'c') {
        bool is_one = value.kind == JINJA_STRING && jinja_text_count(s->work, *value.text) == 1;
        if (!is_one)
            jinja_fail(s->work, LH_ERR_INVALID, "%%c requires one character");
        format_text(out, *value.text, field);
        return;
    }
    bool wants_integer = strchr("diuxXo", field->type) != NULL;
    jinja_need_defined(s->work, value);
    if (!jinja_is_number(value) || (strchr("xXo", field->type) && !jinja_is_integer(value)))
        jinja_fail(s->work, LH_ERR_INVALID, "%%%c requires a number, not '%s'", field->type,
                   jinja_type_name(value));
    if (wants_integer && value.kind == JINJA_FLOAT) {
        if (!(fabs(value.number) < 9e18))
            jinja_fail(s->work, LH_ERR_LIMIT, "an integer has more than 64 bits");
        value = jinja_int((int64_t)value.number);
    }
    if (strchr("diu", field->type))
        field->type = 'd';
    format_number(out, value, field);
}

static void format_percent_field(jinja_builder *out, scan *s, percent_values *values) {
    layout field = {.precision = -1, .align = '>'};
    jinja_value value = {.kind = JINJA_MISSING};
    bool is_zeroed = false;
    if (take(s, '('))
        value = value_of_name(s, values);
    for (char flag; (flag = peek(s)) && strchr("-+ #0", flag); s->at++) {
        field.align = flag == '-' ? '<' : field.align;
        field.sign = flag == '+' || (flag == ' ' && !field.sign) ? flag : field.sign;
        field.is_alternate = field.is_alternate || flag == '#';
        is_zeroed = is_zeroed || flag == '0';
    }
    field.width = take_count(s, values, WIDTH_MAX);
    if (field.width < 0) {
        field.align = '<';
        field.width = -field.width;
    }
    if (take(s, '.')) {
        field.precision = take_count(s, values, PRECISION_MAX);
        field.precision = field.precision < 0 ? 0 : field.precision;
    }
    while (peek(s) && strchr("hlL", peek(s)))
        s->at++;
    field.type = peek(s);
    if (!field.type || !strchr("diuoxXeEfFgGcrsa%", field.type))
        jinja_fail(s->work, LH_ERR_INVALID, "the format has an unknown or no type behind \"%%\"");
    s->at++;
    if (field.type == '%') {
        jinja_builder_add_literal(out, "%");
        return;
    }
    if (is_zeroed && field.align == '>' && !strchr("sracC", field.type)) {
        field.align = '=';
        field.fill = jinja_text_literal("0");
    }
    if (value.kind == JINJA_MISSING)
        value = next_value(s, values);
    format_one(out, s, &field, value);
}

jinja_text jinja_format_percent(jinja_work *work, jinja_text format, jinja_value values) {
    scan s = {work, format, 0};
    percent_values given = {.all = values};
    jinja_builder out = {.work = work};
    while (s.at < format.length) {
        size_t plain = s.at;
        while (s.at < format.length && format.bytes[s.at] != '%')
            s.at++;
        jinja_builder_add(&out, jinja_text_cut(format, plain, s.at));
        jinja_step(work, FIELD_STEPS);
        if (take(&s, '%'))
            format_percent_field(&out, &s, &given);
    }
    bool is_left = values.kind == JINJA_TUPLE
                       ? given.next < values.sequence->count
                       : !given.is_used && values.kind != JINJA_DICT &&
                             values.kind != JINJA_UNDEFINED && values.kind != JINJA_LIST &&
                             values.kind != JINJA_VIEW && values.kind != JINJA_RANGE;
    if (is_left)
        jinja_fail(work, LH_ERR_INVALID, "not all arguments converted during string formatting");
    return jinja_builder_text(&out);
}

/* ---- "{}" ---- */

static bool is_align(char byte) {
    return byte && strchr("<>^=", byte);
}

static void read_brace_spec(scan *s, layout *field) {
    const char *at = s->text.bytes + s->at, *end = s->text.bytes + s->text.length;
    const char *next = at;
    if (at < end)
        lh_utf8_decode(&next);
    if (next < end && next > at && is_align(*next)) {
        field->fill = jinja_text_cut(s->text, s->at, (size_t)(next - s->text.bytes));
        field->align = *next;
        s->at = (size_t)(next - s->text.bytes) + 1;
    } else if (is_align(peek(s))) {
        field->align = s->text.bytes[s->at++];
    }
    if (peek(s) && strchr("+- ", peek(s))) {
        field->sign = peek(s) == '-' ? 0 : peek(s);
        s->at++;
    }
    field->is_alternate = take(s, '#');
    if (peek(s) == '0' && !field->align) {
        field->align = '=';
        field->fill = jinja_text_literal("0");
    }
    field->width = take_number(s, WIDTH_MAX);
    field->has_commas = take(s, ',');
    if (take(s, '.'))
        field->precision = take_number(s, PRECISION_MAX);
    if (s->at < s->text.length)
        field->type = s->text.bytes[s->at++];
    if (s->at < s->text.length)
        jinja_fail(s->work, LH_ERR_INVALID, "a field's format \"%.*s\" is not known",
                   (int)(s->text.length < 40 ? s->text.length : 40), s->text.bytes);
}

static void format_value(jinja_builder *out, jinja_value value, jinja_text spec) {
    scan s = {out->work, spec, 0};
    layout field = {.precision = -1};
    if (spec.length == 0) {
        jinja_print_into(out, value);
        return;
    }
    if (value.kind != JINJA_STRING && !jinja_is_number(value))
        jinja_fail(out->work, LH_ERR_INVALID, "a '%s' takes no format", jinja_type_name(value));
    read_brace_spec(&s, &field);
    bool wants_number = field.type && field.type != 's';
    bool is_text = value.kind == JINJA_STRING;
    bool suits =
        is_text ? !wants_number && field.align != '=' && !field.sign && !field.has_commas
                : field.type != 's' && (!field.type || strchr("dxXoeEfFgG%", field.type)) &&
                      (value.kind == JINJA_FLOAT
                           ? field.type && !strchr("dxXo", field.type)
                           : !field.type || field.precision < 0 || strchr("eEfFgG%", field.type));
    if (!suits)
        jinja_fail(out->work, LH_ERR_INVALID, "the format \"%.*s\" does not suit a '%s' here",
                   (int)(spec.length < 40 ? spec.length : 40), spec.bytes, jinja_type_name(value));
    if (is_text)
        format_text(out, *value.text, &field);
    else
        format_number(out, value, &field);
}

static jinja_value brace_value(scan *s, jinja_text name, const jinja_arguments *arguments,
                               size_t *next) {
    bool is_index = name.length > 0 && name.bytes[0] >= '0' && name.bytes[0] <= '9';
    jinja_step(s->work, FIELD_STEPS);
    if (name.length && !is_index) {
        jinja_step(s->work, arguments->named_count / JINJA_NAMES_PER_STEP);
        for (size_t i = 0; i < arguments->named_count; i++)
            if (jinja_text_equal(arguments->named[i].name, name))
                return arguments->named[i].value;
        jinja_fail(s->work, LH_ERR_INVALID, "the format's field \"%.*s\" is not given",
                   (int)(name.length < 40 ? name.length : 40), name.bytes);
    }
    scan digits = {s->work, name, 0};
    size_t index = is_index ? (size_t)take_number(&digits, WIDTH_MAX) : (*next)++;
    if (index >= arguments->count || (is_index && digits.at < name.length))
        jinja_fail(s->work, LH_ERR_INVALID, "the format's field %zu is not given", index);
    return arguments->items[index];
}

static void format_brace_field(jinja_builder *out, scan *s, const jinja_arguments *arguments,
                               size_t *next) {
    size_t begin = s->at;
    while (s->at < s->text.length && !strchr("!:}{", s->text.bytes[s->at]))
        s->at++;
    jinja_text name = jinja_text_cut(s->text, begin, s->at);
    char how = 0;
    if (take(s, '!')) {
        how = peek(s);
        s->at += how != 0;
    }
    jinja_text spec = jinja_text_literal("");
    if (take(s, ':')) {
        begin = s->at;
        while (s->at < s->text.length && s->text.bytes[s->at] != '}' && peek(s) != '{')
            s->at++;
        spec = jinja_text_cut(s->text, begin, s->at);
    }
    if (!take(s, '}') || (how && how != 'r' && how != 's'))
        jinja_fail(s->work, LH_ERR_INVALID, "a \"{\" of the format is not ended by \"}\"");
    jinja_value value = brace_value(s, name, arguments, next);
    if (how)
        value = jinja_string(s->work, shown(s->work, value, how));
    format_value(out, value, spec);
}

jinja_text jinja_format_braces(jinja_work *work, jinja_text format,
                               const jinja_arguments *arguments) {
    scan s = {work, format, 0};
    size_t next = 0;
    jinja_builder out = {.work = work};
    while (s.at < format.length) {
        size_t plain = s.at;
        while (s.at < format.length && format.bytes[s.at] != '{' && format.bytes[s.at] != '}')
            s.at++;
        jinja_builder_add(&out, jinja_text_cut(format, plain, s.at));
        jinja_step(work, 1);
        char brace = peek(&s);
        if (s.at == format.length)
            break;
        s.at++;
        if (take(&s, brace))
            jinja_builder_add(&out, jinja_text_cut(format, s.at - 1, s.at));
        else if (brace == '{')
            format_brace_field(&out, &s, arguments, &next);
        else
            jinja_fail(work, LH_ERR_INVALID, "a single \"}\" in the format");
    }
    return jinja_builder_text(&out);
}

jinja_sequence *jinja_split_lines(jinja_work *work, jinja_text text, bool keeps_ends) {
    jinja_sequence *lines = jinja_sequence_new(work, 4);
    size_t begin = 0, at = 0;
    jinja_step_bytes(work, text.length * 4);
    while (at < text.length) {
        const char *next = text.bytes + at;
        uint32_t code = lh_utf8_decode(&next);
        size_t end = (size_t)(next - text.bytes);
        if (jinja_is_line_end(code)) {
            if (code == '\r' && end < text.length && text.bytes[end] == '\n')
                end++;
            jinja_sequence_push(
                work, lines,
                jinja_string(work, jinja_text_cut(text, begin, keeps_ends ? end : at)));
            begin = end;
        }
        at = end;
    }
    if (begin < text.length)
        jinja_sequence_push(work, lines,
                            jinja_string(work, jinja_text_cut(text, begin, text.length)));
    return lines;
}
