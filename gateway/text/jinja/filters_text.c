/* Filters that make text or numbers of one value. */
#include "gateway/text/jinja/filters.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/casing.h"
#include "gateway/text/jinja/format.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/json_text.h"
#include "gateway/text/jinja/methods.h"
#include "gateway/text/jinja/operators.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/unicode.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_given(jinja_value value) {
    return value.kind != JINJA_MISSING;
}

static jinja_value of_text(jinja_work *work, jinja_text text) {
    return jinja_string(work, text);
}

static jinja_value upper(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return of_text(work, jinja_upper(work, jinja_print(work, self)));
}

static jinja_value lower(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return of_text(work, jinja_lower(work, jinja_print(work, self)));
}

static jinja_value capitalize(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return of_text(work, jinja_capitalize(work, jinja_print(work, self)));
}

static jinja_value title(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return of_text(work, jinja_title_words(work, jinja_print(work, self)));
}

static jinja_value string(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return self.kind == JINJA_STRING ? self : of_text(work, jinja_print(work, self));
}

static jinja_value trim(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text set = jinja_text_literal(""), text = jinja_print(work, self);
    bool has_set = is_given(call->given[0]) && call->given[0].kind != JINJA_NONE;
    if (has_set)
        set = jinja_text_given(work, call->given[0], "what is trimmed");
    return of_text(work, jinja_text_strip(work, text, has_set ? &set : NULL, true, true));
}

static jinja_value replace(jinja_work *work, jinja_value self, const jinja_call *call) {
    int64_t most = -1;
    if (is_given(call->given[2]) && call->given[2].kind != JINJA_NONE)
        most = jinja_integer_given(work, call->given[2], -1);
    return of_text(work, jinja_text_replace(work, jinja_print(work, self),
                                            jinja_print(work, call->given[0]),
                                            jinja_print(work, call->given[1]), most));
}

static jinja_value center(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text text = jinja_print(work, self);
    int64_t width = jinja_integer_given(work, call->given[0], 80);
    int64_t room = width - (int64_t)jinja_text_count(work, text);
    if (room <= 0)
        return of_text(work, text);
    int64_t front = room / 2 + (room & width & 1);
    jinja_builder out = {.work = work};
    jinja_builder_add_times(&out, jinja_text_literal(" "), (size_t)front);
    jinja_builder_add(&out, text);
    jinja_builder_add_times(&out, jinja_text_literal(" "), (size_t)(room - front));
    return of_text(work, jinja_builder_text(&out));
}

static jinja_value indent(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_need_defined(work, self);
    jinja_text text = jinja_text_given(work, self, "what is indented");
    jinja_builder by = {.work = work}, out = {.work = work};
    bool first = is_given(call->given[1]) && jinja_is_true(call->given[1]);
    bool blank = is_given(call->given[2]) && jinja_is_true(call->given[2]);
    int64_t width = 0;
    if (call->given[0].kind == JINJA_STRING)
        jinja_builder_add(&by, *call->given[0].text);
    else if ((width = jinja_integer_given(work, call->given[0], 4)) > 0)
        jinja_builder_add_times(&by, jinja_text_literal(" "), (size_t)width);
    /* An empty last line is a line here. */
    text = jinja_text_join(work, text, jinja_text_literal("\n"));
    jinja_sequence *lines = jinja_split_lines(work, text, false);
    for (size_t i = 0; i < lines->count; i++) {
        jinja_text line = *lines->items[i].text;
        if (i)
            jinja_builder_add_literal(&out, "\n");
        if (i == 0 ? first : blank || line.length)
            jinja_builder_add(&out, jinja_builder_text(&by));
        jinja_builder_add(&out, line);
    }
    return of_text(work, jinja_builder_text(&out));
}

static jinja_value truncate_(jinja_work *work, jinja_value self, const jinja_call *call) {
    int64_t length = jinja_integer_given(work, call->given[0], 255);
    bool kills_words = is_given(call->given[1]) && jinja_is_true(call->given[1]);
    jinja_text end = is_given(call->given[2])
                         ? jinja_text_given(work, call->given[2], "truncate's end")
                         : jinja_text_literal("...");
    bool has_leeway = is_given(call->given[3]) && call->given[3].kind != JINJA_NONE;
    int64_t leeway = has_leeway ? jinja_integer_given(work, call->given[3], 5) : 5;
    int64_t room = length - (int64_t)jinja_text_count(work, end);
    if (room < 0 || leeway < 0)
        jinja_fail(work, LH_ERR_INVALID, "truncate: the length is below that of its end");
    if (self.kind == JINJA_UNDEFINED)
        return self;
    if ((int64_t)jinja_length(work, self) <= length + leeway)
        return self;
    jinja_text text = jinja_text_given(work, self, "what is truncated");
    text = jinja_text_cut(text, 0, jinja_text_at(work, text, (size_t)room));
    ssize_t space = kills_words ? -1 : jinja_text_find_last(work, text, jinja_text_literal(" "));
    if (space >= 0)
        text = jinja_text_cut(text, 0, (size_t)space);
    return of_text(work, jinja_text_join(work, text, end));
}

static jinja_value wordcount(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_text text = jinja_print(work, self);
    int64_t words = 0;
    bool was_word = false;
    jinja_step(work, text.length);
    for (const char *at = text.bytes, *end = at + text.length; at < end;) {
        uint32_t code = lh_utf8_decode(&at);
        bool is_word = code == '_' || jinja_is_alphabetic(code) || jinja_is_numeric(code);
        words += is_word && !was_word;
        was_word = is_word;
    }
    return jinja_int(words);
}

static jinja_value escape(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    static const struct {
        char byte;
        const char *text;
    } names[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    jinja_text text = jinja_print(work, self);
    jinja_builder out = {.work = work};
    size_t plain = 0;
    jinja_step_bytes(work, text.length * 4);
    for (size_t i = 0; i < text.length; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (text.bytes[i] == names[k].byte) {
                jinja_step(work, JINJA_ESCAPE_STEPS);
                jinja_builder_add(&out, jinja_text_cut(text, plain, i));
                jinja_builder_add(
                    &out, jinja_text_of(names[k].text, strlen(names[k].text), JINJA_OF_DATA));
                plain = i + 1;
            }
    jinja_builder_add(&out, jinja_text_cut(text, plain, text.length));
    return of_text(work, jinja_builder_text(&out));
}

/* Percent-encoding as urllib's quote does it; in a query, "/" too, and a space is "+". */
static void quote(jinja_builder *out, jinja_text text, bool is_query) {
    jinja_step(out->work, text.length * JINJA_ESCAPE_STEPS);
    for (size_t i = 0; i < text.length; i++) {
        char byte = text.bytes[i], escaped[4];
        bool stays = isalnum((uint8_t)byte) || (byte && strchr(is_query ? "_.-~" : "_.-~/", byte));
        snprintf(escaped, sizeof escaped, "%%%02X", (uint8_t)byte);
        if (stays)
            jinja_builder_add(out, jinja_text_cut(text, i, i + 1));
        else if (is_query && byte == ' ')
            jinja_builder_add_literal(out, "+");
        else
            jinja_builder_add(out, jinja_text_of(escaped, 3, JINJA_OF_DATA));
    }
}

static void quote_pair(jinja_builder *out, jinja_value pair, bool is_first) {
    jinja_sequence *two = jinja_collect(out->work, pair);
    if (two->count != 2)
        jinja_fail(out->work, LH_ERR_INVALID, "urlencode takes pairs");
    if (!is_first)
        jinja_builder_add_literal(out, "&");
    quote(out, jinja_print(out->work, two->items[0]), true);
    jinja_builder_add_literal(out, "=");
    quote(out, jinja_print(out->work, two->items[1]), true);
}

static jinja_value urlencode(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_builder out = {.work = work};
    jinja_value pair;
    (void)call;
    if (self.kind == JINJA_STRING || !jinja_is_iterable(self)) {
        quote(&out, jinja_print(work, self), false);
        return of_text(work, jinja_builder_text(&out));
    }
    jinja_iterator *pairs =
        jinja_iterate(work, self.kind == JINJA_DICT ? jinja_dict_items(work, self.dict) : self);
    for (bool is_first = true; jinja_next(work, pairs, &pair); is_first = false)
        quote_pair(&out, pair, is_first);
    return of_text(work, jinja_builder_text(&out));
}

static jinja_value format(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text pattern = jinja_print(work, self);
    const jinja_arguments *all = call->all;
    if (all->count && all->named_count)
        jinja_fail(work, LH_ERR_INVALID, "format takes values by place or by name, not both");
    jinja_dict *named = jinja_dict_new(work);
    for (size_t i = 0; i < all->named_count; i++)
        jinja_dict_set(work, named, of_text(work, all->named[i].name), all->named[i].value);
    jinja_sequence *placed = jinja_sequence_new(work, all->count);
    for (size_t i = 0; i < all->count; i++)
        jinja_sequence_push(work, placed, all->items[i]);
    return of_text(work, jinja_format_percent(work, pattern,
                                              all->named_count ? jinja_dict_value(named)
                                                               : jinja_tuple(placed)));
}

static bool takes_separators(jinja_work *work, jinja_value given, jinja_json_style *style) {
    if (!is_given(given) || given.kind == JINJA_NONE)
        return false;
    if (!jinja_is_sequence(given) || given.sequence->count != 2)
        jinja_fail(work, LH_ERR_INVALID, "tojson: separators must be a pair");
    style->item_end = jinja_text_given(work, given.sequence->items[0], "a separator");
    style->key_end = jinja_text_given(work, given.sequence->items[1], "a separator");
    return true;
}

/* json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False). */
static jinja_value tojson(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value by = call->given[1];
    jinja_json_style style = {.is_ascii = is_given(call->given[0]) && jinja_is_true(call->given[0]),
                              .is_indented = is_given(by) && by.kind != JINJA_NONE,
                              .sorts_keys =
                                  is_given(call->given[3]) && jinja_is_true(call->given[3]),
                              .key_end = jinja_text_literal(": ")};
    style.item_end = jinja_text_literal(style.is_indented ? "," : ", ");
    takes_separators(work, call->given[2], &style);
    if (style.is_indented && by.kind == JINJA_STRING) {
        style.indent = *by.text;
    } else if (style.is_indented) {
        jinja_builder spaces = {.work = work};
        int64_t width = jinja_integer_given(work, by, 0);
        if (width > 0)
            jinja_builder_add_times(&spaces, jinja_text_literal(" "), (size_t)width);
        style.indent = jinja_builder_text(&spaces);
    }
    jinja_builder out = {.work = work};
    jinja_json_into(&out, self, &style);
    return of_text(work, jinja_builder_text(&out));
}

/* ---- Numbers. ---- */

/* Python's digits may be grouped by single underscores. False: it is no number. */
static bool read_digits(jinja_work *work, jinja_value self, char *digits, size_t capacity) {
    jinja_text text = jinja_text_strip(work, *self.text, NULL, true, true);
    size_t length = 0;
    if (text.length == 0 || text.length >= capacity)
        return false;
    jinja_step(work, text.length);
    for (size_t i = 0; i < text.length; i++) {
        bool joins = text.bytes[i] == '_' && i > 0 && i + 1 < text.length &&
                     isalnum((uint8_t)text.bytes[i - 1]) && isalnum((uint8_t)text.bytes[i + 1]);
        if (!joins)
            digits[length++] = text.bytes[i];
    }
    digits[length] = 0;
    return true;
}

static bool read_integer(jinja_work *work, jinja_value self, int base, int64_t *integer) {
    char digits[80], *end;
    if (!read_digits(work, self, digits, sizeof digits))
        return false;
    const char *at = digits + (*digits == '-' || *digits == '+');
    char letter = at[0] == '0' ? (char)tolower((uint8_t)at[1]) : 0;
    bool has_prefix = (letter == 'x' && (base == 16 || base == 0)) ||
                      (letter == 'o' && (base == 8 || base == 0)) ||
                      (letter == 'b' && (base == 2 || base == 0));
    if (has_prefix) {
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
        at += 2;
    }
    if (!isalnum((uint8_t)*at))
        return false;
    errno = 0;
    long long size = strtoll(at, &end, base ? base : 10);
    if (*end || end == at)
        return false;
    if (errno)
        jinja_fail(work, LH_ERR_LIMIT, "an integer has more than 64 bits");
    *integer = *digits == '-' ? -size : size;
    return true;
}

static bool read_float(jinja_work *work, jinja_value self, double *number) {
    char digits[80], *end;
    if (!read_digits(work, self, digits, sizeof digits) || strpbrk(digits, "xXpP("))
        return false;
    *number = strtod(digits, &end);
    return *end == 0 && end != digits;
}

static jinja_value int_(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value otherwise = is_given(call->given[0]) ? call->given[0] : jinja_int(0);
    int64_t base = jinja_integer_given(work, call->given[1], 10), integer;
    double number = 0;
    jinja_need_defined(work, self);
    if (jinja_is_integer(self))
        return jinja_int(jinja_integer(self));
    if (self.kind == JINJA_STRING) {
        bool is_base = base == 0 || (base >= 2 && base <= 36);
        if (is_base && read_integer(work, self, (int)base, &integer))
            return jinja_int(integer);
        if (!read_float(work, self, &number))
            return otherwise;
    } else if (self.kind == JINJA_FLOAT) {
        number = self.number;
        if (isinf(number))
            jinja_fail(work, LH_ERR_INVALID, "infinity is no integer");
    } else {
        return otherwise;
    }
    if (isnan(number) || isinf(number))
        return otherwise;
    if (fabs(number) >= 9.2e18)
        jinja_fail(work, LH_ERR_LIMIT, "an integer has more than 64 bits");
    return jinja_int((int64_t)number);
}

static jinja_value float_(jinja_work *work, jinja_value self, const jinja_call *call) {
    double number;
    jinja_need_defined(work, self);
    if (jinja_is_number(self))
        return jinja_float(jinja_number(self));
    if (self.kind == JINJA_STRING && read_float(work, self, &number))
        return jinja_float(number);
    return is_given(call->given[0]) ? call->given[0] : jinja_float(0);
}

static jinja_value abs_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    if (!jinja_is_number(self))
        jinja_fail(work, LH_ERR_INVALID, "'%s' has no absolute value", jinja_type_name(self));
    if (self.kind == JINJA_FLOAT)
        return jinja_float(fabs(self.number));
    int64_t integer = jinja_integer(self);
    return integer < 0 ? jinja_negate(work, self) : jinja_int(integer);
}

/* Hundreds of digits take some microseconds. */
#define ROUND_STEPS 400

/* Half to even, by the number's decimal digits, as Python's round does. */
static double round_to(double number, int64_t places) {
    char text[700];
    if (!isfinite(number) || places > 300)
        return number;
    if (places >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)places, number);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-places);
    return isinf(unit) ? copysign(0, number) : nearbyint(number / unit) * unit;
}

static jinja_value round_integer(jinja_work *work, int64_t integer, int64_t places) {
    if (places >= 0)
        return jinja_int(integer);
    if (places < -17)
        return jinja_int(0);
    int64_t unit = 1;
    for (int64_t i = 0; i < -places; i++)
        unit *= 10;
    int64_t rest = ((integer % unit) + unit) % unit, low = integer - rest;
    bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
    int64_t result;
    if (__builtin_add_overflow(low, up ? unit : 0, &result))
        jinja_fail(work, LH_ERR_LIMIT, "an integer has more than 64 bits");
    return jinja_int(result);
}

static jinja_value round_(jinja_work *work, jinja_value self, const jinja_call *call) {
    bool none = call->given[0].kind == JINJA_NONE;
    int64_t places = none ? 0 : jinja_integer_given(work, call->given[0], 0);
    jinja_text method = is_given(call->given[1])
                            ? jinja_text_given(work, call->given[1], "round's method")
                            : jinja_text_literal("common");
    bool is_ceiling = jinja_text_is(method, "ceil");
    jinja_need_defined(work, self);
    jinja_step(work, ROUND_STEPS);
    if (!is_ceiling && !jinja_text_is(method, "floor") && !jinja_text_is(method, "common"))
        jinja_fail(work, LH_ERR_INVALID, "round: the method must be common, ceil or floor");
    if (!jinja_is_number(self))
        jinja_fail(work, LH_ERR_INVALID, "'%s' cannot be rounded", jinja_type_name(self));
    if (jinja_text_is(method, "common") && jinja_is_integer(self))
        return round_integer(work, jinja_integer(self), places);
    if (jinja_text_is(method, "common"))
        return jinja_float(round_to(self.number, places));
    if (places > 300 || places < -300)
        jinja_fail(work, LH_ERR_LIMIT, "round: too many digits");
    double unit = pow(10, (double)places), scaled = jinja_number(self) * unit;
    if (!isfinite(scaled))
        jinja_fail(work, LH_ERR_INVALID, "round: the number is too large");
    return jinja_float((is_ceiling ? ceil(scaled) : floor(scaled)) / unit);
}

static jinja_value filesizeformat(jinja_work *work, jinja_value self, const jinja_call *call) {
    static const char prefixes[] = "kMGTPEZY";
    bool is_binary = is_given(call->given[0]) && jinja_is_true(call->given[0]);
    jinja_value as_float = float_(work, self, &(jinja_call){.given = {{.kind = JINJA_NONE}}});
    double base = is_binary ? 1024 : 1000, bytes;
    char text[400];
    if (as_float.kind != JINJA_FLOAT)
        jinja_fail(work, LH_ERR_INVALID, "filesizeformat takes a number");
    bytes = as_float.number;
    if (isnan(bytes))
        jinja_fail(work, LH_ERR_INVALID, "filesizeformat takes a number");
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        if (isinf(bytes))
            jinja_fail(work, LH_ERR_INVALID, "filesizeformat takes a finite number");
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        size_t i = 0;
        double unit = base * base;
        for (; bytes >= unit && prefixes[i + 1]; i++)
            unit *= base;
        snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit,
                 is_binary && i == 0 ? 'K' : prefixes[i], is_binary ? "i" : "");
    }
    jinja_builder out = {.work = work};
    jinja_builder_add_literal(&out, text);
    return of_text(work, jinja_builder_text(&out));
}

const jinja_entry_point jinja_text_filters[] = {
    {"abs", abs_, "", 0},
    {"capitalize", capitalize, "", 0},
    {"center", center, "width", 0},
    {"e", escape, "", 0},
    {"escape", escape, "", 0},
    {"filesizeformat", filesizeformat, "binary", 0},
    {"float", float_, "default", 0},
    {"forceescape", escape, "", 0},
    {"format", format, "*", 0},
    {"indent", indent, "width,first,blank", 0},
    {"int", int_, "default,base", 0},
    {"lower", lower, "", 0},
    {"replace", replace, "old,new,count", 2},
    {"round", round_, "precision,method", 0},
    {"safe", string, "", 0},
    {"string", string, "", 0},
    {"title", title, "", 0},
    {"tojson", tojson, "ensure_ascii,indent,separators,sort_keys", 0},
    {"trim", trim, "chars", 0},
    {"truncate", truncate_, "length,killwords,end,leeway", 0},
    {"upper", upper, "", 0},
    {"urlencode", urlencode, "", 0},
    {"wordcount", wordcount, "", 0},
    {NULL, NULL, NULL, 0},
};
