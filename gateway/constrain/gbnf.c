/* A parser by recursive descent, which builds what it reads; rules are looked up in a hash table.
 */
#include "gateway/constrain/gbnf.h"

#include "common/base/growing_array.h"
#include "common/base/text_buffer.h"
#include "common/base/utf8.h"
#include "gateway/constrain/utf8_ranges.h"

#include <stdlib.h>
#include <string.h>

#define CODE_POINT_MAX 0x10FFFFu
#define COUNT_MAX      10000000u /* no answer is as long */

typedef struct rule_name {
    const char *text; /* in the grammar's text; NULL: the slot is empty */
    size_t length;
    lh_grammar_rule rule;
} rule_name;

typedef struct parser {
    lh_grammar *grammar;
    const char *text, *at, *end;
    rule_name *names; /* [name_mask + 1] */
    size_t name_count, name_mask;
    unsigned depth;
} parser;

typedef struct node_list {
    lh_grammar_node *nodes;
    size_t count, capacity;
} node_list;

static bool has_failed(const parser *own) {
    return lh_grammar_check(own->grammar, NULL) != LH_OK;
}

static size_t line_of(const parser *own) {
    size_t line = 1;
    for (const char *at = own->text; at < own->at; at++)
        line += *at == '\n';
    return line;
}

static void fail(parser *own, lh_status status, const char *what) {
    if (!has_failed(own))
        lh_grammar_fail(own->grammar, status, "the grammar, line %zu: %s", line_of(own), what);
}

static void fail_memory(parser *own) {
    lh_grammar_fail(own->grammar, LH_ERR_NO_MEMORY, "no memory for a grammar");
}

static void push_node(parser *own, node_list *list, lh_grammar_node node) {
    if (has_failed(own))
        return;
    if (!lh_growing_array_reserve(&list->nodes, &list->capacity, list->count + 1,
                                  sizeof *list->nodes))
        fail_memory(own);
    else
        list->nodes[list->count++] = node;
}

/* ---- Text ---- */

static bool next_is(const parser *own, const char *wanted) {
    size_t length = strlen(wanted);
    return (size_t)(own->end - own->at) >= length && memcmp(own->at, wanted, length) == 0;
}

static bool accept(parser *own, const char *wanted) {
    bool is = next_is(own, wanted);
    own->at += is ? strlen(wanted) : 0;
    return is;
}

static void skip_line(parser *own) {
    while (own->at < own->end && *own->at != '\n' && *own->at != '\r')
        own->at++;
}

/* Blanks and comments; ends of lines only where a rule may go on in the next one. */
static void skip_space(parser *own, bool over_lines) {
    for (; own->at < own->end; own->at++) {
        if (*own->at == '#')
            skip_line(own);
        if (own->at == own->end)
            return;
        bool is_line_end = *own->at == '\n' || *own->at == '\r';
        if (*own->at != ' ' && *own->at != '\t' && !(is_line_end && over_lines))
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
        fail_memory(own);
        return LH_GRAMMAR_FAILED;
    }
    rule_name *slot = name_slot(own->names, own->name_mask, text, length);
    if (!slot->text) {
        *slot = (rule_name){text, length, lh_grammar_declare(own->grammar, text, length)};
        own->name_count++;
    }
    return slot->rule;
}

static size_t parse_name(parser *own, const char **name) {
    *name = own->at;
    while (own->at < own->end && is_name_character(*own->at))
        own->at++;
    if (own->at == *name)
        fail(own, LH_ERR_INVALID, "the name of a rule is expected");
    return (size_t)(own->at - *name);
}

/* ---- Characters ---- */

static uint32_t parse_hex(parser *own, size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++, own->at++) {
        char digit = own->at < own->end ? *own->at : ' ';
        uint32_t own_value = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                             : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a') + 10
                             : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A') + 10
                                                            : 16;
        if (own_value > 15) {
            fail(own, LH_ERR_INVALID, "a hexadecimal digit is missing");
            return 0;
        }
        value = value * 16 + own_value;
    }
    if (value <= CODE_POINT_MAX && (value < 0xD800 || value > 0xDFFF))
        return value;
    fail(own, LH_ERR_INVALID, "there is no such character");
    return 0;
}

static uint32_t parse_escape(parser *own) {
    static const char letters[] = "nrt\\\"[]", values[] = "\n\r\t\\\"[]";
    char letter = own->at < own->end ? *own->at++ : ' ';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        return (uint8_t)values[found - letters];
    switch (letter) {
    case 'x':
        return parse_hex(own, 2);
    case 'u':
        return parse_hex(own, 4);
    case 'U':
        return parse_hex(own, 8);
    default:
        fail(own, LH_ERR_INVALID, "there is no such escape");
        return 0;
    }
}

/* own->at < own->end */
static uint32_t parse_character(parser *own) {
    return accept(own, "\\") ? parse_escape(own) : lh_utf8_decode(&own->at);
}

/* Behind the quotation mark. */
static lh_grammar_node parse_literal(parser *own) {
    lh_text_buffer text = {0};
    while (own->at < own->end && *own->at != '"' && *own->at != '\n' && !has_failed(own)) {
        uint8_t bytes[4];
        size_t length = lh_utf8_encode(parse_character(own), bytes);
        if (lh_text_buffer_append(&text, (const char *)bytes, length, NULL))
            fail_memory(own);
    }
    if (!accept(own, "\""))
        fail(own, LH_ERR_INVALID, "a literal is not closed");
    lh_grammar_node node = lh_grammar_literal(own->grammar, text.bytes, text.length);
    lh_text_buffer_reset(&text);
    return node;
}

/* Behind the bracket. */
static lh_grammar_node parse_class(parser *own) {
    lh_character_range *ranges = NULL;
    size_t count = 0, capacity = 0;
    bool is_negated = accept(own, "^");
    while (own->at < own->end && *own->at != ']' && *own->at != '\n' && !has_failed(own)) {
        lh_character_range range = {.first = parse_character(own)};
        range.last = range.first;
        bool is_range = next_is(own, "-") && !next_is(own, "-]") && own->end - own->at > 1;
        if (is_range) {
            own->at++;
            range.last = parse_character(own);
        }
        if (range.first > range.last)
            fail(own, LH_ERR_INVALID, "a range ends before it begins");
        if (!lh_growing_array_reserve(&ranges, &capacity, count + 1, sizeof *ranges))
            fail_memory(own);
        else
            ranges[count++] = range;
    }
    if (!accept(own, "]"))
        fail(own, LH_ERR_INVALID, "a class is not closed");
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_class(own->grammar, ranges, count, is_negated);
    free(ranges);
    return node;
}

/* ---- Items ---- */

/* False: there is no number. */
static bool parse_count(parser *own, uint32_t *count) {
    uint64_t value = 0;
    const char *begin = own->at;
    for (; own->at < own->end && *own->at >= '0' && *own->at <= '9'; own->at++)
        if (value <= COUNT_MAX)
            value = value * 10 + (uint64_t)(*own->at - '0');
    if (value > COUNT_MAX)
        fail(own, LH_ERR_LIMIT, "a count is above 10,000,000");
    *count = (uint32_t)value;
    return own->at > begin;
}

/* Behind the brace. */
static void parse_braces(parser *own, uint32_t *min, uint32_t *max) {
    *min = 0;
    skip_space(own, false);
    bool has_min = parse_count(own, min), has_max = false;
    *max = *min;
    skip_space(own, false);
    if (accept(own, ",")) {
        skip_space(own, false);
        has_max = parse_count(own, max);
        *max = has_max ? *max : LH_GRAMMAR_UNBOUNDED;
        skip_space(own, false);
    }
    if ((!has_min && !has_max) || !accept(own, "}"))
        fail(own, LH_ERR_INVALID, "a repetition is written {m}, {m,}, {m,n} or {,n}");
    else if (*min > *max)
        fail(own, LH_ERR_INVALID, "the minimum of a repetition is above its maximum");
}

static lh_grammar_node repeat(parser *own, lh_grammar_node node, bool over_lines) {
    uint32_t min, max;
    for (skip_space(own, over_lines); !has_failed(own); skip_space(own, over_lines)) {
        min = next_is(own, "+");
        max = next_is(own, "?") ? 1 : LH_GRAMMAR_UNBOUNDED;
        if (accept(own, "{"))
            parse_braces(own, &min, &max);
        else if (!accept(own, "*") && !accept(own, "+") && !accept(own, "?"))
            break;
        if (!has_failed(own))
            node = lh_grammar_repeat(own->grammar, node, min, max);
    }
    return node;
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines);

static lh_grammar_node parse_group(parser *own) {
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (++own->depth > LH_GBNF_DEPTH_MAX)
        fail(own, LH_ERR_LIMIT, "more than 100 parentheses are inside one another");
    if (!has_failed(own))
        node = parse_alternatives(own, true);
    own->depth--;
    if (!accept(own, ")"))
        fail(own, LH_ERR_INVALID, "a parenthesis is not closed");
    return node;
}

/* False: no item begins here. */
static bool parse_item(parser *own, lh_grammar_node *node) {
    if (accept(own, "\""))
        *node = parse_literal(own);
    else if (accept(own, "["))
        *node = parse_class(own);
    else if (accept(own, "("))
        *node = parse_group(own);
    else if (accept(own, "."))
        *node = lh_grammar_class(own->grammar, NULL, 0, true);
    else if (own->at < own->end && is_name_character(*own->at)) {
        const char *name;
        size_t length = parse_name(own, &name);
        lh_grammar_rule rule = find_rule(own, name, length);
        *node = has_failed(own) ? LH_GRAMMAR_FAILED : lh_grammar_call(own->grammar, rule);
    } else
        return false;
    return true;
}

static lh_grammar_node parse_sequence(parser *own, bool over_lines) {
    node_list list = {0};
    for (skip_space(own, over_lines); !has_failed(own); skip_space(own, over_lines)) {
        lh_grammar_node item = LH_GRAMMAR_FAILED;
        if (!parse_item(own, &item))
            break;
        push_node(own, &list, repeat(own, item, over_lines));
    }
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_sequence(own->grammar, list.nodes, list.count);
    free(list.nodes);
    return node;
}

/* The bar of another alternative, which may also begin the next line. */
static bool accept_bar(parser *own) {
    parser look = *own;
    skip_space(&look, true);
    if (!accept(&look, "|"))
        return false;
    own->at = look.at;
    return true;
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines) {
    node_list list = {0};
    push_node(own, &list, parse_sequence(own, over_lines));
    while (!has_failed(own) && accept_bar(own)) {
        skip_space(own, true);
        push_node(own, &list, parse_sequence(own, over_lines));
    }
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_choice(own->grammar, list.nodes, list.count);
    free(list.nodes);
    return node;
}

static void parse_rule(parser *own) {
    const char *name;
    size_t length = parse_name(own, &name);
    if (has_failed(own))
        return;
    lh_grammar_rule rule = find_rule(own, name, length);
    skip_space(own, false);
    if (!accept(own, "::="))
        fail(own, LH_ERR_INVALID, "::= is expected behind the name of a rule");
    skip_space(own, true);
    if (has_failed(own))
        return;
    lh_grammar_node node = parse_alternatives(own, false);
    if (!has_failed(own))
        lh_grammar_define(own->grammar, rule, node);
    skip_space(own, false);
    if (own->at < own->end && *own->at != '\n' && *own->at != '\r')
        fail(own, LH_ERR_INVALID, "the end of the rule is expected");
}

void lh_gbnf_add(lh_grammar *grammar, const char *text, size_t length) {
    parser own = {.grammar = grammar, .text = text, .at = text, .end = text + length};
    if (has_failed(&own))
        return;
    if (length > 0 && lh_utf8_valid_prefix(text, length) < length) {
        lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar is not UTF-8");
        return;
    }
    for (skip_space(&own, true); own.at < own.end && !has_failed(&own); skip_space(&own, true))
        parse_rule(&own);
    if (!has_failed(&own)) {
        size_t count = own.name_count;
        lh_grammar_rule root = find_rule(&own, "root", 4);
        if (!has_failed(&own) && own.name_count > count)
            lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar has no rule \"root\"");
        if (!has_failed(&own))
            lh_grammar_set_root(grammar, lh_grammar_call(grammar, root));
    }
    free(own.names);
}
