/* str's methods, with Python's indices, which count characters. */
#include "gateway/text/jinja/methods.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/casing.h"
#include "gateway/text/jinja/format.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/unicode.h"

static jinja_value mapped(jinja_work *work, jinja_value self,
                          jinja_text (*map)(jinja_work *, jinja_text)) {
    return jinja_string(work, map(work, *self.text));
}

static jinja_value upper(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_upper);
}

static jinja_value lower(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_lower);
}

static jinja_value casefold(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_fold);
}

static jinja_value capitalize(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_capitalize);
}

static jinja_value swapcase(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_swap_case);
}

static jinja_value title(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return mapped(work, self, jinja_title);
}

static jinja_value strip_sides(jinja_work *work, jinja_value self, const jinja_call *call,
                               bool left, bool right) {
    jinja_value set = call->given[0];
    bool is_given = set.kind != JINJA_MISSING && set.kind != JINJA_NONE;
    jinja_text characters = jinja_text_literal("");
    if (is_given)
        characters = jinja_text_given(work, set, "what is stripped");
    return jinja_string(
        work, jinja_text_strip(work, *self.text, is_given ? &characters : NULL, left, right));
}

static jinja_value strip(jinja_work *work, jinja_value self, const jinja_call *call) {
    return strip_sides(work, self, call, true, true);
}

static jinja_value lstrip(jinja_work *work, jinja_value self, const jinja_call *call) {
    return strip_sides(work, self, call, true, false);
}

static jinja_value rstrip(jinja_work *work, jinja_value self, const jinja_call *call) {
    return strip_sides(work, self, call, false, true);
}

/* A start or an end in characters, as the byte where it is; false: it is beyond the text. */
static bool place_bound(jinja_work *work, jinja_text text, jinja_value given, bool is_start,
                        size_t *at) {
    *at = is_start ? 0 : text.length;
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE)
        return true;
    int64_t index = jinja_integer_given(work, given, 0);
    int64_t length = (int64_t)jinja_text_count(work, text);
    if (index < 0)
        index = index + length < 0 ? 0 : index + length;
    *at = jinja_text_at(work, text, (size_t)index);
    return index <= length;
}

/* The part of the text that given[1] and given[2] bound; false: the start is beyond its end. */
static bool bounded(jinja_work *work, jinja_value self, const jinja_call *call, jinja_text *part,
                    size_t *begin) {
    size_t end;
    bool is_within = place_bound(work, *self.text, call->given[1], true, begin);
    place_bound(work, *self.text, call->given[2], false, &end);
    if (!is_within || *begin > end)
        return false;
    *part = jinja_text_cut(*self.text, *begin, end);
    return true;
}

static int64_t find_in(jinja_work *work, jinja_value self, const jinja_call *call, bool is_last) {
    jinja_text part, wanted = jinja_text_given(work, call->given[0], "what is looked for");
    size_t begin;
    if (!bounded(work, self, call, &part, &begin))
        return -1;
    ssize_t at =
        is_last ? jinja_text_find_last(work, part, wanted) : jinja_text_find(work, part, wanted);
    if (at < 0)
        return -1;
    return (int64_t)jinja_text_count(work, jinja_text_cut(*self.text, 0, begin + (size_t)at));
}

static jinja_value find(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_int(find_in(work, self, call, false));
}

static jinja_value rfind(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_int(find_in(work, self, call, true));
}

static jinja_value found_or_fail(jinja_work *work, int64_t at) {
    if (at < 0)
        jinja_fail(work, LH_ERR_INVALID, "substring not found");
    return jinja_int(at);
}

static jinja_value index_of(jinja_work *work, jinja_value self, const jinja_call *call) {
    return found_or_fail(work, find_in(work, self, call, false));
}

static jinja_value rindex_of(jinja_work *work, jinja_value self, const jinja_call *call) {
    return found_or_fail(work, find_in(work, self, call, true));
}

static jinja_value count(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text part, wanted = jinja_text_given(work, call->given[0], "what is counted");
    size_t begin;
    int64_t found = 0;
    if (!bounded(work, self, call, &part, &begin))
        return jinja_int(0);
    if (wanted.length == 0)
        return jinja_int((int64_t)jinja_text_count(work, part) + 1);
    for (ssize_t at; (at = jinja_text_find(work, part, wanted)) >= 0; found++) {
        part = jinja_text_cut(part, (size_t)at + wanted.length, part.length);
        jinja_step(work, 1);
    }
    return jinja_int(found);
}

static bool has_affix(jinja_work *work, jinja_text text, jinja_value affix, bool is_front) {
    jinja_text wanted = jinja_text_given(work, affix, "a prefix or suffix");
    if (wanted.length > text.length)
        return false;
    size_t begin = is_front ? 0 : text.length - wanted.length;
    return jinja_text_equal(jinja_text_cut(text, begin, begin + wanted.length), wanted);
}

static jinja_value has_any_affix(jinja_work *work, jinja_value self, const jinja_call *call,
                                 bool is_front) {
    jinja_text part;
    size_t begin;
    bool is_within = bounded(work, self, call, &part, &begin);
    jinja_value affix = call->given[0];
    if (affix.kind != JINJA_TUPLE) {
        jinja_text_given(work, affix, "a prefix or suffix");
        return jinja_bool(is_within && has_affix(work, part, affix, is_front));
    }
    for (size_t i = 0; i < affix.sequence->count && is_within; i++)
        if (has_affix(work, part, affix.sequence->items[i], is_front))
            return jinja_bool(true);
    return jinja_bool(false);
}

static jinja_value startswith(jinja_work *work, jinja_value self, const jinja_call *call) {
    return has_any_affix(work, self, call, true);
}

static jinja_value endswith(jinja_work *work, jinja_value self, const jinja_call *call) {
    return has_any_affix(work, self, call, false);
}

static jinja_value removeprefix(jinja_work *work, jinja_value self, const jinja_call *call) {
    bool has = has_affix(work, *self.text, call->given[0], true);
    return has ? jinja_string(work, jinja_text_cut(*self.text, call->given[0].text->length,
                                                   self.text->length))
               : self;
}

static jinja_value removesuffix(jinja_work *work, jinja_value self, const jinja_call *call) {
    bool has = has_affix(work, *self.text, call->given[0], false);
    return has ? jinja_string(work, jinja_text_cut(*self.text, 0,
                                                   self.text->length - call->given[0].text->length))
               : self;
}

static jinja_value replace(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text old = jinja_text_given(work, call->given[0], "what is replaced");
    jinja_text new = jinja_text_given(work, call->given[1], "what it is replaced with");
    return jinja_string(work, jinja_text_replace(work, *self.text, old, new,
                                                 jinja_integer_given(work, call->given[2], -1)));
}

static void push_text(jinja_work *work, jinja_sequence *list, jinja_text text) {
    jinja_sequence_push(work, list, jinja_string(work, text));
}

static jinja_text strip_front(jinja_work *work, jinja_text text) {
    return jinja_text_strip(work, text, NULL, true, false);
}

static jinja_text strip_back(jinja_work *work, jinja_text text) {
    return jinja_text_strip(work, text, NULL, false, true);
}

/* Words, from the front. */
static void split_words(jinja_work *work, jinja_sequence *list, jinja_text rest, int64_t most) {
    rest = strip_front(work, rest);
    while (rest.length && most-- != 0) {
        size_t end = 0;
        while (end < rest.length) {
            const char *at = rest.bytes + end;
            if (jinja_is_space(lh_utf8_decode(&at)))
                break;
            end = (size_t)(at - rest.bytes);
        }
        jinja_step_bytes(work, end);
        push_text(work, list, jinja_text_cut(rest, 0, end));
        rest = strip_front(work, jinja_text_cut(rest, end, rest.length));
    }
    if (rest.length)
        push_text(work, list, rest);
}

/* The byte behind the last white space. */
static size_t last_word_at(jinja_text text) {
    size_t at = text.length;
    while (at > 0) {
        size_t last = at - 1;
        while (last > 0 && ((uint8_t)text.bytes[last] & 0xC0) == 0x80)
            last--;
        const char *here = text.bytes + last;
        if (jinja_is_space(lh_utf8_decode(&here)))
            break;
        at = last;
    }
    return at;
}

static void split_words_back(jinja_work *work, jinja_sequence *list, jinja_text rest,
                             int64_t most) {
    rest = strip_back(work, rest);
    while (rest.length && most-- != 0) {
        size_t at = last_word_at(rest);
        jinja_step_bytes(work, rest.length - at);
        push_text(work, list, jinja_text_cut(rest, at, rest.length));
        rest = strip_back(work, jinja_text_cut(rest, 0, at));
    }
    if (rest.length)
        push_text(work, list, rest);
}

static void split_at(jinja_work *work, jinja_sequence *list, jinja_text rest, jinja_text mark,
                     int64_t most) {
    for (ssize_t at; most-- != 0 && (at = jinja_text_find(work, rest, mark)) >= 0;) {
        push_text(work, list, jinja_text_cut(rest, 0, (size_t)at));
        rest = jinja_text_cut(rest, (size_t)at + mark.length, rest.length);
    }
    push_text(work, list, rest);
}

static void split_at_back(jinja_work *work, jinja_sequence *list, jinja_text rest, jinja_text mark,
                          int64_t most) {
    for (ssize_t at; most-- != 0 && (at = jinja_text_find_last(work, rest, mark)) >= 0;) {
        push_text(work, list, jinja_text_cut(rest, (size_t)at + mark.length, rest.length));
        rest = jinja_text_cut(rest, 0, (size_t)at);
    }
    push_text(work, list, rest);
}

static void turn_round(jinja_sequence *list) {
    for (size_t i = 0; i < list->count / 2; i++) {
        jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

static jinja_value split_from(jinja_work *work, jinja_value self, const jinja_call *call,
                              bool is_back) {
    jinja_value given = call->given[0];
    int64_t most = jinja_integer_given(work, call->given[1], -1);
    jinja_sequence *list = jinja_sequence_new(work, 4);
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE) {
        (is_back ? split_words_back : split_words)(work, list, *self.text, most);
    } else {
        jinja_text mark = jinja_text_given(work, given, "a separator");
        if (mark.length == 0)
            jinja_fail(work, LH_ERR_INVALID, "empty separator");
        (is_back ? split_at_back : split_at)(work, list, *self.text, mark, most);
    }
    if (is_back)
        turn_round(list);
    return jinja_list(list);
}

static jinja_value split(jinja_work *work, jinja_value self, const jinja_call *call) {
    return split_from(work, self, call, false);
}

static jinja_value rsplit(jinja_work *work, jinja_value self, const jinja_call *call) {
    return split_from(work, self, call, true);
}

static jinja_value splitlines(jinja_work *work, jinja_value self, const jinja_call *call) {
    bool keeps_ends = call->given[0].kind != JINJA_MISSING && jinja_is_true(call->given[0]);
    return jinja_list(jinja_split_lines(work, *self.text, keeps_ends));
}

static jinja_value partition_at(jinja_work *work, jinja_value self, const jinja_call *call,
                                bool is_back) {
    jinja_text mark = jinja_text_given(work, call->given[0], "a separator"), all = *self.text;
    if (mark.length == 0)
        jinja_fail(work, LH_ERR_INVALID, "empty separator");
    ssize_t at = is_back ? jinja_text_find_last(work, all, mark) : jinja_text_find(work, all, mark);
    jinja_sequence *three = jinja_sequence_new(work, 3);
    jinja_text none = jinja_text_literal("");
    if (at < 0) {
        push_text(work, three, is_back ? none : all);
        push_text(work, three, none);
        push_text(work, three, is_back ? all : none);
    } else {
        push_text(work, three, jinja_text_cut(all, 0, (size_t)at));
        push_text(work, three, mark);
        push_text(work, three, jinja_text_cut(all, (size_t)at + mark.length, all.length));
    }
    return jinja_tuple(three);
}

static jinja_value partition(jinja_work *work, jinja_value self, const jinja_call *call) {
    return partition_at(work, self, call, false);
}

static jinja_value rpartition(jinja_work *work, jinja_value self, const jinja_call *call) {
    return partition_at(work, self, call, true);
}

static jinja_value join(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_iterator *iterator = jinja_iterate(work, call->given[0]);
    jinja_builder out = {.work = work};
    jinja_value item;
    for (bool is_first = true; jinja_next(work, iterator, &item); is_first = false) {
        if (!is_first)
            jinja_builder_add(&out, *self.text);
        jinja_builder_add(&out, jinja_text_given(work, item, "an item that is joined"));
    }
    return jinja_string(work, jinja_builder_text(&out));
}

/* Filled up to the width: `left` and `right` tell where. */
static jinja_value pad(jinja_work *work, jinja_value self, const jinja_call *call, bool left,
                       bool right) {
    int64_t width = jinja_integer_given(work, call->given[0], 0);
    jinja_text fill = call->given[1].kind == JINJA_MISSING
                          ? jinja_text_literal(" ")
                          : jinja_text_given(work, call->given[1], "what it is filled with");
    if (jinja_text_count(work, fill) != 1)
        jinja_fail(work, LH_ERR_INVALID, "the fill must be one character");
    int64_t room = width - (int64_t)jinja_text_count(work, *self.text);
    if (room <= 0)
        return self;
    int64_t front = left && right ? room / 2 + (room & width & 1) : left ? room : 0;
    jinja_builder out = {.work = work};
    jinja_builder_add_times(&out, fill, (size_t)front);
    jinja_builder_add(&out, *self.text);
    jinja_builder_add_times(&out, fill, (size_t)(room - front));
    return jinja_string(work, jinja_builder_text(&out));
}

static jinja_value center(jinja_work *work, jinja_value self, const jinja_call *call) {
    return pad(work, self, call, true, true);
}

static jinja_value ljust(jinja_work *work, jinja_value self, const jinja_call *call) {
    return pad(work, self, call, false, true);
}

static jinja_value rjust(jinja_work *work, jinja_value self, const jinja_call *call) {
    return pad(work, self, call, true, false);
}

static jinja_value zfill(jinja_work *work, jinja_value self, const jinja_call *call) {
    int64_t room =
        jinja_integer_given(work, call->given[0], 0) - (int64_t)jinja_text_count(work, *self.text);
    bool is_signed =
        self.text->length && (self.text->bytes[0] == '-' || self.text->bytes[0] == '+');
    if (room <= 0)
        return self;
    jinja_builder out = {.work = work};
    jinja_builder_add(&out, jinja_text_cut(*self.text, 0, is_signed));
    jinja_builder_add_times(&out, jinja_text_literal("0"), (size_t)room);
    jinja_builder_add(&out, jinja_text_cut(*self.text, is_signed, self.text->length));
    return jinja_string(work, jinja_builder_text(&out));
}

static jinja_value all_are(jinja_work *work, jinja_value self, bool (*is)(uint32_t)) {
    jinja_step(work, self.text->length);
    for (const char *at = self.text->bytes, *end = at + self.text->length; at < end;)
        if (!is(lh_utf8_decode(&at)))
            return jinja_bool(false);
    return jinja_bool(self.text->length > 0);
}

static bool is_letter_or_number(uint32_t code) {
    return jinja_is_alphabetic(code) || jinja_is_numeric(code) || jinja_is_digit(code);
}

static jinja_value isalnum_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, is_letter_or_number);
}

static jinja_value isalpha_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, jinja_is_alphabetic);
}

static jinja_value isdecimal(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, jinja_is_decimal);
}

static jinja_value isdigit_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, jinja_is_digit);
}

static jinja_value isnumeric(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, jinja_is_numeric);
}

static jinja_value isspace_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return all_are(work, self, jinja_is_space);
}

static bool is_ascii(uint32_t code) {
    return code < 0x80;
}

static jinja_value isascii_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return self.text->length ? all_are(work, self, is_ascii) : jinja_bool(true);
}

static jinja_value islower_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_step(work, self.text->length);
    return jinja_bool(jinja_all_lower(*self.text));
}

static jinja_value isupper_(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_step(work, self.text->length);
    return jinja_bool(jinja_all_upper(*self.text));
}

static jinja_value istitle(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_step(work, self.text->length);
    return jinja_bool(jinja_all_title(*self.text));
}

static jinja_value format(jinja_work *work, jinja_value self, const jinja_call *call) {
    return jinja_string(work, jinja_format_braces(work, *self.text, call->all));
}

const jinja_entry_point jinja_text_methods[] = {
    {"capitalize", capitalize, "", 0},
    {"casefold", casefold, "", 0},
    {"center", center, "_,_", 1},
    {"count", count, "_,_,_", 1},
    {"endswith", endswith, "_,_,_", 1},
    {"find", find, "_,_,_", 1},
    {"format", format, "*", 0},
    {"index", index_of, "_,_,_", 1},
    {"isalnum", isalnum_, "", 0},
    {"isalpha", isalpha_, "", 0},
    {"isascii", isascii_, "", 0},
    {"isdecimal", isdecimal, "", 0},
    {"isdigit", isdigit_, "", 0},
    {"islower", islower_, "", 0},
    {"isnumeric", isnumeric, "", 0},
    {"isspace", isspace_, "", 0},
    {"istitle", istitle, "", 0},
    {"isupper", isupper_, "", 0},
    {"join", join, "_", 1},
    {"ljust", ljust, "_,_", 1},
    {"lower", lower, "", 0},
    {"lstrip", lstrip, "_", 0},
    {"partition", partition, "_", 1},
    {"removeprefix", removeprefix, "_", 1},
    {"removesuffix", removesuffix, "_", 1},
    {"replace", replace, "_,_,_", 2},
    {"rfind", rfind, "_,_,_", 1},
    {"rindex", rindex_of, "_,_,_", 1},
    {"rjust", rjust, "_,_", 1},
    {"rpartition", rpartition, "_", 1},
    {"rsplit", rsplit, "sep,maxsplit", 0},
    {"rstrip", rstrip, "_", 0},
    {"split", split, "sep,maxsplit", 0},
    {"splitlines", splitlines, "keepends", 0},
    {"startswith", startswith, "_,_,_", 1},
    {"strip", strip, "_", 0},
    {"swapcase", swapcase, "", 0},
    {"title", title, "", 0},
    {"upper", upper, "", 0},
    {"zfill", zfill, "_", 1},
    {NULL, NULL, NULL, 0},
};
