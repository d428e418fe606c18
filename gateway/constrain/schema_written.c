/* Parameter by parameter. */
#include "gateway/constrain/schema_written.h"

#include "gateway/constrain/json_schema.h"
#include "gateway/constrain/text_without.h"
#include "gateway/text/tools/tool_parameter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS_MAX 256u

static bool is_one_of(const char *word, const char *const *words) {
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* Names the first member that is none of these. */
static bool check_members(lh_grammar *grammar, const json_t *schema, const char *const *known) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)schema, name, value) {
        if (!is_one_of(name, known)) {
            lh_grammar_fail(grammar, LH_ERR_UNSUPPORTED,
                            "keyword '%.40s' is not supported where this model writes parameters",
                            name);
            return false;
        }
    }
    return true;
}

typedef struct writing {
    lh_grammar *grammar;
    const json_t *marks;
    lh_grammar_rule text; /* of a value, without the mark that ends it */
} writing;

/* ---- Values ---- */

static lh_grammar_node free_text(const writing *w) {
    return lh_grammar_call(w->grammar, w->text);
}

static lh_grammar_node one_text(const writing *w, const json_t *text) {
    const char *close = json_string_value(json_object_get(w->marks, "close"));
    if (json_is_null(text))
        return lh_grammar_text(w->grammar, "null");
    if (!json_is_string(text) || strstr(json_string_value(text), close))
        return lh_grammar_fail(w->grammar, LH_ERR_UNSUPPORTED,
                               "a value that is no text, or has the mark %s in it", close);
    return lh_grammar_literal(w->grammar, json_string_value(text), json_string_length(text));
}

static lh_grammar_node one_of_texts(const writing *w, const json_t *list) {
    size_t count = json_array_size(list);
    lh_grammar_node *ways = calloc(count + 1, sizeof *ways);
    if (!ways)
        return lh_grammar_fail(w->grammar, LH_ERR_NO_MEMORY, "no memory for a parameter");
    for (size_t i = 0; i < count; i++)
        ways[i] = one_text(w, json_array_get(list, i));
    lh_grammar_node node = lh_grammar_choice(w->grammar, ways, count);
    free(ways);
    return node;
}

static lh_grammar_node add_text(const writing *w, const json_t *schema) {
    static const char *const known[] = {"type",     "enum",       "const",    "title",
                                        "default",  "deprecated", "$comment", "description",
                                        "examples", NULL};
    const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    if (!check_members(w->grammar, schema, known))
        return LH_GRAMMAR_FAILED;
    if (list)
        return one_of_texts(w, list);
    return only ? one_text(w, only) : free_text(w);
}

/* What it refers to stands in the whole schema. */
static lh_grammar_node add_json(lh_grammar *grammar, const json_t *schema, const json_t *whole) {
    static const char *const shared[] = {"$defs", "definitions"};
    json_t *alone = json_copy((json_t *)schema);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        json_t *defs = json_object_get(whole, shared[i]);
        if (defs && json_is_object(alone) && json_object_set(alone, shared[i], defs))
            lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a parameter");
    }
    lh_grammar_node node =
        alone ? lh_json_schema_add(grammar, alone)
              : lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a parameter");
    json_decref(alone);
    return node;
}

/* ---- Parameters ---- */

static lh_grammar_node mark(const writing *w, const char *name) {
    return lh_grammar_text(w->grammar, json_string_value(json_object_get(w->marks, name)));
}

static lh_grammar_node wrap(const writing *w, lh_grammar_node name, lh_grammar_node value) {
    const lh_grammar_node nodes[] = {mark(w, "open"), name, mark(w, "separator"), value,
                                     mark(w, "end")};
    return lh_grammar_sequence(w->grammar, nodes, 5);
}

/* A name ends where the first byte of the separator stands. */
static lh_grammar_node add_any(const writing *w) {
    static const lh_character_range ends[] = {{'>', '>'}, {'\n', '\n'}};
    lh_grammar_node name =
        lh_grammar_repeat(w->grammar, lh_grammar_class(w->grammar, ends, 2, true), 1, 64);
    return lh_grammar_repeat(w->grammar, wrap(w, name, free_text(w)), 0, PARAMETERS_MAX);
}

static bool is_required(const json_t *schema, const char *name) {
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *other = json_string_value(json_array_get(required, i));
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static lh_grammar_node add_one(const writing *w, const json_t *schema, const char *name,
                               const json_t *value) {
    char place[96];
    if (!*name || strpbrk(name, ">\n"))
        return lh_grammar_fail(w->grammar, LH_ERR_UNSUPPORTED,
                               "the name of parameter '%.40s' has a '>' or a line feed", name);
    bool was_good = lh_grammar_check(w->grammar, NULL) == LH_OK;
    lh_grammar_node node =
        lh_tool_parameter_is_text(value) ? add_text(w, value) : add_json(w->grammar, value, schema);
    snprintf(place, sizeof place, "parameter '%.64s'", name);
    if (was_good)
        lh_grammar_place_failure(w->grammar, place);
    node = wrap(w, lh_grammar_text(w->grammar, name), node);
    return is_required(schema, name) ? node : lh_grammar_repeat(w->grammar, node, 0, 1);
}

static bool check_required(lh_grammar *grammar, const json_t *schema) {
    const json_t *required = json_object_get(schema, "required"),
                 *properties = json_object_get(schema, "properties");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || !json_object_get(properties, name)) {
            lh_grammar_fail(grammar, LH_ERR_UNSUPPORTED,
                            "'required' names what 'properties' does not have");
            return false;
        }
    }
    return true;
}

static lh_grammar_node add_properties(const writing *w, const json_t *schema) {
    const json_t *properties = json_object_get(schema, "properties");
    lh_grammar_node nodes[PARAMETERS_MAX];
    size_t count = 0;
    const char *name;
    json_t *value;
    if (json_object_size(properties) > PARAMETERS_MAX)
        return lh_grammar_fail(w->grammar, LH_ERR_LIMIT, "more than %u parameters", PARAMETERS_MAX);
    json_object_foreach((json_t *)properties, name, value) {
        nodes[count++] = add_one(w, schema, name, value);
    }
    return lh_grammar_sequence(w->grammar, nodes, count);
}

static void define_text(const writing *w) {
    const json_t *close = json_object_get(w->marks, "close");
    const lh_literal_text end = {json_string_value(close), json_string_length(close)};
    lh_grammar_define(w->grammar, w->text, lh_text_without_add(w->grammar, &end, 1));
}

lh_grammar_node lh_schema_written_add(lh_grammar *grammar, const json_t *schema,
                                      const json_t *marks) {
    static const char *const known[] = {
        "type",     "properties",           "required",    "$defs",       "$schema", "title", "$id",
        "$comment", "additionalProperties", "definitions", "description", NULL};
    const writing w = {grammar, marks, lh_grammar_declare(grammar, "text", 4)};
    if (!check_members(grammar, schema, known) || !check_required(grammar, schema))
        return LH_GRAMMAR_FAILED;
    bool is_closed = json_is_false(json_object_get(schema, "additionalProperties"));
    define_text(&w);
    return json_object_size(json_object_get(schema, "properties")) == 0 && !is_closed
               ? add_any(&w)
               : add_properties(&w, schema);
}
