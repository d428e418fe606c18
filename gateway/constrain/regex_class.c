/* Ranges in any order; only a set that is negated is sorted. */
#include "gateway/constrain/regex_class.h"

#include "common/base/growing_array.h"

#include <stdio.h>
#include <stdlib.h>

#define CODE_POINT_MAX 0x10FFFFu

static const lh_character_range digits[] = {{'0', '9'}};
static const lh_character_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/* ECMA-262's WhiteSpace and LineTerminator. */
static const lh_character_range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

typedef struct named_set {
    char letter; /* the upper case is its complement */
    const lh_character_range *ranges;
    size_t count;
} named_set;

static const named_set named[] = {{'d', digits, sizeof digits / sizeof digits[0]},
                                  {'w', word, sizeof word / sizeof word[0]},
                                  {'s', spaces, sizeof spaces / sizeof spaces[0]}};

void lh_character_set_reset(lh_character_set *set) {
    free(set->ranges);
    *set = (lh_character_set){0};
}

void lh_character_set_add(lh_character_set *set, uint32_t first, uint32_t last) {
    if (set->has_failed || !lh_growing_array_reserve(&set->ranges, &set->capacity, set->count + 1,
                                                     sizeof *set->ranges))
        set->has_failed = true;
    else
        set->ranges[set->count++] = (lh_character_range){first, last};
}

/* The gaps between ranges that are in order and apart. */
static void add_others(lh_character_set *set, const lh_character_range *ranges, size_t count) {
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].first > from)
            lh_character_set_add(set, from, ranges[i].first - 1);
        from = ranges[i].last + 1;
    }
    if (from <= CODE_POINT_MAX)
        lh_character_set_add(set, from, CODE_POINT_MAX);
}

bool lh_character_set_add_named(lh_character_set *set, uint32_t letter) {
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (letter == (uint32_t)(named[i].letter - 'a' + 'A')) {
            add_others(set, named[i].ranges, named[i].count);
            return true;
        }
        if (letter != (uint32_t)named[i].letter)
            continue;
        for (size_t k = 0; k < named[i].count; k++)
            lh_character_set_add(set, named[i].ranges[k].first, named[i].ranges[k].last);
        return true;
    }
    return false;
}

static int by_first(const void *a, const void *b) {
    uint32_t x = ((const lh_character_range *)a)->first, y = ((const lh_character_range *)b)->first;
    return (x > y) - (x < y);
}

void lh_character_set_negate(lh_character_set *set) {
    lh_character_set others = {.has_failed = set->has_failed};
    size_t kept = 0;
    if (set->count > 1)
        qsort(set->ranges, set->count, sizeof *set->ranges, by_first);
    for (size_t i = 0; i < set->count; i++) {
        lh_character_range range = set->ranges[i];
        if (kept == 0 || range.first > set->ranges[kept - 1].last + 1)
            set->ranges[kept++] = range;
        else if (range.last > set->ranges[kept - 1].last)
            set->ranges[kept - 1].last = range.last;
    }
    add_others(&others, set->ranges, kept);
    lh_character_set_reset(set);
    *set = others;
}

bool lh_character_set_has(const lh_character_set *set, uint32_t character) {
    for (size_t i = 0; i < set->count; i++)
        if (character >= set->ranges[i].first && character <= set->ranges[i].last)
            return true;
    return false;
}

/* ---- As JSON writes them ---- */

/* How a character that may not stand in a JSON string is written there. */
static lh_grammar_node escape(lh_grammar *grammar, uint32_t character) {
    static const char letters[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                      {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    char text[8];
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
        if (character == (uint8_t)letters[i][0])
            return lh_grammar_literal(grammar, (char[]){'\\', letters[i][1]}, 2);
    snprintf(text, sizeof text, "\\u%04x", character & 0xFFFF);
    return lh_grammar_text(grammar, text);
}

static bool needs_escape(uint32_t character) {
    return character < 0x20 || character == '"' || character == '\\';
}

/* What of a range may stand in a JSON string as it is. */
static void add_plain(lh_character_set *plain, lh_character_range range) {
    static const lh_character_range allowed[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, CODE_POINT_MAX}};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        uint32_t first = range.first > allowed[i].first ? range.first : allowed[i].first;
        uint32_t last = range.last < allowed[i].last ? range.last : allowed[i].last;
        if (first <= last)
            lh_character_set_add(plain, first, last);
    }
}

static lh_grammar_node json_node(const lh_character_set *set, lh_grammar *grammar) {
    lh_grammar_node nodes[0x20 + 3];
    size_t count = 0;
    lh_character_set plain = {0};
    for (size_t i = 0; i < set->count; i++)
        add_plain(&plain, set->ranges[i]);
    if (plain.count > 0)
        nodes[count++] = lh_grammar_class(grammar, plain.ranges, plain.count, false);
    if (plain.has_failed)
        lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a set of characters");
    lh_character_set_reset(&plain);
    for (uint32_t character = 0; character <= '\\'; character++)
        if (needs_escape(character) && lh_character_set_has(set, character))
            nodes[count++] = escape(grammar, character);
    return lh_grammar_choice(grammar, nodes, count);
}

lh_grammar_node lh_character_set_node(const lh_character_set *set, bool as_json,
                                      lh_grammar *grammar) {
    if (set->has_failed)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a set of characters");
    return as_json ? json_node(set, grammar)
                   : lh_grammar_class(grammar, set->ranges, set->count, false);
}
