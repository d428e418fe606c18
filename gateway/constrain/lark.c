/* A parser by recursive descent, which builds what it reads. Terminals and rules are both rules of
 * the grammar; only between the terminals of a rule may stand what is ignored. */
#include "gateway/constrain/lark.h"

#include "common/base/growing_array.h"
#include "common/base/text_buffer.h"
#include "common/base/utf8.h"
#include "gateway/constrain/grammar_reader.h"
#include "gateway/constrain/json_character.h"
#include "gateway/constrain/regex.h"
#include "gateway/constrain/utf8_ranges.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 2000u

typedef struct rule_name {
    const char *text; /* in the grammar's text, or static */
    size_t length;
    lh_grammar_rule rule;
    bool is_defined;
} rule_name;

typedef struct parser {
    lh_grammar_reader in;
    bool is_json_text;
    bool in_terminal; /* what is read is of a terminal, inside of which nothing is ignored */
    rule_name *names;
    size_t name_count, name_capacity;
    lh_grammar_rule ignored;
    lh_grammar_nodes ignores; /* what %ignore names */
    unsigned depth;
} parser;

/* ---- Text ---- */

/* Blanks and comments; ends of lines where what is read may go on in the next one. */
static void skip_space(parser *own, bool over_lines) {
    for (; own->in.at < own->in.end; own->in.at++) {
        if (lh_grammar_reader_next_is(&own->in, "//") || *own->in.at == '#')
            while (own->in.at < own->in.end && *own->in.at != '\n')
                own->in.at++;
        if (own->in.at == own->in.end)
            return;
        bool is_line_end = *own->in.at == '\n' || *own->in.at == '\r';
        if (*own->in.at != ' ' && *own->in.at != '\t' && !(is_line_end && over_lines))
            return;
    }
}

static bool is_name_character(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
}

static size_t parse_name(parser *own, const char **name) {
    *name = own->in.at;
    while (own->in.at < own->in.end && is_name_character(*own->in.at))
        own->in.at++;
    if (own->in.at == *name)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a name is expected");
    return (size_t)(own->in.at - *name);
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
        lh_grammar_reader_fail(&own->in, LH_ERR_LIMIT, "there are more than 2,000 names");
    else if (!lh_growing_array_reserve(&own->names, &own->name_capacity, own->name_count + 1,
                                       sizeof *own->names))
        lh_grammar_reader_fail_memory(&own->in);
    if (lh_grammar_reader_has_failed(&own->in))
        return NULL;
    rule_name *made = &own->names[own->name_count++];
    *made = (rule_name){text, length, lh_grammar_declare(own->in.grammar, text, length), false};
    return made;
}

static void define(parser *own, const char *name, size_t length, lh_grammar_node node) {
    rule_name *rule = find_name(own, name, length);
    if (!rule || lh_grammar_reader_has_failed(&own->in))
        return;
    if (rule->is_defined)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a name is defined twice");
    else
        lh_grammar_define(own->in.grammar, rule->rule, node);
    rule->is_defined = true;
}

/* ---- Characters ---- */

static lh_grammar_node characters(const parser *own, const lh_character_range *ranges,
                                  size_t count) {
    return own->is_json_text ? lh_json_characters(own->in.grammar, ranges, count)
                             : lh_grammar_class(own->in.grammar, ranges, count, false);
}

/* Behind the backslash, as Python has it. */
static uint32_t parse_escape(parser *own) {
    static const char letters[] = "nrtfv\\\"'/0", values[] = "\n\r\t\f\v\\\"'/\0";
    char letter = own->in.at < own->in.end ? *own->in.at++ : ' ';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        return (uint8_t)values[found - letters];
    if (letter == 'x' || letter == 'u' || letter == 'U')
        return lh_grammar_reader_hex(&own->in, letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
    lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "there is no such escape");
    return 0;
}

static uint32_t parse_character(parser *own) {
    return lh_grammar_reader_accept(&own->in, "\\") ? parse_escape(own)
                                                    : lh_utf8_decode(&own->in.at);
}

static uint32_t other_case(uint32_t character) {
    bool is_letter = (character | 0x20) >= 'a' && (character | 0x20) <= 'z' && character < 0x80;
    return is_letter ? character ^ 0x20 : character;
}

/* Behind the quotation mark, to the other one; *last: its last character, *count: of how many. */
static lh_grammar_node parse_string(parser *own, uint32_t *last, size_t *count) {
    const char *begin = own->in.at, *end = begin;
    lh_grammar_nodes list = {0};
    while (end < own->in.end && *end != '"' && *end != '\n')
        end += *end == '\\' && end + 1 < own->in.end ? 2 : 1;
    bool is_closed = end < own->in.end && *end == '"';
    bool ignores_case = is_closed && end + 1 < own->in.end && end[1] == 'i' &&
                        !(end + 2 < own->in.end && is_name_character(end[2]));
    if (!is_closed)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a string is not closed");
    for (*count = 0; own->in.at < end && !lh_grammar_reader_has_failed(&own->in); ++*count) {
        *last = parse_character(own);
        const lh_character_range ranges[] = {{*last, *last},
                                             {other_case(*last), other_case(*last)}};
        lh_grammar_reader_push(&own->in, &list, characters(own, ranges, ignores_case ? 2 : 1));
    }
    lh_grammar_node node = lh_grammar_reader_sequence(&own->in, &list);
    own->in.at = is_closed ? end + 1 + ignores_case : own->in.end;
    return node;
}

/* "a".."z", or a string. */
static lh_grammar_node parse_literal(parser *own) {
    uint32_t first = 0, last = 0;
    size_t count, last_count;
    lh_grammar_node node = parse_string(own, &first, &count);
    if (!lh_grammar_reader_accept(&own->in, "..") || lh_grammar_reader_has_failed(&own->in))
        return node;
    if (!lh_grammar_reader_accept(&own->in, "\""))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a range is written \"a\"..\"z\"");
    else
        parse_string(own, &last, &last_count);
    if (!lh_grammar_reader_has_failed(&own->in) && (count != 1 || last_count != 1 || first > last))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "a range is of two characters, in their order");
    const lh_character_range range = {first, last};
    return lh_grammar_reader_has_failed(&own->in) ? LH_GRAMMAR_FAILED : characters(own, &range, 1);
}

/* Flags that change what the expression means are not followed. */
static void parse_flags(parser *own, const char *pattern, size_t length) {
    for (; own->in.at < own->in.end && strchr("imslux", *own->in.at) && *own->in.at; own->in.at++) {
        bool is_harmless =
            *own->in.at == 'u' || (*own->in.at == 's' && !memchr(pattern, '.', length)) ||
            (*own->in.at == 'm' && !memchr(pattern, '^', length) && !memchr(pattern, '$', length));
        if (!is_harmless)
            lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED,
                                   "a flag of a regular expression is not supported");
    }
}

/* Behind the slash. */
static lh_grammar_node parse_regex(parser *own) {
    lh_text_buffer pattern = {0};
    const lh_regex_options options = {.is_json_text = own->is_json_text};
    lh_status status = LH_OK;
    while (own->in.at < own->in.end && *own->in.at != '/' && *own->in.at != '\n' && !status) {
        bool is_escape = *own->in.at == '\\' && own->in.at + 1 < own->in.end;
        own->in.at += lh_grammar_reader_next_is(&own->in, "\\/");
        status = lh_text_buffer_append(&pattern, own->in.at,
                                       is_escape && *own->in.at == '\\' ? 2 : 1, NULL);
        own->in.at += is_escape && *own->in.at == '\\' ? 2 : 1;
    }
    if (status)
        lh_grammar_fail(own->in.grammar, status, "no memory for a grammar");
    if (!lh_grammar_reader_accept(&own->in, "/"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a regular expression is not closed");
    parse_flags(own, pattern.length ? pattern.bytes : "", pattern.length);
    lh_grammar_node node = lh_grammar_reader_has_failed(&own->in)
                               ? LH_GRAMMAR_FAILED
                               : lh_regex_add(own->in.grammar, pattern.length ? pattern.bytes : "",
                                              pattern.length, options);
    lh_text_buffer_reset(&pattern);
    return node;
}

/* ---- Items ---- */

static uint32_t parse_count(parser *own) {
    uint64_t value;
    if (!lh_grammar_reader_digits(&own->in, &value) || value > LH_GRAMMAR_COUNT_MAX)
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a number up to 10,000,000 is expected");
    return (uint32_t)value;
}

static lh_grammar_node repeat(parser *own, lh_grammar_node node) {
    uint32_t min = lh_grammar_reader_next_is(&own->in, "+"),
             max = lh_grammar_reader_next_is(&own->in, "?") ? 1 : LH_GRAMMAR_UNBOUNDED;
    if (lh_grammar_reader_accept(&own->in, "~")) {
        skip_space(own, false);
        min = max = parse_count(own);
        if (lh_grammar_reader_accept(&own->in, ".."))
            max = parse_count(own);
        if (min > max)
            lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                                   "the minimum of a repetition is above its maximum");
    } else if (!lh_grammar_reader_accept(&own->in, "*") &&
               !lh_grammar_reader_accept(&own->in, "+") &&
               !lh_grammar_reader_accept(&own->in, "?")) {
        return node;
    }
    return lh_grammar_reader_has_failed(&own->in)
               ? LH_GRAMMAR_FAILED
               : lh_grammar_repeat(own->in.grammar, node, min, max);
}

static lh_grammar_node parse_alternatives(parser *own, bool over_lines);

/* Behind the opening parenthesis or bracket. */
static lh_grammar_node parse_group(parser *own, const char *close, bool is_optional) {
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (++own->depth > LH_LARK_DEPTH_MAX)
        lh_grammar_reader_fail(&own->in, LH_ERR_LIMIT,
                               "more than 100 parentheses are inside one another");
    if (!lh_grammar_reader_has_failed(&own->in))
        node = parse_alternatives(own, true);
    own->depth--;
    if (!lh_grammar_reader_accept(&own->in, close))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a parenthesis is not closed");
    if (lh_grammar_reader_has_failed(&own->in))
        return LH_GRAMMAR_FAILED;
    return is_optional ? lh_grammar_repeat(own->in.grammar, node, 0, 1) : node;
}

/* Of a rule: what is ignored may stand before a terminal. */
static lh_grammar_node behind_ignored(parser *own, lh_grammar_node node) {
    if (own->in_terminal || lh_grammar_reader_has_failed(&own->in))
        return node;
    const lh_grammar_node nodes[] = {lh_grammar_call(own->in.grammar, own->ignored), node};
    return lh_grammar_sequence(own->in.grammar, nodes, 2);
}

static lh_grammar_node parse_reference(parser *own) {
    const char *name;
    size_t length = parse_name(own, &name);
    rule_name *rule = find_name(own, name, length);
    if (lh_grammar_reader_next_is(&own->in, "{"))
        lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED, "templates are not supported");
    if (!rule || lh_grammar_reader_has_failed(&own->in))
        return LH_GRAMMAR_FAILED;
    lh_grammar_node node = lh_grammar_call(own->in.grammar, rule->rule);
    return is_terminal(name, length) ? behind_ignored(own, node) : node;
}

/* False: no item begins here. */
static bool parse_item(parser *own, lh_grammar_node *node) {
    if (lh_grammar_reader_next_is(&own->in, "->"))
        return false;
    if (lh_grammar_reader_accept(&own->in, "\""))
        *node = behind_ignored(own, parse_literal(own));
    else if (lh_grammar_reader_accept(&own->in, "/"))
        *node = behind_ignored(own, parse_regex(own));
    else if (lh_grammar_reader_accept(&own->in, "("))
        *node = parse_group(own, ")", false);
    else if (lh_grammar_reader_accept(&own->in, "["))
        *node = parse_group(own, "]", true);
    else if (own->in.at < own->in.end && is_name_character(*own->in.at))
        *node = parse_reference(own);
    else
        return false;
    return true;
}

/* Reads items, and the name that may follow them behind an arrow; names change nothing. */
static lh_grammar_node parse_sequence(parser *own, bool over_lines) {
    lh_grammar_nodes list = {0};
    for (skip_space(own, over_lines); !lh_grammar_reader_has_failed(&own->in);
         skip_space(own, over_lines)) {
        lh_grammar_node item = LH_GRAMMAR_FAILED;
        if (!parse_item(own, &item))
            break;
        lh_grammar_reader_push(&own->in, &list, repeat(own, item));
    }
    if (lh_grammar_reader_accept(&own->in, "->")) {
        const char *name;
        skip_space(own, false);
        parse_name(own, &name);
        skip_space(own, over_lines);
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
    if (accept_bar(own))
        skip_space(own, false);
    lh_grammar_reader_push(&own->in, &list, parse_sequence(own, over_lines));
    while (!lh_grammar_reader_has_failed(&own->in) && accept_bar(own))
        lh_grammar_reader_push(&own->in, &list, parse_sequence(own, over_lines));
    return lh_grammar_reader_choice(&own->in, &list);
}

/* ---- Statements ---- */

/* The terminals of Lark's own library, as regular expressions. */
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
                   lh_regex_add(own->in.grammar, commons[i].pattern, strlen(commons[i].pattern),
                                options));
            return;
        }
    }
    lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED, "an import of this name is not supported");
}

/* A name, perhaps with another one for it. */
static void parse_import_name(parser *own) {
    const char *name, *as;
    size_t length = parse_name(own, &name), as_length = length;
    as = name;
    skip_space(own, false);
    if (lh_grammar_reader_accept(&own->in, "->")) {
        skip_space(own, false);
        as_length = parse_name(own, &as);
    }
    if (!lh_grammar_reader_has_failed(&own->in))
        import_common(own, name, length, as, as_length);
}

static void parse_import(parser *own) {
    skip_space(own, false);
    if (!lh_grammar_reader_accept(&own->in, "common")) {
        lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED,
                               "only imports of common are supported");
        return;
    }
    if (lh_grammar_reader_accept(&own->in, ".")) {
        parse_import_name(own);
        return;
    }
    skip_space(own, false);
    if (!lh_grammar_reader_accept(&own->in, "("))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "an import is written common.NAME, or common (NAME, NAME)");
    do {
        skip_space(own, true);
        parse_import_name(own);
        skip_space(own, true);
    } while (!lh_grammar_reader_has_failed(&own->in) && lh_grammar_reader_accept(&own->in, ","));
    if (!lh_grammar_reader_accept(&own->in, ")"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "a parenthesis is not closed");
}

static void parse_ignore(parser *own) {
    own->in_terminal = true;
    lh_grammar_reader_push(&own->in, &own->ignores, parse_alternatives(own, false));
}

static void parse_rule(parser *own) {
    const char *name;
    while (lh_grammar_reader_accept(&own->in, "?") || lh_grammar_reader_accept(&own->in, "!"))
        ;
    size_t length = parse_name(own, &name);
    own->in_terminal = is_terminal(name, length);
    skip_space(own, false);
    if (lh_grammar_reader_accept(&own->in, "."))
        parse_count(own);
    skip_space(own, false);
    if (lh_grammar_reader_next_is(&own->in, "{"))
        lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED, "templates are not supported");
    else if (!lh_grammar_reader_accept(&own->in, ":"))
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID,
                               "':' is expected behind the name of a rule");
    lh_grammar_node node =
        lh_grammar_reader_has_failed(&own->in) ? LH_GRAMMAR_FAILED : parse_alternatives(own, false);
    if (!lh_grammar_reader_has_failed(&own->in))
        define(own, name, length, node);
}

static void parse_statement(parser *own) {
    if (lh_grammar_reader_accept(&own->in, "%import"))
        parse_import(own);
    else if (lh_grammar_reader_accept(&own->in, "%ignore"))
        parse_ignore(own);
    else if (lh_grammar_reader_next_is(&own->in, "%"))
        lh_grammar_reader_fail(&own->in, LH_ERR_UNSUPPORTED,
                               "of directives, %import and %ignore are supported");
    else
        parse_rule(own);
    skip_space(own, false);
    if (own->in.at < own->in.end && *own->in.at != '\n' && *own->in.at != '\r')
        lh_grammar_reader_fail(&own->in, LH_ERR_INVALID, "the end of the line is expected");
}

static void define_ignored(parser *own) {
    lh_grammar_node one =
        lh_grammar_choice(own->in.grammar, own->ignores.nodes, own->ignores.count);
    lh_grammar_define(own->in.grammar, own->ignored,
                      own->ignores.count
                          ? lh_grammar_repeat(own->in.grammar, one, 0, LH_GRAMMAR_UNBOUNDED)
                          : lh_grammar_empty(own->in.grammar));
}

/* All that is called is there. */
static void check_names(parser *own) {
    for (size_t i = 0; i < own->name_count && !lh_grammar_reader_has_failed(&own->in); i++)
        if (!own->names[i].is_defined)
            lh_grammar_fail(own->in.grammar, LH_ERR_INVALID, "the grammar has no rule \"%.*s\"",
                            (int)(own->names[i].length < 60 ? own->names[i].length : 60),
                            own->names[i].text);
}

static lh_grammar_node finish(parser *own) {
    rule_name *start = find_name(own, "start", 5);
    define_ignored(own);
    check_names(own);
    if (!start || lh_grammar_reader_has_failed(&own->in))
        return LH_GRAMMAR_FAILED;
    const lh_grammar_node nodes[] = {lh_grammar_call(own->in.grammar, start->rule),
                                     lh_grammar_call(own->in.grammar, own->ignored)};
    return lh_grammar_sequence(own->in.grammar, nodes, 2);
}

lh_grammar_node lh_lark_add(lh_grammar *grammar, const char *text, size_t length,
                            bool is_json_text) {
    parser own = {.in = {grammar, text, text, text + length}, .is_json_text = is_json_text};
    if (lh_grammar_reader_has_failed(&own.in))
        return LH_GRAMMAR_FAILED;
    if (length > 0 && lh_utf8_valid_prefix(text, length) < length)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "the grammar is not UTF-8");
    own.ignored = lh_grammar_declare(grammar, "ignored", 7);
    for (skip_space(&own, true); own.in.at < own.in.end && !lh_grammar_reader_has_failed(&own.in);
         skip_space(&own, true))
        parse_statement(&own);
    lh_grammar_node node = lh_grammar_reader_has_failed(&own.in) ? LH_GRAMMAR_FAILED : finish(&own);
    free(own.names);
    free(own.ignores.nodes);
    return node;
}
