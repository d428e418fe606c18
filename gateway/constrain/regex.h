/* Regular expressions as part of a grammar, in the syntax that Python, ECMA-262 and PCRE share:
 * literals, `.` (anything but \n), classes [a-z] [^a-z], \d \D \w \W \s \S (ASCII, as ECMA-262 has
 * them, \s with Unicode's spaces), groups (...) (?:...) (?<name>...) (?P<name>...), alternation,
 * * + ? {m} {m,} {m,n} {,n}, lazy ones too (they match the same texts), ^ and $, and the escapes
 * \t \n \r \f \v \0 \xHH \uHHHH (pairs of surrogates too) \u{H...} \cX, and \ before a character
 * that is no letter or digit. Not: look-around, back references, \b \B, possessive and atomic
 * groups, flags, \p{...}: LH_ERR_UNSUPPORTED names it and its position. ^ and $ mean nothing at the
 * two ends of a match, and are LH_ERR_UNSUPPORTED elsewhere. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <stdbool.h>
#include <stddef.h>

/* Groups inside one another. */
#define LH_REGEX_DEPTH_MAX 100

typedef struct lh_regex_options {
    /* The expression is looked for, as `pattern` of JSON Schema: where ^ or $ is missing, anything
     * may stand before or behind. Otherwise it is for the whole text. */
    bool is_search;
    /* The text is the inside of a JSON string: a character that the expression allows is written as
     * JSON writes it (RFC 8259, section 7): ", \ and control characters only by their escapes, each
     * other one as it is. */
    bool is_json_text;
    /* No repetition goes on longer, but for those that must: some of the texts that the expression
     * has, of a bounded length. 0: all of them. */
    uint32_t repeats_max;
} lh_regex_options;

/* The texts that pattern[length], UTF-8, matches. A pattern that cannot be read is a failure of the
 * grammar (which sticks): LH_ERR_INVALID or LH_ERR_UNSUPPORTED with the position in characters,
 * from 0; LH_ERR_LIMIT. */
lh_grammar_node lh_regex_add(lh_grammar *grammar, const char *pattern, size_t length,
                             lh_regex_options options);
