/* A parser by recursive descent, which builds what it reads. Terminals and rules are both rules of
 * the grammar; only between the terminals of a rule may stand what is ignored. */
#include "gateway/constrain/lark.h"

#include "common/base/growing_array.h"
#include "common/base/text_buffer.h"
#include "common/base/utf8.h"
#include "gateway/constrain/json_character.h"
#include "gateway/constrain/regex.h"
#include "gateway/constrain/utf8_ranges.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 2000u
#define COUNT_MAX 10000000u /* no answer is as long */

typedef struct rule_name {
    const char *text; /* in the grammar's text, or static */
    size_t length;
    lh_grammar_rule rule;
    bool is_defined;
} rule_name;

typedef struct node_list {
    lh_grammar_node *nodes;
    size_t count, capacity;
} node_list;

typedef struct parser {
    lh_grammar *grammar;
    const char *text, *at, *end;
    bool is_json_text;
    bool in_terminal; /* what is read is of a terminal, inside of which nothing is ignored */
    rule_name *names;
    size_t name_count, name_capacity;
    lh_grammar_rule ignored;
    node_list ignores; /* what %ignore names */
    unsigned depth;
} parser;

static bool has_failed(const parser *own) {
    return lh_grammar_check(own->grammar, NULL) != LH_OK;
}

static void fail(parser *own, lh_status status, const char *what) {
    size_t line = 1;
    for (const char *at = own->text; at < own->at && at < own->end; at++)
        line += *at == '\n';
    if (!has_failed(own))
        lh_grammar_fail(own->grammar, status, "the grammar, line %zu: %s", line, what);
}

static void push_node(parser *own, node_list *list, lh_grammar_node node) {
    if (has_failed(own))
        return;
    if (!lh_growing_array_reserve(&list->nodes, &list->capacity, list->count + 1,
                                  sizeof *list->nodes))
        lh_grammar_fail(own->grammar, LH_ERR_NO_MEMORY, "no memory for a grammar");
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

/* Blanks and comments; ends of lines where what is read may go on in the next one. */
static void skip_space(parser *own, bool over_lines) {
    for (; own->at < own->end; own->at++) {
        if (next_is(own, "//") || *own->at == '#')
            while (own->at < own->end && *own->at != '\n')
                own->at++;
        if (own->at == own->end)
            return;
        bool is_line_end = *own->at == '\n' || *own->at == '\r';
        if (*own->at != ' ' && *own->at != '\t' && !(is_line_end && over_lines))
            return;
    }
}

static bool is_name_character(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
}

static size_t parse_name(parser *own, const char **name) {
    *name = own->at;
    while (own->at < own->end && is_name_character(*own->at))
        own->at++;
    if (own->at == *name)
        fail(own, LH_ERR_INVALID, "a name is expected");
    return (size_t)(own->at - *name);
}

/* Terminals are written in capitals. */
static bool is_terminal(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (name[i] != '_')
            return name[i] >= 'A' && name[i] <= 'Z';
    return false;
}

/* The rule of this name, declared when it is seen first; NULL: it cannot be. */
static rule_name *find_name(parser *own, const char *text, size_t length) {
    for (size_t i = 0; i < own->name_count; i++)
        if (own->names[i].length == length && memcmp(own->names[i].text, text, length) == 0)
            return &own->names[i];
    if (own->name_count == NAMES_MAX)
        fail(own, LH_ERR_LIMIT, "there are more than 2,000 names");
    else if (!lh_growing_array_reserve(&own->names, &own->name_capacity, own->name_count + 1,
                                       sizeof *own->names))
        lh_grammar_fail(own->grammar, LH_ERR_NO_MEMORY, "no memory for a grammar");
    if (has_failed(own))
        return NULL;
    rule_name *made = &own->names[own->name_count++];
    *made = (rule_name){text, length, lh_grammar_declare(own->grammar, text, length), false};
    return made;
}

static void define(parser *own, const char *name, size_t length, lh_grammar_node node) {
    rule_name *rule = find_name(own, name, length);
    if (!rule || has_failed(own))
        return;
    if (rule->is_defined)
        fail(own, LH_ERR_INVALID, "a name is defined twice");
    else
        lh_grammar_define(own->grammar, rule->rule, node);
    rule->is_defined = true;
}

/* ---- Characters ---- */

static lh_grammar_node characters(const parser *own, const lh_character_range *ranges,
                                  size_t count) {
    return own->is_json_text ? lh_json_characters(own->grammar, ranges, count)
                             : lh_grammar_class(own->grammar, ranges, count, false);
}

static uint32_t parse_hex(parser *own, size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++, own->at++) {
        char digit = own->at < own->end ? *own->at : ' ', lower = (char)(digit | 0x20);
        if (digit >= '0' && digit <= '9')
            value = value * 16 + (uint32_t)(digit - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (uint32_t)(lower - 'a') + 10;
        else
            fail(own, LH_ERR_INVALID, "a hexadecimal digit is missing");
        if (has_failed(own))
            return 0;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        fail(own, LH_ERR_INVALID, "there is no such character");
    return value;
}

/* Behind the backslash, as Python has it. */
static uint32_t parse_escape(parser *own) {
    static const char letters[] = "nrtfv\\\"'/0", values[] = "\n\r\t\f\v\\\"'/\0";
    char letter = own->at < own->end ? *own->at++ : ' ';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        return (uint8_t)values[found - letters];
    if (letter == 'x' || letter == 'u' || letter == 'U')
        return parse_hex(own, letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
    fail(own, LH_ERR_INVALID, "there is no such escape");
    return 0;
}

static uint32_t parse_character(parser *own) {
    return accept(own, "\\") ? parse_escape(own) : lh_utf8_decode(&own->at);
}

static uint32_t other_case(uint32_t character) {
    bool is_letter = (character | 0x20) >= 'a' && (character | 0x20) <= 'z' && character < 0x80;
    return is_letter ? character ^ 0x20 : character;
}

/* Behind the quotation mark, to the other one; *last: its last character, *count: of how many. */
static lh_grammar_node parse_string(parser *own, uint32_t *last, size_t *count) {
    const char *begin = own->at, *end = begin;
    node_list list = {0};
    while (end < own->end && *end != '"' && *end != '\n')
        end += *end == '\\' && end + 1 < own->end ? 2 : 1;
    bool is_closed = end < own->end && *end == '"';
    bool ignores_case = is_closed && end + 1 < own->end && end[1] == 'i' &&
                        !(end + 2 < own->end && is_name_character(end[2]));
    if (!is_closed)
        fail(own, LH_ERR_INVALID, "a string is not closed");
    for (*count = 0; own->at < end && !has_failed(own); ++*count) {
        *last = parse_character(own);
        const lh_character_range ranges[] = {{*last, *last},
                                             {other_case(*last), other_case(*last)}};
        push_node(own, &list, characters(own, ranges, ignores_case ? 2 : 1));
    }
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_sequence(own->grammar, list.nodes, list.count);
    free(list.nodes);
    own->at = is_closed ? end + 1 + ignores_case : own->end;
    return node;
}

/* "a".."z", or a string. */
static lh_grammar_node parse_literal(parser *own) {
    uint32_t first = 0, last = 0;
    size_t count, last_count;
    lh_grammar_node node = parse_string(own, &first, &count);
    if (!accept(own, "..") || has_failed(own))
        return node;
    if (!accept(own, "\""))
        fail(own, LH_ERR_INVALID, "a range is written \"a\"..\"z\"");
    else
        parse_string(own, &last, &last_count);
    if (!has_failed(own) && (count != 1 || last_count != 1 || first > last))
        fail(own, LH_ERR_INVALID, "a range is of two characters, in their order");
    const lh_character_range range = {first, last};
    return has_failed(own) ? LH_GRAMMAR_FAILED : characters(own, &range, 1);
}

/* Flags that change what the expression means are not followed. */
static void parse_flags(parser *own, const char *pattern, size_t length) {
    for (; own->at < own->end && strchr("imslux", *own->at) && *own->at; own->at++) {
        bool is_harmless =
            *own->at == 'u' || (*own->at == 's' && !memchr(pattern, '.', length)) ||
            (*own->at == 'm' && !memchr(pattern, '^', length) && !memchr(pattern, '$', length));
        if (!is_harmless)
            fail(own, LH_ERR_UNSUPPORTED, "a flag of a regular expression is not supported");
    }
}

/* Behind the slash. */
static lh_grammar_node parse_regex(parser *own) {
    lh_text_buffer pattern = {0};
    const lh_regex_options options = {.is_json_text = own->is_json_text};
    lh_status status = LH_OK;
    while (own->at < own->end && *own->at != '/' && *own->at != '\n' && !status) {
        bool is_escape = *own->at == '\\' && own->at + 1 < own->end;
        own->at += next_is(own, "\\/");
        status =
            lh_text_buffer_append(&pattern, own->at, is_escape && *own->at == '\\' ? 2 : 1, NULL);
        own->at += is_escape && *own->at == '\\' ? 2 : 1;
    }
    if (status)
        lh_grammar_fail(own->grammar, status, "no memory for a grammar");
    if (!accept(own, "/"))
        fail(own, LH_ERR_INVALID, "a regular expression is not closed");
    parse_flags(own, pattern.length ? pattern.bytes : "", pattern.length);
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_regex_add(own->grammar, pattern.length ? pattern.bytes : "",
                                              pattern.length, options);
    lh_text_buffer_reset(&pattern);
    return node;
}

/* ---- Items ---- */

static uint32_t parse_count(parser *own) {
    uint64_t value = 0;
    const char *begin = own->at;
    for (; own->at < own->end && *own->at >= '0' && *own->at <= '9'; own->at++)
        if (value <= COUNT_MAX)
            value = value * 10 + (uint64_t)(*own->at - '0');
    if (own->at == begin || value > COUNT_MAX)
        fail(own, LH_ERR_INVALID, "a number up to 10,000,000 is expected");
    return (uint32_t)value;
}

static lh_grammar_node repeat(parser *own, lh_grammar_node node) {
    uint32_t min = next_is(own, "+"), max = next_is(own, "?") ? 1 : LH_GRAMMAR_UNBOUNDED;
    if (accept(own, "~")) {
        skip_space(own, false);
        min = max = parse_count(own);
        if (accept(own, ".."))
            max = parse_count(own);
        if (min > max)
            fail(own, LH_ERR_INVALID, "the minimum of a repetition is above its maximum");
    } else if (!accept(own, "*") && !accept(own, "+") && !accept(own, "?")) {
        return node;
    }
    return has_failed(own) ? LH_GRAMMAR_FAILED : lh_grammar_repeat(own->grammar, node, min, max);
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines);

/* Behind the opening parenthesis or bracket. */
static lh_grammar_node parse_group(parser *own, const char *close, bool is_optional) {
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (++own->depth > LH_LARK_DEPTH_MAX)
        fail(own, LH_ERR_LIMIT, "more than 100 parentheses are inside one another");
    if (!has_failed(own))
        node = parse_alternatives(own, true);
    own->depth--;
    if (!accept(own, close))
        fail(own, LH_ERR_INVALID, "a parenthesis is not closed");
    if (has_failed(own))
        return LH_GRAMMAR_FAILED;
    return is_optional ? lh_grammar_repeat(own->grammar, node, 0, 1) : node;
}

/* Of a rule: what is ignored may stand before a terminal. */
static lh_grammar_node behind_ignored(parser *own, lh_grammar_node node) {
    if (own->in_terminal || has_failed(own))
        return node;
    const lh_grammar_node nodes[] = {lh_grammar_call(own->grammar, own->ignored), node};
    return lh_grammar_sequence(own->grammar, nodes, 2);
}

static lh_grammar_node parse_reference(parser *own) {
    const char *name;
    size_t length = parse_name(own, &name);
    rule_name *rule = find_name(own, name, length);
    if (next_is(own, "{"))
        fail(own, LH_ERR_UNSUPPORTED, "templates are not supported");
    if (!rule || has_failed(own))
        return LH_GRAMMAR_FAILED;
    lh_grammar_node node = lh_grammar_call(own->grammar, rule->rule);
    return is_terminal(name, length) ? behind_ignored(own, node) : node;
}

/* False: no item begins here. */
static bool parse_item(parser *own, lh_grammar_node *node) {
    if (next_is(own, "->"))
        return false;
    if (accept(own, "\""))
        *node = behind_ignored(own, parse_literal(own));
    else if (accept(own, "/"))
        *node = behind_ignored(own, parse_regex(own));
    else if (accept(own, "("))
        *node = parse_group(own, ")", false);
    else if (accept(own, "["))
        *node = parse_group(own, "]", true);
    else if (own->at < own->end && is_name_character(*own->at))
        *node = parse_reference(own);
    else
        return false;
    return true;
}

/* With the name that an alternative may be given. */
static lh_grammar_node parse_sequence(parser *own, bool over_lines) {
    node_list list = {0};
    for (skip_space(own, over_lines); !has_failed(own); skip_space(own, over_lines)) {
        lh_grammar_node item = LH_GRAMMAR_FAILED;
        if (!parse_item(own, &item))
            break;
        push_node(own, &list, repeat(own, item));
    }
    if (accept(own, "->")) {
        const char *name;
        skip_space(own, false);
        parse_name(own, &name);
        skip_space(own, over_lines);
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
    if (accept_bar(own))
        skip_space(own, false);
    push_node(own, &list, parse_sequence(own, over_lines));
    while (!has_failed(own) && accept_bar(own))
        push_node(own, &list, parse_sequence(own, over_lines));
    lh_grammar_node node = has_failed(own)
                               ? LH_GRAMMAR_FAILED
                               : lh_grammar_choice(own->grammar, list.nodes, list.count);
    free(list.nodes);
    return node;
}

/* ---- Statements ---- */

/* Of Lark's own library. */
static const struct {
    const char *name, *pattern;
} commons[] = {
    {"LF", "\\n"},
    {"CR", "\\r"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"WS_INLINE", "[ \\t]+"},
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"},
    {"FLOAT", "(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"SIGNED_FLOAT",
     "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z0-9_]*"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\.)*\""},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SH_COMMENT", "#[^\\n]*"},
};

static void import_common(parser *own, const char *name, size_t length, const char *as,
                          size_t as_length) {
    for (size_t i = 0; i < sizeof commons / sizeof *commons; i++) {
        const lh_regex_options options = {.is_json_text = own->is_json_text};
        if (strlen(commons[i].name) == length && memcmp(commons[i].name, name, length) == 0) {
            define(own, as, as_length,
                   lh_regex_add(own->grammar, commons[i].pattern, strlen(commons[i].pattern),
                                options));
            return;
        }
    }
    fail(own, LH_ERR_UNSUPPORTED, "an import of this name is not supported");
}

/* A name, perhaps with another one for it. */
static void parse_import_name(parser *own) {
    const char *name, *as;
    size_t length = parse_name(own, &name), as_length = length;
    as = name;
    skip_space(own, false);
    if (accept(own, "->")) {
        skip_space(own, false);
        as_length = parse_name(own, &as);
    }
    if (!has_failed(own))
        import_common(own, name, length, as, as_length);
}

static void parse_import(parser *own) {
    skip_space(own, false);
    if (!accept(own, "common")) {
        fail(own, LH_ERR_UNSUPPORTED, "only imports of common are supported");
        return;
    }
    if (accept(own, ".")) {
        parse_import_name(own);
        return;
    }
    skip_space(own, false);
    if (!accept(own, "("))
        fail(own, LH_ERR_INVALID, "an import is written common.NAME, or common (NAME, NAME)");
    do {
        skip_space(own, true);
        parse_import_name(own);
        skip_space(own, true);
    } while (!has_failed(own) && accept(own, ","));
    if (!accept(own, ")"))
        fail(own, LH_ERR_INVALID, "a parenthesis is not closed");
}

static void parse_ignore(parser *own) {
    own->in_terminal = true;
    push_node(own, &own->ignores, parse_alternatives(own, false));
}

static void parse_rule(parser *own) {
    const char *name;
    while (accept(own, "?") || accept(own, "!"))
        ;
    size_t length = parse_name(own, &name);
    own->in_terminal = is_terminal(name, length);
    skip_space(own, false);
    if (accept(own, "."))
        parse_count(own);
    skip_space(own, false);
    if (next_is(own, "{"))
        fail(own, LH_ERR_UNSUPPORTED, "templates are not supported");
    else if (!accept(own, ":"))
        fail(own, LH_ERR_INVALID, "':' is expected behind the name of a rule");
    lh_grammar_node node = has_failed(own) ? LH_GRAMMAR_FAILED : parse_alternatives(own, false);
    if (!has_failed(own))
        define(own, name, length, node);
}

static void parse_statement(parser *own) {
    if (accept(own, "%import"))
        parse_import(own);
    else if (accept(own, "%ignore"))
        parse_ignore(own);
    else if (next_is(own, "%"))
        fail(own, LH_ERR_UNSUPPORTED, "of directives, %import and %ignore are supported");
    else
        parse_rule(own);
    skip_space(own, false);
    if (own->at < own->end && *own->at != '\n' && *own->at != '\r')
        fail(own, LH_ERR_INVALID, "the end of the line is expected");
}

static void define_ignored(parser *own) {
    lh_grammar_node one = lh_grammar_choice(own->grammar, own->ignores.nodes, own->ignores.count);
    lh_grammar_define(own->grammar, own->ignored,
                      own->ignores.count
                          ? lh_grammar_repeat(own->grammar, one, 0, LH_GRAMMAR_UNBOUNDED)
                          : lh_grammar_empty(own->grammar));
}

/* All that is called is there. */
static void check_names(parser *own) {
    for (size_t i = 0; i < own->name_count && !has_failed(own); i++)
        if (!own->names[i].is_defined)
            lh_grammar_fail(own->grammar, LH_ERR_INVALID, "the grammar has no rule \"%.*s\"",
                            (int)(own->names[i].length < 60 ? own->names[i].length : 60),
                            own->names[i].text);
}

static lh_grammar_node finish(parser *own) {
    rule_name *start = find_name(own, "start", 5);
    define_ignored(own);
    check_names(own);
    if (!start || has_failed(own))
        return LH_GRAMMAR_FAILED;
    const lh_grammar_node nodes[] = {lh_grammar_call(own->grammar, start->rule),
                                     lh_grammar_call(own->grammar, own->ignored)};
    return lh_grammar_sequence(own->grammar, nodes, 2);
}

lh_grammar_node lh_lark_add(lh_grammar *grammar, const char *text, size_t length,
                            bool is_json_text) {
    parser own = {.grammar = grammar,
                  .text = text,
                  .at = text,
                  .end = text + length,
                  .is_json_text = is_json_text};
    if (has_failed(&own))
        return LH_GRAMMAR_FAILED;
    if (length > 0 && lh_utf8_valid_prefix(text, length) < length)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar is not UTF-8");
    own.ignored = lh_grammar_declare(grammar, "ignored", 7);
    for (skip_space(&own, true); own.at < own.end && !has_failed(&own); skip_space(&own, true))
        parse_statement(&own);
    lh_grammar_node node = has_failed(&own) ? LH_GRAMMAR_FAILED : finish(&own);
    free(own.names);
    free(own.ignores.nodes);
    return node;
}
