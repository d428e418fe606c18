/* What the format of the model writes around the name of a function and its arguments. */
#include "gateway/openai/tool_form.h"

#include "common/json/json_text.h"
#include "gateway/openai/mark_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts with control tokens ---- */

/* A name, which holds no marks whatever it looks like, and the text behind it, which may; both are
 * taken. */
static json_t *name_and_marks(json_t *name, json_t *marks) {
    json_t *parts = lh_json_append(json_array(), name);
    for (size_t i = 0; i < json_array_size(marks); i++)
        parts = lh_json_append(parts, json_incref(json_array_get(marks, i)));
    if (!marks) {
        json_decref(parts);
        parts = NULL;
    }
    json_decref(marks);
    return parts;
}

/* `{"name": "f", "arguments": `, before the arguments. */
static json_t *begin_of_object(const char *name, const char *arguments_key) {
    json_t *quoted = json_string(name);
    char *literal = quoted ? json_dumps(quoted, JSON_ENCODE_ANY) : NULL;
    json_t *begin =
        literal ? json_sprintf("{\"name\": %s, \"%s\": ", literal, arguments_key) : NULL;
    json_decref(quoted);
    free(literal);
    return lh_json_append(json_array(), begin);
}

/* ---- Calls ---- */

static bool is_forced(const lh_openai_tools *tools) {
    return tools->choice == LH_TOOL_CHOICE_REQUIRED || tools->choice == LH_TOOL_CHOICE_NAMED;
}

static bool is_strict(const json_t *function) {
    return json_is_true(json_object_get(function, "strict"));
}

/* No parameters are an object without members, as OpenAI has it. */
static json_t *schema_of(const json_t *function, bool is_bound) {
    json_t *schema = json_object_get(function, "parameters");
    if (!is_bound)
        return json_pack("{s:s}", "type", "object");
    return json_is_object(schema)
               ? json_incref(schema)
               : json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 0);
}

/* Of a tool of the client's own; NULL: it has none. */
static json_t *grammar_of(const lh_openai_tools *tools, const json_t *function) {
    const char *name = json_string_value(json_object_get(function, "name"));
    return json_object_get(json_object_get(tools->kinds, name), "grammar");
}

static json_t *call_form(const json_t *function, json_t *grammar, bool is_bound,
                         const lh_tool_format *format, const lh_tokenizer *tokenizer) {
    const char *name = json_string_value(json_object_get(function, "name"));
    const lh_tool_writing *writing = &format->writing;
    bool is_named = format->body != LH_TOOL_BODY_OBJECT;
    json_t *begin = is_named ? name_and_marks(json_string(name),
                                              lh_openai_mark_parts(tokenizer, writing->separator))
                             : begin_of_object(name, format->arguments_key);
    json_t *form = lh_json_set(json_object(), "name", json_string(name));
    form = lh_json_set(form, "begin", begin);
    form = grammar ? lh_json_set(form, "grammar", json_incref(grammar))
                   : lh_json_set(form, "schema", schema_of(function, is_bound));
    if (format->body == LH_TOOL_BODY_PARAMETERS)
        form = lh_json_set(form, "parameters",
                           json_pack("{s:s, s:s, s:s, s:s}", "open", format->parameter_open,
                                     "separator", writing->parameter_separator, "close",
                                     format->parameter_close, "end", writing->parameter_end));
    return lh_json_set(form, "end",
                       lh_openai_mark_parts(tokenizer, !is_named      ? "}"
                                                       : writing->end ? writing->end
                                                                      : ""));
}

static bool is_callable(const lh_openai_tools *tools, const json_t *function) {
    return tools->choice != LH_TOOL_CHOICE_NAMED ||
           strcmp(json_string_value(json_object_get(function, "name")), tools->name) == 0;
}

static json_t *call_forms(const lh_openai_tools *tools, const lh_tool_format *format,
                          const lh_tokenizer *tokenizer) {
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(tools->list); i++) {
        const json_t *function = json_object_get(json_array_get(tools->list, i), "function");
        if (is_callable(tools, function))
            calls = lh_json_append(calls, call_form(function, grammar_of(tools, function),
                                                    is_forced(tools) || is_strict(function), format,
                                                    tokenizer));
    }
    return calls;
}

/* The mark that ends a text, as LH_CONSTRAINT_CALLS has it. */
static json_t *mark_of(const lh_tool_format *format, const lh_tokenizer *tokenizer) {
    if (format->begins_bare)
        return json_string("");
    json_t *parts = lh_openai_mark_parts(tokenizer, format->open);
    bool is_text = json_array_size(parts) == 1 && json_is_string(json_array_get(parts, 0));
    json_t *mark = !parts ? NULL : is_text ? json_string(format->open) : json_null();
    json_decref(parts);
    return mark;
}

bool lh_openai_tools_have_form(const lh_openai_tools *tools) {
    bool have = is_forced(tools);
    for (size_t i = 0; i < json_array_size(tools->list); i++) {
        const json_t *function = json_object_get(json_array_get(tools->list, i), "function");
        have |= is_strict(function) || grammar_of(tools, function);
    }
    return have;
}

json_t *lh_openai_tool_form(const lh_openai_tools *tools, const lh_tool_format *format,
                            const lh_tokenizer *tokenizer, const lh_constraint_source *other,
                            const char *other_begin) {
    const lh_tool_writing *writing = &format->writing;
    json_t *form = lh_json_set(json_object(), "calls", call_forms(tools, format, tokenizer));
    form = lh_json_set(form, "before", lh_openai_mark_parts(tokenizer, writing->before));
    form = lh_json_set(form, "behind", lh_openai_mark_parts(tokenizer, writing->behind));
    if (writing->between && !tools->has_one_call)
        form = lh_json_set(form, "between", lh_openai_mark_parts(tokenizer, writing->between));
    if (is_forced(tools))
        return form;
    return other ? lh_json_set(form, "or",
                               json_pack("{s:i, s:O?, s:o}", "kind", (int)other->kind, "value",
                                         (json_t *)other->value, "begin",
                                         lh_openai_mark_parts(tokenizer, other_begin)))
                 : lh_json_set(form, "text", mark_of(format, tokenizer));
}
