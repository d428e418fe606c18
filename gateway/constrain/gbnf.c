/* A parser by recursive descent, which builds what it reads; rules are looked up in a hash table.
 */
#include "gateway/constrain/gbnf.h"

#include "common/base/growing_array.h"
#include "common/base/text_buffer.h"
#include "common/base/utf8.h"
#include "gateway/constrain/grammar_reader.h"
#include "gateway/constrain/utf8_ranges.h"

#include <stdlib.h>
#include <string.h>

typedef struct rule_name {
    const char *text; /* in the grammar's text; NULL: the slot is empty */
    size_t length;
    lh_grammar_rule rule;
} rule_name;

typedef struct parser {
    lh_grammar_reader in;
    rule_name *names; /* [name_mask + 1] */
    size_t name_count, name_mask;
    unsigned depth;
} parser;

/* ---- Text ---- */

static void skip_line(parser *own) {
    while (own->in.at < own->in.end && *own->in.at != '\n' && *own->in.at != '\r')
        own->in.at++;
}

/* Blanks and comments; ends of lines only where a rule may go on in the next one. */
static void skip_space(parser *own, bool over_lines) {
    for (; own->in.at < own->in.end; own->in.at++) {
        if (*own->in.at == '#')
            skip_line(own);
        if (own->in.at == own->in.end)
            return;
        bool is_line_end = *own->in.at == '\n' || *own->in.at == '\r';
        if (*own->in.at != ' ' && *own->in.at != '\t' && !(is_line_end && over_lines))
            return;
    }
}

static bool is_name_character(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '-' || character == '_';
}

/* ---- Names ---- */

static rule_name *name_slot(rule_name *names, size_t mask, const char *text, size_t length) {
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)text[i]) * 0x100000001B3u;
    size_t slot = (size_t)(hash ^ hash >> 32) & mask;
    while (names[slot].text &&
           (names[slot].length != length || memcmp(names[slot].text, text, length) != 0))
        slot = (slot + 1) & mask;
    return &names[slot];
}

static bool grow_names(parser *own) {
    size_t count = own->names ? (own->name_mask + 1) * 2 : 64;
    rule_name *made = calloc(count, sizeof *made);
    if (!made)
        return false;
    for (size_t i = 0; own->names && i <= own->name_mask; i++)
        if (own->names[i].text)
            *name_slot(made, count - 1, own->names[i].text, own->names[i].length) = own->names[i];
    free(own->names);
    own->names = made;
    own->name_mask = count - 1;
    return true;
}

/* The rule of this name, declared when it is seen first. */
static lh_grammar_rule find_rule(parser *own, const char *text, size_t length) {
    if ((!own->names || own->name_count * 2 > own->name_mask) && !grow_names(own)) {
        lh_grammar_reader_fail_memory(&own->in);
        return LH_GRAMMAR_FAILED;
    }
    rule_name *slot = name_slot(own->names, own->name_mask, text, length);
    if (!slot->text) {
        *slot = (rule_name){text, length, lh_grammar_declare(own->in.grammar, text, length)};
        own->name_count++;
    }
    return slot->rule;
}

static size_t parse_name(parser *own, const char **name) {
    *name = own->in.at;
    while (own->in.at < own->in.end && is_name_character(*own->in.at))
        own->in.at++;
    if (own->in.at == *name)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "the name of a rule is expected");
    return (size_t)(own->in.at - *name);
}

/* ---- Characters ---- */

static uint32_t parse_escape(parser *own) {
    static const char letters[] = "nrt\\\"[]", values[] = "\n\r\t\\\"[]";
    char letter = own->in.at < own->in.end ? *own->in.at++ : ' ';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        return (uint8_t)values[found - letters];
    switch (letter) {
    case 'x':
        return lh_grammar_reader_hex(&own->in, 2);
    case 'u':
        return lh_grammar_reader_hex(&own->in, 4);
    case 'U':
        return lh_grammar_reader_hex(&own->in, 8);
    default:
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "there is no such escape");
        return 0;
    }
}

/* own->in.at < own->in.end */
static uint32_t parse_character(parser *own) {
    return lh_grammar_reader_accept(&own->in, "\\") ? parse_escape(own)
                                                    : lh_utf8_decode(&own->in.at);
}

/* Behind the quotation mark. */
static lh_grammar_node parse_literal(parser *own) {
    lh_text_buffer text = {0};
    while (own->in.at < own->in.end && *own->in.at != '"' && *own->in.at != '\n' &&
           !lh_grammar_reader_has_failed(&own->in)) {
        uint8_t bytes[4];
        size_t length = lh_utf8_encode(parse_character(own), bytes);
        if (lh_text_buffer_append(&text, (const char *)bytes, length, NULL))
            lh_grammar_reader_fail_memory(&own->in);
    }
    if (!lh_grammar_reader_accept(&own->in, "\""))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a literal is not closed");
    lh_grammar_node node = lh_grammar_literal(own->in.grammar, text.bytes, text.length);
    lh_text_buffer_reset(&text);
    return node;
}

/* Behind the bracket. */
static lh_grammar_node parse_class(parser *own) {
    lh_character_range *ranges = NULL;
    size_t count = 0, capacity = 0;
    bool is_negated = lh_grammar_reader_accept(&own->in, "^");
    while (own->in.at < own->in.end && *own->in.at != ']' && *own->in.at != '\n' &&
           !lh_grammar_reader_has_failed(&own->in)) {
        lh_character_range range = {.first = parse_character(own)};
        range.last = range.first;
        bool is_range = lh_grammar_reader_next_is(&own->in, "-") &&
                        !lh_grammar_reader_next_is(&own->in, "-]") && own->in.end - own->in.at > 1;
        if (is_range) {
            own->in.at++;
            range.last = parse_character(own);
        }
        if (range.first > range.last)
            lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a range ends before it begins");
        if (!lh_growing_array_reserve(&ranges, &capacity, count + 1, sizeof *ranges))
            lh_grammar_reader_fail_memory(&own->in);
        else
            ranges[count++] = range;
    }
    if (!lh_grammar_reader_accept(&own->in, "]"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a class is not closed");
    lh_grammar_node node = lh_grammar_reader_has_failed(&own->in)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_class(own->in.grammar, ranges, count, is_negated);
    free(ranges);
    return node;
}

/* ---- Items ---- */

/* False: there is no number. */
static bool parse_count(parser *own, uint32_t *count) {
    uint64_t value;
    bool is_there = lh_grammar_reader_digits(&own->in, &value);
    if (value > LH_GRAMMAR_COUNT_MAX)
        lh_grammar_reader_fail(&own->in, LH_ERR_LIMIT, "a count is above 10,000,000");
    *count = (uint32_t)value;
    return is_there;
}

/* Behind the brace. */
static void parse_braces(parser *own, uint32_t *min, uint32_t *max) {
    *min = 0;
    skip_space(own, false);
    bool has_min = parse_count(own, min), has_max = false;
    *max = *min;
    skip_space(own, false);
    if (lh_grammar_reader_accept(&own->in, ",")) {
        skip_space(own, false);
        has_max = parse_count(own, max);
        *max = has_max ? *max : LH_GRAMMAR_UNBOUNDED;
        skip_space(own, false);
    }
    if ((!has_min && !has_max) || !lh_grammar_reader_accept(&own->in, "}"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "a repetition is written {m}, {m,}, {m,n} or {,n}");
    else if (*min > *max)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "the minimum of a repetition is above its maximum");
}

static lh_grammar_node repeat(parser *own, lh_grammar_node node, bool over_lines) {
    uint32_t min, max;
    for (skip_space(own, over_lines); !lh_grammar_reader_has_failed(&own->in);
         skip_space(own, over_lines)) {
        min = lh_grammar_reader_next_is(&own->in, "+");
        max = lh_grammar_reader_next_is(&own->in, "?") ? 1 : LH_GRAMMAR_UNBOUNDED;
        if (lh_grammar_reader_accept(&own->in, "{"))
            parse_braces(own, &min, &max);
        else if (!lh_grammar_reader_accept(&own->in, "*") &&
                 !lh_grammar_reader_accept(&own->in, "+") &&
                 !lh_grammar_reader_accept(&own->in, "?"))
            break;
        if (!lh_grammar_reader_has_failed(&own->in))
            node = lh_grammar_repeat(own->in.grammar, node, min, max);
    }
    return node;
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines);

static lh_grammar_node parse_group(parser *own) {
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (++own->depth > LH_GBNF_DEPTH_MAX)
        lh_grammar_reader_fail(&own->in, LH_ERR_LIMIT,
                               "more than 100 parentheses are inside one another");
    if (!lh_grammar_reader_has_failed(&own->in))
        node = parse_alternatives(own, true);
    own->depth--;
    if (!lh_grammar_reader_accept(&own->in, ")"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a parenthesis is not closed");
    return node;
}

/* False: no item begins here. */
static bool parse_item(parser *own, lh_grammar_node *node) {
    if (lh_grammar_reader_accept(&own->in, "\""))
        *node = parse_literal(own);
    else if (lh_grammar_reader_accept(&own->in, "["))
        *node = parse_class(own);
    else if (lh_grammar_reader_accept(&own->in, "("))
        *node = parse_group(own);
    else if (lh_grammar_reader_accept(&own->in, "."))
        *node = lh_grammar_class(own->in.grammar, NULL, 0, true);
    else if (own->in.at < own->in.end && is_name_character(*own->in.at)) {
        const char *name;
        size_t length = parse_name(own, &name);
        lh_grammar_rule rule = find_rule(own, name, length);
        *node = lh_grammar_reader_has_failed(&own->in) ? LH_GRAMMAR_FAILED
                                                       : lh_grammar_call(own->in.grammar, rule);
    } else
        return false;
    return true;
}

static lh_grammar_node parse_sequence(parser *own, bool over_lines) {
    lh_grammar_nodes list = {0};
    for (skip_space(own, over_lines); !lh_grammar_reader_has_failed(&own->in);
         skip_space(own, over_lines)) {
        lh_grammar_node item = LH_GRAMMAR_FAILED;
        if (!parse_item(own, &item))
            break;
        lh_grammar_reader_push(&own->in, &list, repeat(own, item, over_lines));
    }
    return lh_grammar_reader_sequence(&own->in, &list);
}

/* The bar of another alternative, which may also begin the next line. */
static bool accept_bar(parser *own) {
    parser look = *own;
    skip_space(&look, true);
    if (!lh_grammar_reader_accept(&look.in, "|"))
        return false;
    own->in.at = look.in.at;
    return true;
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines) {
    lh_grammar_nodes list = {0};
    lh_grammar_reader_push(&own->in, &list, parse_sequence(own, over_lines));
    while (!lh_grammar_reader_has_failed(&own->in) && accept_bar(own)) {
        skip_space(own, true);
        lh_grammar_reader_push(&own->in, &list, parse_sequence(own, over_lines));
    }
    return lh_grammar_reader_choice(&own->in, &list);
}

static void parse_rule(parser *own) {
    const char *name;
    size_t length = parse_name(own, &name);
    if (lh_grammar_reader_has_failed(&own->in))
        return;
    lh_grammar_rule rule = find_rule(own, name, length);
    skip_space(own, false);
    if (!lh_grammar_reader_accept(&own->in, "::="))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "::= is expected behind the name of a rule");
    skip_space(own, true);
    if (lh_grammar_reader_has_failed(&own->in))
        return;
    lh_grammar_node node = parse_alternatives(own, false);
    if (!lh_grammar_reader_has_failed(&own->in))
        lh_grammar_define(own->in.grammar, rule, node);
    skip_space(own, false);
    if (own->in.at < own->in.end && *own->in.at != '\n' && *own->in.at != '\r')
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "the end of the rule is expected");
}

void lh_gbnf_add(lh_grammar *grammar, const char *text, size_t length) {
    parser own = {.in = {grammar, text, text, text + length}};
    if (lh_grammar_reader_has_failed(&own.in))
        return;
    if (length > 0 && lh_utf8_valid_prefix(text, length) < length) {
        lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar is not UTF-8");
        return;
    }
    for (skip_space(&own, true); own.in.at < own.in.end && !lh_grammar_reader_has_failed(&own.in);
         skip_space(&own, true))
        parse_rule(&own);
    if (!lh_grammar_reader_has_failed(&own.in)) {
        size_t count = own.name_count;
        lh_grammar_rule root = find_rule(&own, "root", 4);
        if (!lh_grammar_reader_has_failed(&own.in) && own.name_count > count)
            lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar has no rule \"root\"");
        if (!lh_grammar_reader_has_failed(&own.in))
            lh_grammar_set_root(grammar, lh_grammar_call(grammar, root));
    }
    free(own.names);
}
