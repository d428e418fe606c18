/* A walk along the format, which calls snprintf for each conversion. */
#include "common/base/log_line.h"

#include "common/base/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define VALUE_BYTES    1024 /* of a message or value; messages of errors are shorter */
#define TAIL_BYTES     4    /* a quote, a brace, a line feed */
#define NUMBER_BYTES   64   /* a number and what is around it */
#define SPEC_BYTES     48
#define LOWER          "abcdefghijklmnopqrstuvwxyz"
#define KEY_CHARACTERS LOWER "0123456789_"

/* A va_list may be an array, which a function cannot be given by its address. */
typedef struct arguments {
    va_list list;
} arguments;

/* What a part of the format has become. */
typedef struct value {
    char text[VALUE_BYTES];
    size_t length;
    int parts;      /* conversions and characters of the format's own */
    bool is_number; /* the last part was a conversion of a number, and it is one */
    bool is_absent; /* it is none: NaN */
} value;

/* ---- Writing ---- */

typedef struct writer {
    char *line;
    size_t used;
} writer;

/* All of it or nothing. */
static bool put(writer *w, const char *bytes, size_t length) {
    if (w->used + length > LH_LOG_LINE_BYTES - TAIL_BYTES)
        return false;
    memcpy(w->line + w->used, bytes, length);
    w->used += length;
    return true;
}

static bool put_text(writer *w, const char *text) {
    return put(w, text, strlen(text));
}

static bool put_control(writer *w, uint32_t character) {
    char text[8];
    const char *known = strchr("\nn\rr\tt", (int)character);
    if (known && character >= 9 && character <= 13)
        snprintf(text, sizeof text, "\\%c", known[1]);
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)character & 0xffffu);
    return put_text(w, text);
}

/* One character of text[length]; quoted: within quotes. */
static bool put_character(writer *w, const char *text, size_t length, bool quoted, size_t *size) {
    if (lh_utf8_next(text, length, size) != LH_UTF8_WHOLE)
        return put_text(w, "\xef\xbf\xbd");
    const char *end = text;
    uint32_t character = lh_utf8_decode(&end);
    if (character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
        character == 0x2029)
        return put_control(w, character);
    if (quoted && (character == '"' || character == '\\'))
        return put(w, character == '"' ? "\\\"" : "\\\\", 2);
    return put(w, text, *size);
}

static void put_escaped(writer *w, const char *text, size_t length, bool quoted) {
    for (size_t at = 0, size = 0; at < length; at += size)
        if (!put_character(w, text + at, length - at, quoted, &size))
            return;
}

static void put_quoted(writer *w, const char *text, size_t length) {
    put_text(w, "\"");
    put_escaped(w, text, length, true);
    w->line[w->used++] = '"'; /* the tail has room for it */
}

/* ---- Conversions ---- */

/* Copies flags, width and precision of the conversion at `at` (behind its %) into the spec, numbers
 * in the place of stars; returns where the length begins. */
static const char *copy_shape(const char *at, arguments *args, char spec[SPEC_BYTES]) {
    size_t used = 0;
    spec[used++] = '%';
    for (; *at && strchr("-+ #0123456789.*", *at); at++) {
        assert(used < SPEC_BYTES - 16);
        if (*at == '*')
            used += (size_t)snprintf(spec + used, SPEC_BYTES - used, "%d", va_arg(args->list, int));
        else
            spec[used++] = *at;
    }
    spec[used] = '\0';
    return at;
}

static int64_t take_signed(arguments *args, size_t long_count, char length) {
    if (length == 'j' || length == 'z' || length == 't')
        return (int64_t)va_arg(args->list, intmax_t);
    return long_count == 0   ? va_arg(args->list, int)
           : long_count == 1 ? va_arg(args->list, long)
                             : va_arg(args->list, long long);
}

static uint64_t take_unsigned(arguments *args, size_t long_count, char length) {
    if (length == 'j' || length == 'z' || length == 't')
        return (uint64_t)va_arg(args->list, uintmax_t);
    return long_count == 0   ? va_arg(args->list, unsigned)
           : long_count == 1 ? va_arg(args->list, unsigned long)
                             : va_arg(args->list, unsigned long long);
}

static int render_double(char *out, size_t size, const char *spec, arguments *args, value *v) {
    double number = va_arg(args->list, double);
    v->is_number = isfinite(number);
    v->is_absent = isnan(number);
    return snprintf(out, size, spec, number);
}

/* The conversion at `at`, behind its %, into the value; returns where the format goes on. */
static const char *convert(const char *at, arguments *args, value *v) {
    char spec[SPEC_BYTES], *out = v->text + v->length;
    size_t size = sizeof v->text - v->length;
    at = copy_shape(at, args, spec);
    size_t lengths = strspn(at, "hljzt"), shape = strlen(spec);
    size_t long_count = strspn(at, "l");
    char length = *at, kind = at[lengths];
    int written = 0;
    assert(lengths <= 2 && kind && length != 'h');
    v->parts++;
    v->is_number = strchr("diu", kind);
    if (kind == 'd' || kind == 'i') {
        strcpy(spec + shape, "jd");
        written = snprintf(out, size, spec, (intmax_t)take_signed(args, long_count, length));
    } else if (strchr("uxX", kind)) {
        snprintf(spec + shape, SPEC_BYTES - shape, "j%c", kind);
        written = snprintf(out, size, spec, (uintmax_t)take_unsigned(args, long_count, length));
    } else {
        snprintf(spec + shape, SPEC_BYTES - shape, "%c", kind);
        if (kind == 's')
            written = snprintf(out, size, spec, va_arg(args->list, const char *));
        else if (kind == 'c')
            written = snprintf(out, size, spec, va_arg(args->list, int));
        else if (strchr("feg", kind))
            written = render_double(out, size, spec, args, v);
        else
            assert(false && "a conversion that the log knows");
    }
    if (written > 0)
        v->length += (size_t)written < size ? (size_t)written : size - 1;
    return at + lengths + 1;
}

/* format[0, length) with its arguments. */
static void expand(const char *format, size_t length, arguments *args, value *v) {
    const char *end = format + length;
    v->length = 0;
    v->parts = 0;
    v->is_number = v->is_absent = false;
    while (format < end) {
        if (*format == '%' && format[1] != '%') {
            format = convert(format + 1, args, v);
            continue;
        }
        v->parts++;
        if (v->length + 1 < sizeof v->text)
            v->text[v->length++] = *format;
        format += *format == '%' ? 2 : 1;
    }
    v->text[v->length] = '\0';
}

/* ---- Message and fields ---- */

/* The length of the key at `at`, which a = follows; 0: no field begins here. */
static size_t key_length(const char *at) {
    size_t length = strspn(at, KEY_CHARACTERS);
    return length && strchr(LOWER, *at) && at[length] == '=' ? length : 0;
}

/* The first field behind `at`, or the end. */
static const char *find_field(const char *at) {
    while (*at && !key_length(at)) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return at;
}

static size_t trim(const char *from, const char *to) {
    while (to > from && to[-1] == ' ')
        to--;
    return (size_t)(to - from);
}

/* Whether JSON takes it as it is: no sign in front, no zeros, no padding. */
static bool is_plain_number(const value *v) {
    const char *digits = v->text + (v->text[0] == '-');
    return v->is_number && v->parts == 1 && *digits >= '0' && *digits <= '9' &&
           (*digits != '0' || digits[1] < '0' || digits[1] > '9') && !strchr(v->text, ' ');
}

static bool needs_quotes(const value *v) {
    for (size_t i = 0; i < v->length; i++)
        if ((unsigned char)v->text[i] <= ' ' || v->text[i] == 0x7f || strchr("\"\\=", v->text[i]))
            return true;
    return lh_utf8_valid_prefix(v->text, v->length) < v->length;
}

static void put_value(writer *w, lh_log_format form, const value *v, bool quoted) {
    bool is_json = form == LH_LOG_JSON;
    if (v->is_absent || v->length == 0)
        put_text(w, is_json ? "null" : "-");
    else if (is_json ? !is_plain_number(v) : quoted || needs_quotes(v))
        put_quoted(w, v->text, v->length);
    else
        put_escaped(w, v->text, v->length, false);
}

/* The key, where there is room for it and any number. */
static bool put_key(writer *w, lh_log_format form, const char *key, size_t length) {
    if (w->used + length + NUMBER_BYTES > LH_LOG_LINE_BYTES)
        return false;
    put_text(w, form == LH_LOG_JSON ? ",\"" : " ");
    put(w, key, length);
    put_text(w, form == LH_LOG_JSON ? "\":" : "=");
    return true;
}

/* The field at `at`; returns where the next one begins. */
static const char *put_field(writer *w, lh_log_format form, const char *at, arguments *args) {
    value v;
    size_t length = key_length(at);
    const char *from = at + length + 1, *next;
    bool quoted = *from == '"';
    if (quoted) {
        const char *to = strchr(++from, '"');
        assert(to && (to[1] == ' ' || !to[1])); /* the format is the program's own */
        expand(from, (size_t)(to - from), args, &v);
        next = find_field(to + 1);
    } else {
        next = find_field(from + strcspn(from, " "));
        expand(from, trim(from, next), args, &v);
    }
    if (put_key(w, form, at, length))
        put_value(w, form, &v, quoted);
    return next;
}

static void put_head(writer *w, lh_log_format form, const lh_log_head *head, const value *message) {
    if (form == LH_LOG_JSON) {
        w->used = (size_t)snprintf(w->line, LH_LOG_LINE_BYTES,
                                   "{\"time\":\"%.40s\",\"level\":\"%.10s\",\"module\":\"%.40s\","
                                   "\"message\":",
                                   head->time, head->level, head->module);
        put_quoted(w, message->text, message->length);
    } else {
        w->used = (size_t)snprintf(w->line, LH_LOG_LINE_BYTES, "%.40s %-5.10s %.40s: ", head->time,
                                   head->level, head->module);
        put_escaped(w, message->text, message->length, false);
    }
}

size_t lh_log_line_render(lh_log_format form, const lh_log_head *head, const char *format,
                          va_list args, char line[LH_LOG_LINE_BYTES]) {
    writer w = {.line = line};
    arguments own;
    value message;
    const char *fields = find_field(format);
    va_copy(own.list, args);
    expand(format, trim(format, fields), &own, &message);
    put_head(&w, form, head, &message);
    while (*fields)
        fields = put_field(&w, form, fields, &own);
    va_end(own.list);
    if (form == LH_LOG_JSON)
        line[w.used++] = '}';
    line[w.used++] = '\n';
    return w.used;
}
