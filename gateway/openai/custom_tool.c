/* {"input": TEXT} and back. */
#include "gateway/openai/custom_tool.h"

#include "common/json/json_text.h"

#include <stdlib.h>
#include <string.h>

/* ---- What it is ---- */

/* {"syntax", "definition"} of the tool's format; NULL: any text. */
static json_t *read_grammar(const lh_body_reader *tool) {
    const json_t *format = lh_body_object(tool, "format"),
                 *inside = json_object_get(format, "grammar");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || strcmp(type, "grammar") != 0)
        return NULL;
    const json_t *of = json_is_object(inside) ? inside : format;
    json_t *syntax = json_object_get(of, "syntax"), *definition = json_object_get(of, "definition");
    if (!json_is_string(definition) || !json_is_string(syntax) ||
        !lh_body_is_one_of(json_string_value(syntax), "lark|regex")) {
        lh_body_refuse(tool, "format", "invalid_value",
                       "must have a 'syntax', lark or regex, and a 'definition'.");
        return NULL;
    }
    return json_pack("{s:O, s:O}", "syntax", syntax, "definition", definition);
}

/* What the model is told of it, of which the grammar is a part. */
static json_t *description_of(const lh_body_reader *tool, const json_t *grammar) {
    const char *own = lh_body_text(tool, "description", SIZE_MAX);
    if (!grammar)
        return json_string(own ? own : "");
    return json_sprintf("%s%s'input' is a text of this grammar (%s):\n%s", own ? own : "",
                        own ? "\n\n" : "", json_string_value(json_object_get(grammar, "syntax")),
                        json_string_value(json_object_get(grammar, "definition")));
}

json_t *lh_openai_custom_tool(const lh_body_reader *tool, const char *flat, json_t **kind) {
    json_t *grammar = read_grammar(tool), *function = NULL;
    if (!tool->error->status)
        function =
            json_pack("{s:s, s:o, s:{s:s, s:{s:{s:s}}, s:[s], s:b}}", "name", flat, "description",
                      description_of(tool, grammar), "parameters", "type", "object", "properties",
                      "input", "type", "string", "required", "input", "additionalProperties", 0);
    if (grammar)
        *kind = lh_json_set(*kind, "grammar", grammar);
    if ((!function || !*kind) && !tool->error->status)
        lh_openai_refuse_status(tool->error, LH_ERR_NO_MEMORY);
    return function;
}

bool lh_openai_custom_is(const json_t *kinds, const char *name) {
    const char *type = json_string_value(json_object_get(json_object_get(kinds, name), "type"));
    return type && strcmp(type, "custom") == 0;
}

/* ---- What it is called with ---- */

json_t *lh_openai_custom_arguments(const char *input, size_t length) {
    json_t *object = json_pack("{s:o}", "input", lh_json_text(input, length));
    char *text = object ? json_dumps(object, 0) : NULL;
    json_t *made = text ? json_string_nocheck(text) : NULL;
    json_decref(object);
    free(text);
    return made;
}

/* As far as it goes: what was cut inside of a text ends there. */
static json_t *parse_cut(const char *arguments, size_t length) {
    static const char *const ends[] = {"", "\"}", "}"};
    json_t *object = NULL;
    for (size_t cut = 0; !object && cut < 7 && cut <= length; cut++)
        for (size_t i = 0; !object && i < sizeof ends / sizeof *ends; i++) {
            lh_text_buffer text = {0};
            if (lh_text_buffer_append(&text, arguments, length - cut, NULL) == LH_OK &&
                lh_text_buffer_append(&text, ends[i], strlen(ends[i]), NULL) == LH_OK)
                object = json_loadb(text.bytes, text.length, 0, NULL);
            lh_text_buffer_reset(&text);
        }
    return object;
}

json_t *lh_openai_custom_input(const char *arguments, size_t length) {
    json_t *object = parse_cut(arguments, length), *input = json_object_get(object, "input"),
           *value;
    const char *key;
    if (!json_is_string(input))
        json_object_foreach(object, key, value) {
            if (json_is_string(value) && !json_is_string(input))
                input = value;
        }
    /* A model that knows the tool by another form gives all that it has written. */
    json_t *text = json_is_string(input) ? json_incref(input)
                   : object              ? lh_json_text(arguments, length)
                                         : json_string("");
    json_decref(object);
    return text;
}
