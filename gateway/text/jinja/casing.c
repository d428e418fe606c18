/* One loop over characters, and a rule for what each becomes. */
#include "gateway/text/jinja/casing.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/unicode.h"

#include <string.h>

typedef enum casing { UPPER, LOWER, FOLDED, CAPITAL, SWAPPED, TITLE, WORDS } casing;

#define SIGMA 0x3A3

/* Is the sigma at `at` the last letter of a word? Then it has a form of its own. */
static bool is_final_sigma(jinja_text text, size_t at, size_t end) {
    bool is_after = false;
    for (size_t i = at; i-- > 0;) {
        if (((uint8_t)text.bytes[i] & 0xC0) == 0x80)
            continue;
        const char *here = text.bytes + i;
        uint32_t code = lh_utf8_decode(&here);
        if (!jinja_is_case_ignorable(code)) {
            is_after = jinja_is_cased(code);
            break;
        }
    }
    const char *next = text.bytes + end;
    while (is_after && next < text.bytes + text.length) {
        uint32_t code = lh_utf8_decode(&next);
        if (!jinja_is_case_ignorable(code))
            return !jinja_is_cased(code);
    }
    return is_after;
}

static bool begins_word(uint32_t code) {
    return jinja_is_space(code) || (code < 0x80 && code && strchr("-({[<", (int)code));
}

/* What the character becomes; `was` is the one before it, 0 at the front. */
static jinja_case case_of(casing rule, uint32_t code, uint32_t was, bool *changes) {
    *changes = true;
    switch (rule) {
    case UPPER:
        return JINJA_UPPER;
    case LOWER:
        return JINJA_LOWER;
    case FOLDED:
        return JINJA_FOLDED;
    case CAPITAL:
        return was ? JINJA_LOWER : JINJA_TITLE;
    case SWAPPED:
        *changes = jinja_is_upper(code) || jinja_is_lower(code);
        return jinja_is_upper(code) ? JINJA_LOWER : JINJA_UPPER;
    case TITLE:
        return jinja_is_cased(was) ? JINJA_LOWER : JINJA_TITLE;
    case WORDS:
        break;
    }
    return was == 0 || begins_word(was) ? JINJA_UPPER : JINJA_LOWER;
}

static void map_character(jinja_builder *out, jinja_text text, size_t at, size_t end, casing rule,
                          uint32_t was) {
    const char *here = text.bytes + at;
    uint32_t code = lh_utf8_decode(&here);
    jinja_origin origin = (jinja_origin)(text.origins ? text.origins[at] : text.origin);
    bool changes;
    jinja_case to = case_of(rule, code, was, &changes);
    char bytes[JINJA_CASE_BYTES_MAX];
    if (!changes)
        jinja_builder_add(out, jinja_text_cut(text, at, end));
    else if (code == SIGMA && to == JINJA_LOWER && is_final_sigma(text, at, end))
        jinja_builder_add_character(out, 0x3C2, origin);
    else
        jinja_builder_add(out, jinja_text_of(bytes, jinja_case_map(code, to, bytes), origin));
}

static jinja_text map(jinja_work *work, jinja_text text, casing rule) {
    jinja_builder out = {.work = work};
    uint32_t was = 0;
    jinja_step(work, text.length);
    for (size_t at = 0; at < text.length;) {
        const char *next = text.bytes + at;
        uint32_t code = lh_utf8_decode(&next);
        size_t end = (size_t)(next - text.bytes);
        map_character(&out, text, at, end, rule, was);
        was = code ? code : 1;
        at = end;
    }
    return jinja_builder_text(&out);
}

jinja_text jinja_upper(jinja_work *work, jinja_text text) {
    return map(work, text, UPPER);
}

jinja_text jinja_lower(jinja_work *work, jinja_text text) {
    return map(work, text, LOWER);
}

jinja_text jinja_fold(jinja_work *work, jinja_text text) {
    return map(work, text, FOLDED);
}

jinja_text jinja_capitalize(jinja_work *work, jinja_text text) {
    return map(work, text, CAPITAL);
}

jinja_text jinja_swap_case(jinja_work *work, jinja_text text) {
    return map(work, text, SWAPPED);
}

jinja_text jinja_title(jinja_work *work, jinja_text text) {
    return map(work, text, TITLE);
}

jinja_text jinja_title_words(jinja_work *work, jinja_text text) {
    return map(work, text, WORDS);
}

static bool all_are(jinja_text text, bool (*is)(uint32_t), bool (*is_not)(uint32_t)) {
    bool is_found = false;
    for (const char *at = text.bytes, *end = at + text.length; at < end;) {
        uint32_t code = lh_utf8_decode(&at);
        if (is_not(code) || jinja_is_title(code))
            return false;
        is_found = is_found || is(code);
    }
    return is_found;
}

bool jinja_all_lower(jinja_text text) {
    return all_are(text, jinja_is_lower, jinja_is_upper);
}

bool jinja_all_upper(jinja_text text) {
    return all_are(text, jinja_is_upper, jinja_is_lower);
}

bool jinja_all_title(jinja_text text) {
    bool is_found = false, was_cased = false;
    for (const char *at = text.bytes, *end = at + text.length; at < end;) {
        uint32_t code = lh_utf8_decode(&at);
        bool is_capital = jinja_is_upper(code) || jinja_is_title(code);
        if ((is_capital && was_cased) || (jinja_is_lower(code) && !was_cased))
            return false;
        was_cased = is_capital || jinja_is_lower(code);
        is_found = is_found || was_cased;
    }
    return is_found;
}
