/* A parser by recursive descent, which builds what it reads. What is read may be of four kinds at
 * once, by whether it says that the text begins in front of it, or ends behind it: (^a|b) is "a" of
 * one kind and "b" of another. So a search can tell where anything may stand before and behind. */
#include "gateway/constrain/regex.h"

#include "common/base/growing_array.h"
#include "common/base/utf8.h"
#include "gateway/constrain/regex_class.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CODE_POINT_MAX 0x10FFFFu
/* A greater count in braces is refused: no answer is as long, so that it is a slip of the pen. */
#define COUNT_MAX 10000000u

enum { IS_BEGIN = 1, IS_END = 2, KINDS = 4 };

typedef struct parser {
    lh_grammar *grammar;
    uint32_t *characters; /* [length]: the pattern */
    size_t length, at;
    lh_regex_options options;
    unsigned depth;
} parser;

/* What a part of a pattern matches. */
typedef struct part {
    struct {
        bool is_there;
        bool is_empty; /* only the empty text */
        lh_grammar_node node;
    } kinds[KINDS];
} part;

typedef struct node_list {
    lh_grammar_node *nodes;
    size_t count, capacity;
} node_list;

static bool has_failed(const parser *own) {
    return lh_grammar_check(own->grammar, NULL) != LH_OK;
}

static void fail(parser *own, lh_status status, size_t position, const char *what) {
    lh_grammar_fail(own->grammar, status, "the regular expression at character %zu: %s", position,
                    what);
}

static bool ends(const parser *own) {
    return own->at >= own->length;
}

/* 0 behind the end, where nothing is. */
static uint32_t ahead(const parser *own, size_t distance) {
    return distance < own->length - own->at ? own->characters[own->at + distance] : 0;
}

static bool next_is(const parser *own, char character) {
    return !ends(own) && own->characters[own->at] == (uint8_t)character;
}

static bool accept(parser *own, char character) {
    bool is = next_is(own, character);
    own->at += is;
    return is;
}

static void push_node(parser *own, node_list *list, lh_grammar_node node) {
    if (has_failed(own))
        return;
    if (!lh_growing_array_reserve(&list->nodes, &list->capacity, list->count + 1,
                                  sizeof *list->nodes))
        lh_grammar_fail(own->grammar, LH_ERR_NO_MEMORY, "no memory for a regular expression");
    else
        list->nodes[list->count++] = node;
}

/* ---- Parts ---- */

static part part_of(lh_grammar_node node, unsigned kind, bool is_empty) {
    part made = {0};
    made.kinds[kind].is_there = true;
    made.kinds[kind].is_empty = is_empty;
    made.kinds[kind].node = node;
    return made;
}

static bool has_anchor(const part *any) {
    return any->kinds[IS_BEGIN].is_there || any->kinds[IS_END].is_there ||
           any->kinds[IS_BEGIN | IS_END].is_there;
}

static lh_grammar_node pair(parser *own, lh_grammar_node a, lh_grammar_node b, bool is_sequence) {
    lh_grammar_node both[] = {a, b};
    if (has_failed(own))
        return LH_GRAMMAR_FAILED;
    return is_sequence ? lh_grammar_sequence(own->grammar, both, 2)
                       : lh_grammar_choice(own->grammar, both, 2);
}

static void add_kind(parser *own, part *to, unsigned kind, lh_grammar_node node, bool is_empty) {
    if (to->kinds[kind].is_there) {
        node = pair(own, to->kinds[kind].node, node, false);
        is_empty = is_empty && to->kinds[kind].is_empty;
    }
    to->kinds[kind].is_there = true;
    to->kinds[kind].is_empty = is_empty;
    to->kinds[kind].node = node;
}

static part either(parser *own, part a, part b) {
    for (unsigned kind = 0; kind < KINDS; kind++)
        if (b.kinds[kind].is_there)
            add_kind(own, &a, kind, b.kinds[kind].node, b.kinds[kind].is_empty);
    return a;
}

/* One after the other. Where the text ends, nothing else can follow, and nothing can stand before
 * its begin. */
static part both(parser *own, const part *a, const part *b, size_t position) {
    part made = {0};
    for (unsigned i = 0; i < KINDS * KINDS; i++) {
        unsigned x = i / KINDS, y = i % KINDS;
        if (!a->kinds[x].is_there || !b->kinds[y].is_there)
            continue;
        bool a_is_empty = a->kinds[x].is_empty, b_is_empty = b->kinds[y].is_empty;
        if ((x & IS_END && !b_is_empty) || (y & IS_BEGIN && !a_is_empty)) {
            fail(own, LH_ERR_UNSUPPORTED, position, "^ or $ in the middle is not supported");
            break;
        }
        lh_grammar_node node = a_is_empty   ? b->kinds[y].node
                               : b_is_empty ? a->kinds[x].node
                                            : pair(own, a->kinds[x].node, b->kinds[y].node, true);
        add_kind(own, &made, x | y, node, a_is_empty && b_is_empty);
    }
    return made;
}

static part empty_part(parser *own, unsigned kind) {
    return part_of(lh_grammar_empty(own->grammar), kind, true);
}

static part set_part(parser *own, const lh_character_set *set) {
    return part_of(lh_character_set_node(set, own->options.is_json_text, own->grammar), 0, false);
}

static part character_part(parser *own, uint32_t character) {
    lh_character_set set = {0};
    lh_character_set_add(&set, character, character);
    part made = set_part(own, &set);
    lh_character_set_reset(&set);
    return made;
}

/* ---- Escapes ---- */

static int hex_value(uint32_t character) {
    if (character >= '0' && character <= '9')
        return (int)character - '0';
    if (character >= 'a' && character <= 'f')
        return (int)character - 'a' + 10;
    return character >= 'A' && character <= 'F' ? (int)character - 'A' + 10 : -1;
}

/* min to max hexadecimal digits. */
static uint32_t parse_hex(parser *own, size_t min, size_t max) {
    uint32_t value = 0;
    size_t count = 0;
    for (; count < max && hex_value(ahead(own, 0)) >= 0; count++, own->at++)
        value = value * 16 + (uint32_t)hex_value(ahead(own, 0));
    if (count < min)
        fail(own, LH_ERR_INVALID, own->at, "a hexadecimal digit is missing");
    else if (value > CODE_POINT_MAX)
        fail(own, LH_ERR_INVALID, own->at, "there is no such character");
    return value;
}

static bool is_low_surrogate_ahead(const parser *own) {
    return ahead(own, 0) == '\\' && ahead(own, 1) == 'u' &&
           (ahead(own, 2) == 'd' || ahead(own, 2) == 'D') && hex_value(ahead(own, 3)) >= 0xC;
}

/* Behind \u: four digits, a pair of surrogates by four each, or any number in braces. */
static uint32_t parse_unicode(parser *own) {
    if (accept(own, '{')) {
        uint32_t value = parse_hex(own, 1, 6);
        if (!has_failed(own) && !accept(own, '}'))
            fail(own, LH_ERR_INVALID, own->at, "} is missing");
        return value;
    }
    uint32_t value = parse_hex(own, 4, 4);
    if (value < 0xD800 || value > 0xDFFF)
        return value;
    if (value < 0xDC00 && is_low_surrogate_ahead(own)) {
        own->at += 2;
        return 0x10000 + ((value - 0xD800) << 10) + (parse_hex(own, 4, 4) - 0xDC00);
    }
    fail(own, LH_ERR_INVALID, own->at, "half of a surrogate pair is no character");
    return 0;
}

static bool is_letter_or_digit(uint32_t character) {
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
           (character >= 'A' && character <= 'Z');
}

/* The character that stands behind a backslash; own->at is behind it. */
static uint32_t parse_escaped(parser *own) {
    size_t position = own->at;
    if (ends(own)) {
        fail(own, LH_ERR_INVALID, position, "\\ stands at the end");
        return 0;
    }
    uint32_t letter = own->characters[own->at++];
    switch (letter) {
    case 'a':
        return '\a';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'v':
        return '\v';
    case 'x':
        return parse_hex(own, 2, 2);
    case 'u':
        return parse_unicode(own);
    case 'c':
        if (!is_letter_or_digit(ahead(own, 0)) || ahead(own, 0) <= '9')
            fail(own, LH_ERR_INVALID, own->at, "a letter is missing behind \\c");
        return ends(own) ? 0 : own->characters[own->at++] % 32;
    case '0':
        if (ahead(own, 0) < '0' || ahead(own, 0) > '9')
            return 0;
        break;
    default:
        if (!is_letter_or_digit(letter))
            return letter;
    }
    fail(own, LH_ERR_UNSUPPORTED, position,
         letter >= '1' && letter <= '9' ? "back references are not supported"
         : letter == 'b' || letter == 'B'
             ? "\\b and \\B are not supported"
             : (letter == 'p' || letter == 'P' ? "\\p{...} is not supported"
                                               : "this escape is not supported"));
    return 0;
}

/* ---- Classes ---- */

/* One character or named set of a class; false: it was a set. */
static bool parse_class_item(parser *own, lh_character_set *set, uint32_t *character) {
    if (!accept(own, '\\')) {
        *character = own->characters[own->at++];
        return true;
    }
    if (lh_character_set_add_named(set, ahead(own, 0))) {
        own->at++;
        return false;
    }
    if (accept(own, 'b')) {
        *character = '\b';
        return true;
    }
    *character = parse_escaped(own);
    return true;
}

static void parse_class_range(parser *own, lh_character_set *set) {
    uint32_t first, last;
    size_t position = own->at;
    if (!parse_class_item(own, set, &first))
        return;
    last = first;
    bool is_range = next_is(own, '-') && own->length - own->at > 1 && ahead(own, 1) != ']';
    if (is_range) {
        own->at++;
        if (!parse_class_item(own, set, &last)) {
            fail(own, LH_ERR_INVALID, position, "a range ends with a set of characters");
            return;
        }
    }
    if (first > last)
        fail(own, LH_ERR_INVALID, position, "a range ends before it begins");
    else
        lh_character_set_add(set, first, last);
}

/* Behind [. A ] that comes first is a character. */
static part parse_class(parser *own) {
    lh_character_set set = {0};
    size_t position = own->at;
    bool is_negated = accept(own, '^');
    bool is_first = true;
    while (!ends(own) && (is_first || !next_is(own, ']')) && !has_failed(own)) {
        parse_class_range(own, &set);
        is_first = false;
    }
    if (!has_failed(own) && !accept(own, ']'))
        fail(own, LH_ERR_INVALID, position, "a class is not closed");
    if (is_negated)
        lh_character_set_negate(&set);
    part made = set_part(own, &set);
    lh_character_set_reset(&set);
    return made;
}

/* ---- Repetition ---- */

/* False: there is no number. */
static bool parse_count(parser *own, uint32_t *count) {
    uint64_t value = 0;
    size_t begin = own->at;
    for (; ahead(own, 0) >= '0' && ahead(own, 0) <= '9'; own->at++)
        if (value <= COUNT_MAX)
            value = value * 10 + (ahead(own, 0) - '0');
    if (value > COUNT_MAX)
        fail(own, LH_ERR_LIMIT, begin, "a count is above 10,000,000");
    *count = (uint32_t)value;
    return own->at > begin;
}

/* Behind an item: {m}, {m,}, {m,n} or {,n}; else nothing was read, and { is a character. */
static bool parse_braces(parser *own, uint32_t *min, uint32_t *max) {
    size_t begin = own->at;
    *min = 0;
    if (!accept(own, '{'))
        return false;
    bool has_min = parse_count(own, min), has_max = false;
    *max = *min;
    if (accept(own, ',')) {
        has_max = parse_count(own, max);
        if (!has_max)
            *max = LH_GRAMMAR_UNBOUNDED;
    }
    if ((has_min || has_max) && accept(own, '}'))
        return true;
    own->at = begin;
    return false;
}

static bool parse_quantifier(parser *own, uint32_t *min, uint32_t *max) {
    *min = next_is(own, '+');
    *max = next_is(own, '?') ? 1 : LH_GRAMMAR_UNBOUNDED;
    if (accept(own, '*') || accept(own, '+') || accept(own, '?'))
        return true;
    return parse_braces(own, min, max);
}

static part repeat(parser *own, part item, size_t position) {
    uint32_t min, max;
    if (has_failed(own) || !parse_quantifier(own, &min, &max))
        return item;
    if (next_is(own, '+'))
        fail(own, LH_ERR_UNSUPPORTED, own->at, "possessive repetition is not supported");
    accept(own, '?'); /* what is lazy matches the same texts */
    if (next_is(own, '*') || next_is(own, '+') || next_is(own, '?'))
        fail(own, LH_ERR_INVALID, own->at, "there is nothing to repeat");
    if (has_anchor(&item))
        fail(own, LH_ERR_UNSUPPORTED, position, "^ or $ is repeated");
    if (min > max)
        fail(own, LH_ERR_INVALID, position, "the minimum is above the maximum");
    if (has_failed(own) || item.kinds[0].is_empty)
        return item;
    if (own->options.repeats_max > 0 && max > own->options.repeats_max)
        max = min > own->options.repeats_max ? min : own->options.repeats_max;
    return part_of(lh_grammar_repeat(own->grammar, item.kinds[0].node, min, max), 0, max == 0);
}

/* ---- Groups ---- */

static part parse_alternatives(parser *own);

/* Behind (?< or (?P<. */
static void parse_name(parser *own) {
    size_t position = own->at;
    while (!ends(own) && !next_is(own, '>'))
        own->at++;
    if (!accept(own, '>'))
        fail(own, LH_ERR_INVALID, position, "a name of a group is not closed");
}

/* What stands behind (?. */
static void parse_group_kind(parser *own) {
    size_t position = own->at;
    if (accept(own, ':'))
        return;
    bool is_look_behind = ahead(own, 0) == '<' && (ahead(own, 1) == '=' || ahead(own, 1) == '!');
    if (ahead(own, 0) == 'P' && ahead(own, 1) == '<') {
        own->at += 2;
        parse_name(own);
    } else if (!is_look_behind && accept(own, '<'))
        parse_name(own);
    else
        fail(own, LH_ERR_UNSUPPORTED, position,
             is_look_behind || next_is(own, '=') || next_is(own, '!')
                 ? "look-around is not supported"
                 : "this kind of group is not supported");
}

static part parse_group(parser *own) {
    size_t position = own->at;
    if (accept(own, '?'))
        parse_group_kind(own);
    if (++own->depth > LH_REGEX_DEPTH_MAX)
        fail(own, LH_ERR_LIMIT, position, "more than 100 groups are inside one another");
    part made = {0};
    if (!has_failed(own))
        made = parse_alternatives(own);
    own->depth--;
    if (!has_failed(own) && !accept(own, ')'))
        fail(own, LH_ERR_INVALID, position, "a group is not closed");
    return made;
}

static part parse_escape_item(parser *own) {
    lh_character_set set = {0};
    if (accept(own, 'A'))
        return empty_part(own, IS_BEGIN);
    if (accept(own, 'Z') || accept(own, 'z'))
        return empty_part(own, IS_END);
    if (!lh_character_set_add_named(&set, ahead(own, 0)))
        return character_part(own, parse_escaped(own));
    own->at++;
    part made = set_part(own, &set);
    lh_character_set_reset(&set);
    return made;
}

static part any_but_newline(parser *own) {
    lh_character_set set = {0};
    lh_character_set_add(&set, '\n', '\n');
    lh_character_set_negate(&set);
    part made = set_part(own, &set);
    lh_character_set_reset(&set);
    return made;
}

static part parse_item(parser *own) {
    size_t position = own->at;
    uint32_t min, max;
    if (parse_quantifier(own, &min, &max)) {
        fail(own, LH_ERR_INVALID, position, "there is nothing to repeat");
        return (part){0};
    }
    uint32_t character = own->characters[own->at++];
    switch (character) {
    case '^':
        return empty_part(own, IS_BEGIN);
    case '$':
        return empty_part(own, IS_END);
    case '.':
        return any_but_newline(own);
    case '[':
        return parse_class(own);
    case '(':
        return parse_group(own);
    case '\\':
        return parse_escape_item(own);
    default:
        return character_part(own, character);
    }
}

static part parse_branch(parser *own) {
    part made = empty_part(own, 0);
    node_list plain = {0}; /* parts without anchors, to be one sequence */
    size_t position = own->at;
    while (!ends(own) && !next_is(own, '|') && !next_is(own, ')') && !has_failed(own)) {
        position = own->at;
        part item = parse_item(own);
        item = repeat(own, item, position);
        if (!has_failed(own) && !has_anchor(&item)) {
            push_node(own, &plain, item.kinds[0].node);
            continue;
        }
        if (!has_failed(own) && plain.count > 0) {
            part before =
                part_of(lh_grammar_sequence(own->grammar, plain.nodes, plain.count), 0, false);
            made = both(own, &made, &before, position);
        }
        plain.count = 0;
        if (!has_failed(own))
            made = both(own, &made, &item, position);
    }
    if (!has_failed(own) && plain.count > 0) {
        part rest = part_of(lh_grammar_sequence(own->grammar, plain.nodes, plain.count), 0, false);
        made = both(own, &made, &rest, position);
    }
    free(plain.nodes);
    return made;
}

static part parse_alternatives(parser *own) {
    part made = parse_branch(own);
    if (!next_is(own, '|'))
        return made;
    node_list plain = {0}; /* alternatives without anchors, to be one choice */
    part anchored = {0};
    for (;;) {
        for (unsigned kind = 1; kind < KINDS; kind++)
            if (made.kinds[kind].is_there && !has_failed(own))
                add_kind(own, &anchored, kind, made.kinds[kind].node, made.kinds[kind].is_empty);
        if (made.kinds[0].is_there)
            push_node(own, &plain, made.kinds[0].node);
        if (has_failed(own) || !accept(own, '|'))
            break;
        made = parse_branch(own);
    }
    if (!has_failed(own) && plain.count > 0) {
        part choice = part_of(lh_grammar_choice(own->grammar, plain.nodes, plain.count), 0, false);
        anchored = either(own, anchored, choice);
    }
    free(plain.nodes);
    return anchored;
}

/* ---- The whole ---- */

static lh_grammar_node anything(parser *own) {
    lh_character_set set = {0};
    lh_character_set_add(&set, 0, CODE_POINT_MAX);
    lh_grammar_node node = lh_character_set_node(&set, own->options.is_json_text, own->grammar);
    lh_character_set_reset(&set);
    if (has_failed(own))
        return LH_GRAMMAR_FAILED;
    return lh_grammar_repeat(own->grammar, node, 0, LH_GRAMMAR_UNBOUNDED);
}

static lh_grammar_node finish(parser *own, const part *all) {
    lh_grammar_node found[KINDS], around = LH_GRAMMAR_FAILED;
    size_t count = 0;
    if (own->options.is_search)
        around = anything(own);
    for (unsigned kind = 0; kind < KINDS && !has_failed(own); kind++) {
        if (!all->kinds[kind].is_there)
            continue;
        lh_grammar_node node = all->kinds[kind].node;
        if (own->options.is_search && !(kind & IS_BEGIN))
            node = pair(own, around, node, true);
        if (own->options.is_search && !(kind & IS_END))
            node = pair(own, node, around, true);
        found[count++] = node;
    }
    return has_failed(own) ? LH_GRAMMAR_FAILED : lh_grammar_choice(own->grammar, found, count);
}

lh_grammar_node lh_regex_add(lh_grammar *grammar, const char *pattern, size_t length,
                             lh_regex_options options) {
    parser own = {.grammar = grammar, .options = options};
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (has_failed(&own))
        return LH_GRAMMAR_FAILED;
    if (length > 0 && lh_utf8_valid_prefix(pattern, length) < length)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "the regular expression is not UTF-8");
    own.characters = calloc(length + 1, sizeof *own.characters);
    if (!own.characters)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a regular expression");
    for (const char *at = pattern; at < pattern + length;)
        own.characters[own.length++] = lh_utf8_decode(&at);
    part all = parse_alternatives(&own);
    if (!has_failed(&own) && !ends(&own))
        fail(&own, LH_ERR_INVALID, own.at, ") closes nothing");
    if (!has_failed(&own))
        node = finish(&own, &all);
    free(own.characters);
    return node;
}
