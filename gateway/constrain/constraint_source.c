/* One small front end for each kind; the large ones are files of their own. */
#include "gateway/constrain/constraint_source.h"

#include "gateway/constrain/gbnf.h"
#include "gateway/constrain/grammar_form.h"
#include "gateway/constrain/json_schema.h"
#include "gateway/constrain/lark.h"
#include "gateway/constrain/regex.h"
#include "gateway/constrain/schema_written.h"
#include "gateway/text/tools/tool_call_parser.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lh_grammar_node literal(lh_grammar *grammar, const json_t *text) {
    return lh_grammar_literal(grammar, json_string_value(text), json_string_length(text));
}

static lh_grammar_node any_text(lh_grammar *grammar) {
    return lh_grammar_repeat(grammar, lh_grammar_class(grammar, NULL, 0, true), 0,
                             LH_GRAMMAR_UNBOUNDED);
}

static lh_grammar_node add_choice(lh_grammar *grammar, const json_t *list) {
    size_t count = json_array_size(list);
    if (count == 0 || count > LH_CONSTRAINT_CHOICES_MAX)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "must be a list of 1 to %u strings",
                               LH_CONSTRAINT_CHOICES_MAX);
    lh_grammar_node *ways = calloc(count, sizeof *ways), node;
    if (!ways)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a choice");
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_array_get(list, i);
        ways[i] = json_is_string(text)
                      ? literal(grammar, text)
                      : lh_grammar_fail(grammar, LH_ERR_INVALID, "must be a list of strings");
    }
    node = lh_grammar_choice(grammar, ways, count);
    free(ways);
    return node;
}

static lh_grammar_node add_regex(lh_grammar *grammar, const json_t *pattern) {
    return json_is_string(pattern)
               ? lh_regex_add(grammar, json_string_value(pattern), json_string_length(pattern),
                              (lh_regex_options){.is_search = false})
               : lh_grammar_fail(grammar, LH_ERR_INVALID, "must be a string");
}

/* Free text without these. */
static lh_grammar_node text_without(lh_grammar *grammar, const json_t *list) {
    lh_literal_text texts[LH_TEXT_WITHOUT_MAX];
    size_t count = json_array_size(list);
    assert(count <= LH_TEXT_WITHOUT_MAX);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_array_get(list, i);
        texts[i] = (lh_literal_text){json_string_value(text), json_string_length(text)};
    }
    return lh_text_without_add(grammar, texts, count);
}

/* ---- Tags. ---- */

static bool begins_with_one(const char *begin, const json_t *triggers) {
    for (size_t i = 0; i < json_array_size(triggers); i++) {
        const char *trigger = json_string_value(json_array_get(triggers, i));
        if (trigger && strncmp(begin, trigger, strlen(trigger)) == 0)
            return true;
    }
    return false;
}

static lh_grammar_node add_tag(lh_grammar *grammar, const json_t *tag, const json_t *triggers) {
    const json_t *begin = json_object_get(tag, "begin"), *end = json_object_get(tag, "end"),
                 *schema = json_object_get(tag, "schema");
    if (!json_is_string(begin) || !json_is_string(end) || !schema)
        return lh_grammar_fail(grammar, LH_ERR_INVALID,
                               "each of 'structures' must have 'begin', 'schema' and 'end'");
    if (!begins_with_one(json_string_value(begin), triggers))
        return lh_grammar_fail(grammar, LH_ERR_INVALID,
                               "'begin' of each structure must begin with one of 'triggers'");
    const lh_grammar_node nodes[] = {literal(grammar, begin), lh_json_schema_add(grammar, schema),
                                     literal(grammar, end)};
    return lh_grammar_sequence(grammar, nodes, 3);
}

static bool are_texts(const json_t *list, size_t most) {
    bool are = json_array_size(list) > 0 && json_array_size(list) <= most;
    for (size_t i = 0; i < json_array_size(list); i++)
        are &= json_string_length(json_array_get(list, i)) > 0;
    return are;
}

static lh_grammar_node add_tags(lh_grammar *grammar, const json_t *value) {
    const json_t *tags = json_object_get(value, "structures"),
                 *triggers = json_object_get(value, "triggers");
    lh_grammar_node ways[LH_CONSTRAINT_TAGS_MAX];
    size_t count = json_array_size(tags);
    if (count == 0 || count > LH_CONSTRAINT_TAGS_MAX)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "'structures' must be a list of 1 to %u",
                               LH_CONSTRAINT_TAGS_MAX);
    if (!are_texts(triggers, LH_CONSTRAINT_TRIGGERS_MAX))
        return lh_grammar_fail(grammar, LH_ERR_INVALID,
                               "'triggers' must be a list of 1 to %u texts, none of them empty",
                               LH_CONSTRAINT_TRIGGERS_MAX);
    for (size_t i = 0; i < count; i++)
        ways[i] = add_tag(grammar, json_array_get(tags, i), triggers);
    lh_grammar_node text = text_without(grammar, triggers);
    const lh_grammar_node tagged[] = {text, lh_grammar_choice(grammar, ways, count)};
    const lh_grammar_node whole[] = {lh_grammar_repeat(grammar,
                                                       lh_grammar_sequence(grammar, tagged, 2), 0,
                                                       LH_GRAMMAR_UNBOUNDED),
                                     text};
    return lh_grammar_sequence(grammar, whole, 2);
}

/* ---- Calls of tools. ---- */

/* Texts and tokens, one behind the other. */
static lh_grammar_node add_parts(lh_grammar *grammar, const json_t *parts) {
    lh_grammar_node node = lh_grammar_empty(grammar);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const lh_grammar_node nodes[] = {
            node, json_is_string(part)
                      ? literal(grammar, part)
                      : lh_grammar_token(grammar, (uint32_t)json_integer_value(part))};
        node = lh_grammar_sequence(grammar, nodes, 2);
    }
    return node;
}

/* The texts of a tool's own grammar. */
static lh_grammar_node add_own_grammar(lh_grammar *grammar, const json_t *of, bool is_json_text) {
    const json_t *definition = json_object_get(of, "definition");
    const char *text = json_string_value(definition),
               *syntax = json_string_value(json_object_get(of, "syntax"));
    const lh_regex_options options = {.is_json_text = is_json_text};
    return strcmp(syntax, "regex") == 0
               ? lh_regex_add(grammar, text, json_string_length(definition), options)
               : lh_lark_add(grammar, text, json_string_length(definition), is_json_text);
}

/* {"input": "..."}, or as the model writes parameters. */
static lh_grammar_node add_input(lh_grammar *grammar, const json_t *of, const json_t *written) {
    static const char *const marks[] = {"open", "separator", "end"};
    lh_grammar_node around[3];
    for (size_t i = 0; i < 3; i++) {
        const char *mark = json_string_value(json_object_get(written, marks[i]));
        around[i] = lh_grammar_text(grammar, mark ? mark : "");
    }
    if (!written) {
        const lh_grammar_node nodes[] = {lh_grammar_text(grammar, "{\"input\": \""),
                                         add_own_grammar(grammar, of, true),
                                         lh_grammar_text(grammar, "\"}")};
        return lh_grammar_sequence(grammar, nodes, 3);
    }
    const lh_grammar_node nodes[] = {around[0], lh_grammar_text(grammar, "input"), around[1],
                                     add_own_grammar(grammar, of, false), around[2]};
    return lh_grammar_sequence(grammar, nodes, 5);
}

/* What is wrong with its schema is said of the function. */
static lh_grammar_node add_arguments(lh_grammar *grammar, const json_t *call) {
    const char *name = json_string_value(json_object_get(call, "name"));
    bool was_good = lh_grammar_check(grammar, NULL) == LH_OK;
    const json_t *written = json_object_get(call, "parameters"),
                 *schema = json_object_get(call, "schema"), *own = json_object_get(call, "grammar");
    lh_grammar_node node = own       ? add_input(grammar, own, written)
                           : written ? lh_schema_written_add(grammar, schema, written)
                                     : lh_json_schema_add(grammar, schema);
    char place[80];
    if (!was_good || !name)
        return node;
    snprintf(place, sizeof place, "function '%.64s'", name);
    lh_grammar_place_failure(grammar, place);
    return node;
}

static lh_grammar_node add_one_call(lh_grammar *grammar, const json_t *list) {
    lh_grammar_node ways[LH_CONSTRAINT_TAGS_MAX];
    size_t count = json_array_size(list);
    if (count == 0 || count > LH_CONSTRAINT_TAGS_MAX)
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "must be a list of 1 to %u calls",
                               LH_CONSTRAINT_TAGS_MAX);
    for (size_t i = 0; i < count; i++) {
        const json_t *call = json_array_get(list, i);
        const lh_grammar_node nodes[] = {add_parts(grammar, json_object_get(call, "begin")),
                                         add_arguments(grammar, call),
                                         add_parts(grammar, json_object_get(call, "end"))};
        ways[i] = lh_grammar_sequence(grammar, nodes, 3);
    }
    lh_grammar_rule rule = lh_grammar_declare(grammar, "call", 4);
    lh_grammar_define(grammar, rule, lh_grammar_choice(grammar, ways, count));
    return lh_grammar_call(grammar, rule);
}

/* White space that a model may write behind its last call. */
#define BLANKS_MAX 2

/* What is between two calls often begins with white space, which models also write before they end:
 * without an end behind it, a call would be forced, and another one, until the answer is cut. */
static lh_grammar_node add_blanks(lh_grammar *grammar) {
    static const lh_character_range blanks[] = {{' ', ' '}, {'\n', '\n'}};
    return lh_grammar_repeat(grammar, lh_grammar_class(grammar, blanks, 2, false), 0, BLANKS_MAX);
}

static lh_grammar_node add_all_calls(lh_grammar *grammar, const json_t *value) {
    const json_t *between = json_object_get(value, "between");
    lh_grammar_node call = add_one_call(grammar, json_object_get(value, "calls"));
    const lh_grammar_node next[] = {add_parts(grammar, between), call};
    const lh_grammar_node nodes[] = {add_parts(grammar, json_object_get(value, "before")), call,
                                     lh_grammar_repeat(grammar,
                                                       lh_grammar_sequence(grammar, next, 2), 0,
                                                       between ? LH_TOOL_CALLS_MAX - 1 : 0),
                                     add_parts(grammar, json_object_get(value, "behind")),
                                     between ? add_blanks(grammar) : lh_grammar_empty(grammar)};
    return lh_grammar_sequence(grammar, nodes, 5);
}

/* Text, and calls behind it, perhaps; the mark: what begins them, where it is text. */
static lh_grammar_node add_text_and_calls(lh_grammar *grammar, const json_t *mark,
                                          lh_grammar_node calls) {
    json_t *marks = json_is_string(mark) ? json_pack("[O]", mark) : NULL;
    if (json_is_string(mark) && !marks)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a mark");
    const lh_grammar_node nodes[] = {marks ? text_without(grammar, marks) : any_text(grammar),
                                     lh_grammar_repeat(grammar, calls, 0, 1)};
    json_decref(marks);
    return lh_grammar_sequence(grammar, nodes, 2);
}

/* Text instead of calls, which begin with a brace. */
static lh_grammar_node add_text_or_calls(lh_grammar *grammar, lh_grammar_node calls) {
    static const lh_character_range brace = {'{', '{'};
    const lh_grammar_node text[] = {lh_grammar_class(grammar, &brace, 1, true), any_text(grammar)};
    const lh_grammar_node ways[] = {calls, lh_grammar_empty(grammar),
                                    lh_grammar_sequence(grammar, text, 2)};
    return lh_grammar_choice(grammar, ways, 3);
}

static lh_grammar_node add_answer(const lh_constraint_source *source, lh_grammar *grammar);

static lh_grammar_node add_calls(lh_grammar *grammar, const json_t *value) {
    const json_t *text = json_object_get(value, "text"), *other = json_object_get(value, "or");
    lh_grammar_node calls = add_all_calls(grammar, value);
    if (other) {
        const lh_constraint_source form = {
            .kind = (lh_constraint_kind)json_integer_value(json_object_get(other, "kind")),
            .value = json_object_get(other, "value")};
        const lh_grammar_node nodes[] = {add_parts(grammar, json_object_get(other, "begin")),
                                         add_answer(&form, grammar)};
        const lh_grammar_node ways[] = {calls, lh_grammar_sequence(grammar, nodes, 2)};
        return lh_grammar_choice(grammar, ways, 2);
    }
    if (json_is_string(text) && json_string_length(text) == 0)
        return add_text_or_calls(grammar, calls);
    return text ? add_text_and_calls(grammar, text, calls) : calls;
}

/* ---- Thoughts. ---- */

/* Line feeds that a model may write between its thought and its answer. */
#define LINE_FEEDS_MAX 2

static lh_grammar_node add_thought(lh_grammar *grammar, const json_t *lead) {
    const json_t *end = json_object_get(lead, "end"), *token = json_object_get(lead, "token"),
                 *behind = json_object_get(lead, "behind");
    json_t *ends = json_pack("[O]", end);
    lh_grammar_node marks[2];
    size_t count = 0;
    if (!ends)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a thought's end");
    marks[count++] = literal(grammar, end);
    if (token)
        marks[count++] = lh_grammar_token(grammar, (uint32_t)json_integer_value(token));
    const lh_grammar_node nodes[] = {
        add_parts(grammar, json_object_get(lead, "begin")), text_without(grammar, ends),
        lh_grammar_choice(grammar, marks, count),
        behind ? add_parts(grammar, behind)
               : lh_grammar_repeat(grammar, lh_grammar_text(grammar, "\n"), 0, LINE_FEEDS_MAX)};
    json_decref(ends);
    return lh_grammar_sequence(grammar, nodes, 4);
}

/* A thought, or perhaps one, and the answer. */
static lh_grammar_node behind_lead(lh_grammar *grammar, const json_t *lead,
                                   lh_grammar_node answer) {
    bool may_lack = json_object_get(lead, "begin") != NULL;
    lh_grammar_node thought = add_thought(grammar, lead);
    const lh_grammar_node nodes[] = {may_lack ? lh_grammar_repeat(grammar, thought, 0, 1) : thought,
                                     add_parts(grammar, json_object_get(lead, "answer")), answer};
    return lh_grammar_sequence(grammar, nodes, 3);
}

/* ---- All kinds. ---- */

static lh_grammar_node add_gbnf(lh_grammar *grammar, const json_t *text) {
    if (!json_is_string(text))
        return lh_grammar_fail(grammar, LH_ERR_INVALID, "must be a string");
    lh_gbnf_add(grammar, json_string_value(text), json_string_length(text));
    return grammar->root;
}

static lh_grammar_node add_answer(const lh_constraint_source *source, lh_grammar *grammar) {
    switch (source->kind) {
    case LH_CONSTRAINT_OBJECT:
        return lh_json_object_add(grammar);
    case LH_CONSTRAINT_SCHEMA:
        return lh_json_schema_add(grammar, source->value);
    case LH_CONSTRAINT_REGEX:
        return add_regex(grammar, source->value);
    case LH_CONSTRAINT_CHOICE:
        return add_choice(grammar, source->value);
    case LH_CONSTRAINT_GBNF:
        return add_gbnf(grammar, source->value);
    case LH_CONSTRAINT_TAGS:
        return add_tags(grammar, source->value);
    case LH_CONSTRAINT_CALLS:
        return add_calls(grammar, source->value);
    }
    assert(false && "a kind of constraint");
    return LH_GRAMMAR_FAILED;
}

void lh_constraint_source_add(const lh_constraint_source *source, lh_grammar *grammar) {
    lh_grammar_node answer = add_answer(source, grammar);
    lh_grammar_set_root(grammar,
                        source->lead ? behind_lead(grammar, source->lead, answer) : answer);
}
