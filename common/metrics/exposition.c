/* Lines of text. */
#include "common/metrics/exposition.h"

#include "common/base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABELS_MAX 8u
/* Doubles below are exact. */
#define WHOLE_MAX 9007199254740992.0
/* U+FFFD */
#define REPLACEMENT "\xef\xbf\xbd"

static void put(lh_exposition *e, const char *bytes, size_t length) {
    if (!e->has_failed)
        e->has_failed = lh_text_buffer_append(&e->text, bytes, length, NULL) != LH_OK;
}

static void put_text(lh_exposition *e, const char *text) {
    put(e, text, strlen(text));
}

/* ---- Families ---- */

static bool is_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    return strchr(letters, name[0]) && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789")];
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

void lh_exposition_family(lh_exposition *e, const char *name, lh_metric_type type,
                          const char *help) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    assert(e->family_count < LH_METRIC_FAMILIES_MAX && name[0] && is_name(name));
    assert(ends_with(name, "_total") == (type == LH_METRIC_COUNTER) && !strpbrk(help, "\\\n"));
    for (uint32_t i = 0; i < e->family_count; i++)
        assert(strcmp(e->families[i], name) != 0);
    e->families[e->family_count++] = name;
    e->type = type;
    const char *const pieces[] = {"# HELP ", name, " ",         help, "\n# TYPE ",
                                  name,      " ",  types[type], "\n"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        put_text(e, pieces[i]);
}

/* ---- Labels ---- */

static void put_character(lh_exposition *e, const char *bytes, size_t size) {
    unsigned char first = (unsigned char)bytes[0];
    if (first == '\\' || first == '"')
        put(e, "\\", 1);
    if (first == '\n')
        put(e, "\\n", 2);
    else if (first < ' ' || first == 127)
        put(e, "?", 1);
    else
        put(e, bytes, size);
}

/* Nearly all are names, which need no second look. */
static size_t plain_prefix(const char *value, size_t length) {
    size_t plain = 0;
    while (plain < length && value[plain] >= ' ' && value[plain] < 127 && value[plain] != '"' &&
           value[plain] != '\\')
        plain++;
    return plain;
}

static void put_label_value(lh_exposition *e, const char *value) {
    size_t length = strnlen(value, LH_METRIC_VALUE_BYTES);
    size_t plain = plain_prefix(value, length);
    put(e, value, plain);
    value += plain;
    length -= plain;
    while (length > 0) {
        size_t size;
        lh_utf8_form form = lh_utf8_next(value, length, &size);
        if (form == LH_UTF8_WHOLE)
            put_character(e, value, size);
        else
            put_text(e, REPLACEMENT);
        value += size;
        length -= size;
    }
}

static void put_label(lh_exposition *e, const char *before, const char *name, const char *value) {
    put_text(e, before);
    put_text(e, name);
    put_text(e, "=\"");
    put_label_value(e, value);
    put_text(e, "\"");
}

/* The family's name with a suffix and its labels; bound: the histogram's last label, or NULL. */
static void begin_line(lh_exposition *e, const char *suffix, const lh_metric_label *labels,
                       const char *bound) {
    assert(e->family_count > 0);
    put_text(e, e->families[e->family_count - 1]);
    put_text(e, suffix);
    uint32_t count = 0;
    for (; labels && labels[count].name; count++) {
        assert(count < LABELS_MAX && is_name(labels[count].name));
        put_label(e, count == 0 ? "{" : ",", labels[count].name, labels[count].value);
    }
    if (bound)
        put_label(e, count++ == 0 ? "{" : ",", "le", bound);
    put_text(e, count > 0 ? "} " : " ");
}

/* ---- Values ---- */

static void put_number(lh_exposition *e, double value) {
    char text[40];
    if (isnan(value))
        snprintf(text, sizeof text, "NaN\n");
    else if (isinf(value))
        snprintf(text, sizeof text, "%cInf\n", value > 0 ? '+' : '-');
    else if (value == floor(value) && fabs(value) < WHOLE_MAX)
        snprintf(text, sizeof text, "%.0f\n", value);
    else
        snprintf(text, sizeof text, "%.12g\n", value);
    put_text(e, text);
}

static void put_count(lh_exposition *e, uint64_t count) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64 "\n", count);
    put_text(e, text);
}

void lh_exposition_value(lh_exposition *e, const lh_metric_label *labels, double value) {
    assert(e->type != LH_METRIC_HISTOGRAM);
    begin_line(e, "", labels, NULL);
    put_number(e, value);
}

void lh_exposition_count(lh_exposition *e, const lh_metric_label *labels, uint64_t count) {
    assert(e->type != LH_METRIC_HISTOGRAM);
    begin_line(e, "", labels, NULL);
    put_count(e, count);
}

void lh_exposition_histogram(lh_exposition *e, const lh_metric_label *labels,
                             const lh_histogram *histogram) {
    assert(e->type == LH_METRIC_HISTOGRAM);
    uint64_t count = 0;
    for (uint32_t i = 0; i <= histogram->bound_count; i++) {
        char bound[32] = "+Inf";
        if (i < histogram->bound_count)
            snprintf(bound, sizeof bound, "%g", histogram->bounds[i]);
        count += lh_counter_read(&histogram->buckets[i]);
        begin_line(e, "_bucket", labels, bound);
        put_count(e, count);
    }
    begin_line(e, "_sum", labels, NULL);
    put_number(e, (double)lh_counter_read(&histogram->sum) / LH_HISTOGRAM_UNIT);
    begin_line(e, "_count", labels, NULL);
    put_count(e, count);
}

void lh_exposition_append(lh_exposition *e, const char *text, size_t length) {
    put(e, text, length);
}

lh_status lh_exposition_take(lh_exposition *e, lh_text_buffer *text, lh_error *error) {
    bool has_failed = e->has_failed;
    if (has_failed)
        lh_text_buffer_reset(&e->text);
    *text = e->text;
    *e = (lh_exposition){0};
    return has_failed ? lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the metrics") : LH_OK;
}
