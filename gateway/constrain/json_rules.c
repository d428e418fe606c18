/* A rule for each kind of value. */
#include "gateway/constrain/json_rules.h"

#include "common/base/text_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static lh_grammar_node sequence(lh_grammar *grammar, const lh_grammar_node *nodes, size_t count) {
    return lh_grammar_sequence(grammar, nodes, count);
}

static lh_grammar_node range(lh_grammar *grammar, uint32_t first, uint32_t last) {
    return lh_grammar_class(grammar, &(lh_character_range){first, last}, 1, false);
}

static lh_grammar_node any_of(lh_grammar *grammar, const char *characters) {
    lh_character_range ranges[32];
    size_t count = strlen(characters);
    for (size_t i = 0; i < count; i++)
        ranges[i] = (lh_character_range){(uint32_t)characters[i], (uint32_t)characters[i]};
    return lh_grammar_class(grammar, ranges, count, false);
}

/* ---- Strings. ---- */

static lh_grammar_node hexadecimal(lh_grammar *grammar) {
    static const lh_character_range digits[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
    return lh_grammar_class(grammar, digits, COUNT(digits), false);
}

/* "d", a digit of `second`, and any two: half of a pair of surrogates. */
static lh_grammar_node surrogate(lh_grammar *grammar, const char *second) {
    const lh_grammar_node parts[] = {any_of(grammar, "dD"), any_of(grammar, second),
                                     hexadecimal(grammar), hexadecimal(grammar)};
    return sequence(grammar, parts, COUNT(parts));
}

/* What stands behind "\u": four digits, or a pair of surrogates. */
static lh_grammar_node unicode_escape(lh_grammar *grammar) {
    static const lh_character_range no_d[] = {
        {'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
    lh_grammar_node digit = hexadecimal(grammar);
    const lh_grammar_node below[] = {lh_grammar_class(grammar, no_d, COUNT(no_d), false), digit,
                                     digit, digit},
                          in_d[] = {any_of(grammar, "dD"), range(grammar, '0', '7'), digit, digit},
                          pair[] = {surrogate(grammar, "89abAB"), lh_grammar_text(grammar, "\\u"),
                                    surrogate(grammar, "cdefCDEF")};
    const lh_grammar_node ways[] = {sequence(grammar, below, COUNT(below)),
                                    sequence(grammar, in_d, COUNT(in_d)),
                                    sequence(grammar, pair, COUNT(pair))};
    return lh_grammar_choice(grammar, ways, COUNT(ways));
}

static void define_strings(lh_json_rules *rules) {
    static const lh_character_range special[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    lh_grammar *grammar = rules->grammar;
    const lh_grammar_node unicode[] = {lh_grammar_text(grammar, "u"), unicode_escape(grammar)};
    const lh_grammar_node escapes[] = {any_of(grammar, "\"\\/bfnrt"),
                                       sequence(grammar, unicode, COUNT(unicode))};
    const lh_grammar_node escaped[] = {lh_grammar_text(grammar, "\\"),
                                       lh_grammar_choice(grammar, escapes, COUNT(escapes))};
    const lh_grammar_node ways[] = {lh_grammar_class(grammar, special, COUNT(special), true),
                                    sequence(grammar, escaped, COUNT(escaped))};
    lh_grammar_define(grammar, rules->character, lh_grammar_choice(grammar, ways, COUNT(ways)));
    const lh_grammar_node whole[] = {
        lh_grammar_text(grammar, "\""),
        lh_grammar_repeat(grammar, lh_grammar_choice(grammar, ways, COUNT(ways)), 0,
                          LH_GRAMMAR_UNBOUNDED),
        lh_grammar_text(grammar, "\"")};
    lh_grammar_define(grammar, rules->string, sequence(grammar, whole, COUNT(whole)));
}

/* ---- Numbers. ---- */

static lh_grammar_node digits(lh_grammar *grammar, uint32_t least, uint32_t most) {
    return lh_grammar_repeat(grammar, range(grammar, '0', '9'), least, most);
}

static lh_grammar_node optional(lh_grammar *grammar, lh_grammar_node node) {
    return lh_grammar_repeat(grammar, node, 0, 1);
}

/* From 0 to 307, with leading zeros up to two digits, as Python writes 1e-07. */
static lh_grammar_node exponent(lh_grammar *grammar) {
    const lh_grammar_node hundreds[] = {range(grammar, '1', '2'), digits(grammar, 2, 2)},
                          last[] = {lh_grammar_text(grammar, "30"), range(grammar, '0', '7')};
    const lh_grammar_node sizes[] = {digits(grammar, 1, 2),
                                     sequence(grammar, hundreds, COUNT(hundreds)),
                                     sequence(grammar, last, COUNT(last))};
    const lh_grammar_node whole[] = {any_of(grammar, "eE"),
                                     optional(grammar, any_of(grammar, "+-")),
                                     lh_grammar_choice(grammar, sizes, COUNT(sizes))};
    return sequence(grammar, whole, COUNT(whole));
}

static void define_numbers(lh_json_rules *rules) {
    lh_grammar *grammar = rules->grammar;
    lh_grammar_node minus = optional(grammar, lh_grammar_text(grammar, "-")),
                    zero = lh_grammar_text(grammar, "0"), first = range(grammar, '1', '9');
    const lh_grammar_node point[] = {lh_grammar_text(grammar, "."), digits(grammar, 1, 17)};
    lh_grammar_node fraction = optional(grammar, sequence(grammar, point, COUNT(point)));
    const lh_grammar_node plain[] = {first, digits(grammar, 0, 17)};
    lh_grammar_node positive = sequence(grammar, plain, COUNT(plain));
    const lh_grammar_node negative[] = {minus, positive};
    const lh_grammar_node integers[] = {zero, sequence(grammar, negative, COUNT(negative))};
    lh_grammar_define(grammar, rules->integer,
                      lh_grammar_choice(grammar, integers, COUNT(integers)));
    const lh_grammar_node whole[] = {zero, positive};
    const lh_grammar_node decimal[] = {lh_grammar_choice(grammar, whole, COUNT(whole)), fraction},
                          scientific[] = {range(grammar, '0', '9'), fraction, exponent(grammar)};
    const lh_grammar_node forms[] = {sequence(grammar, decimal, COUNT(decimal)),
                                     sequence(grammar, scientific, COUNT(scientific))};
    const lh_grammar_node number[] = {minus, lh_grammar_choice(grammar, forms, COUNT(forms))};
    lh_grammar_define(grammar, rules->number, sequence(grammar, number, COUNT(number)));
}

/* ---- Containers. ---- */

/* The brackets with any number of items between them. */
static lh_grammar_node list(lh_grammar *grammar, const char *open, lh_grammar_node item,
                            const char *close) {
    const lh_grammar_node next[] = {lh_grammar_text(grammar, ", "), item};
    const lh_grammar_node items[] = {
        item,
        lh_grammar_repeat(grammar, sequence(grammar, next, COUNT(next)), 0, LH_GRAMMAR_UNBOUNDED)};
    const lh_grammar_node whole[] = {lh_grammar_text(grammar, open),
                                     optional(grammar, sequence(grammar, items, COUNT(items))),
                                     lh_grammar_text(grammar, close)};
    return sequence(grammar, whole, COUNT(whole));
}

static void define_containers(lh_json_rules *rules) {
    lh_grammar *grammar = rules->grammar;
    lh_grammar_node value = lh_grammar_call(grammar, rules->value);
    const lh_grammar_node member[] = {lh_grammar_call(grammar, rules->string),
                                      lh_grammar_text(grammar, ": "), value};
    lh_grammar_define(grammar, rules->object,
                      list(grammar, "{", sequence(grammar, member, COUNT(member)), "}"));
    lh_grammar_define(grammar, rules->array, list(grammar, "[", value, "]"));
    const lh_grammar_node values[] = {
        lh_grammar_call(grammar, rules->object), lh_grammar_call(grammar, rules->array),
        lh_grammar_call(grammar, rules->string), lh_grammar_call(grammar, rules->number),
        lh_grammar_text(grammar, "true"),        lh_grammar_text(grammar, "false"),
        lh_grammar_text(grammar, "null")};
    lh_grammar_define(grammar, rules->value, lh_grammar_choice(grammar, values, COUNT(values)));
}

static lh_grammar_rule declare(lh_grammar *grammar, const char *name) {
    return lh_grammar_declare(grammar, name, strlen(name));
}

void lh_json_rules_add(lh_json_rules *rules, lh_grammar *grammar) {
    *rules = (lh_json_rules){.grammar = grammar,
                             .value = declare(grammar, "JSON value"),
                             .object = declare(grammar, "JSON object"),
                             .array = declare(grammar, "JSON array"),
                             .string = declare(grammar, "JSON string"),
                             .number = declare(grammar, "JSON number"),
                             .integer = declare(grammar, "JSON integer"),
                             .character = declare(grammar, "JSON character")};
    define_strings(rules);
    define_numbers(rules);
    define_containers(rules);
}

/* ---- Literals. ---- */

/* The shortest text that reads as this double, and as no integer. */
static int render_real(double value, char *text, size_t capacity) {
    int length = 0;
    for (int precision = 1; precision <= 17; precision++) {
        length = snprintf(text, capacity, "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (!strpbrk(text, ".e"))
        length += snprintf(text + length, capacity - (size_t)length, ".0");
    return length;
}

/* False: no memory. */
static bool render(const json_t *value, lh_text_buffer *out);

static bool put(lh_text_buffer *out, const char *text) {
    return !lh_text_buffer_append(out, text, strlen(text), NULL);
}

static bool put_string(lh_text_buffer *out, const char *bytes, size_t length) {
    bool done = put(out, "\"");
    for (const char *at = bytes; at < bytes + length && done; at++) {
        static const char *const named = "\"\\\b\f\n\r\t", *const letters = "\"\\bfnrt";
        const char *found = *at ? strchr(named, *at) : NULL;
        char escape[8] = {'\\', found ? letters[found - named] : '\0'};
        if (!found && (unsigned char)*at < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*at);
        done = escape[1] ? put(out, escape) : !lh_text_buffer_append(out, at, 1, NULL);
    }
    return done && put(out, "\"");
}

static bool render_array(const json_t *value, lh_text_buffer *out) {
    bool done = put(out, "[");
    for (size_t i = 0; i < json_array_size(value) && done; i++)
        done = put(out, i > 0 ? ", " : "") && render(json_array_get(value, i), out);
    return done && put(out, "]");
}

static bool render_object(const json_t *value, lh_text_buffer *out) {
    bool done = put(out, "{");
    const char *name, *before = "";
    json_t *member;
    json_object_foreach((json_t *)value, name, member) {
        done = done && put(out, before) && put_string(out, name, strlen(name)) && put(out, ": ") &&
               render(member, out);
        before = ", ";
    }
    return done && put(out, "}");
}

static bool render(const json_t *value, lh_text_buffer *out) {
    char number[64];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return render_object(value, out);
    case JSON_ARRAY:
        return render_array(value, out);
    case JSON_STRING:
        return put_string(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        return put(out, number);
    case JSON_REAL:
        render_real(json_real_value(value), number, sizeof number);
        return put(out, number);
    default:
        return put(out, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
    }
}

static lh_grammar_node take_text(lh_grammar *grammar, bool done, lh_text_buffer *text) {
    lh_grammar_node node =
        done ? lh_grammar_literal(grammar, text->bytes, text->length)
             : lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a value's text");
    lh_text_buffer_reset(text);
    return node;
}

lh_grammar_node lh_json_literal(lh_grammar *grammar, const json_t *value) {
    lh_text_buffer text = {0};
    return take_text(grammar, render(value, &text), &text);
}

lh_grammar_node lh_json_member_name(lh_grammar *grammar, const char *before, const char *name) {
    lh_text_buffer text = {0};
    bool done = put(&text, before) && put_string(&text, name, strlen(name)) && put(&text, ": ");
    return take_text(grammar, done, &text);
}
