/* One reader for each shape. */
#include "gateway/openai/tool_choice.h"

#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

static const char words[] = "none, auto, required, or an object that names a function";

/* Whether it is one of the words; otherwise the choice stays. word may be NULL. */
static bool read_word(const char *word, lh_openai_tool_choice *choice) {
    static const struct {
        const char *word;
        lh_openai_tool_choice choice;
    } all[] = {{"none", LH_TOOL_CHOICE_NONE},
               {"auto", LH_TOOL_CHOICE_AUTO},
               {"required", LH_TOOL_CHOICE_REQUIRED},
               {"any", LH_TOOL_CHOICE_REQUIRED}};
    for (size_t i = 0; word && i < sizeof all / sizeof *all; i++)
        if (strcmp(word, all[i].word) == 0) {
            *choice = all[i].choice;
            return true;
        }
    return false;
}

/* A name that stands in the object, or in a member of it that is called as its type. */
static const char *name_in(const json_t *of, const char *type) {
    const json_t *inside = json_object_get(of, type);
    const char *name = json_string_value(json_object_get(inside ? inside : of, "name"));
    return name;
}

static bool is_named_type(const char *type) {
    return lh_body_is_one_of(type, "function|tool|custom");
}

/* The name under which a tool is in the list, of a tool's type and name, and perhaps its namespace.
 */
static bool find_name(const json_t *of, char name[LH_OPENAI_TOOL_NAME_BYTES]) {
    const char *type = json_string_value(json_object_get(of, "type"));
    const char *inner = type && is_named_type(type) ? name_in(of, type) : NULL;
    const char *space = json_string_value(json_object_get(of, "namespace"));
    return inner && lh_openai_tool_flat_name(space, inner, name);
}

static void choose_named(const lh_body_reader *body, const json_t *choice, const json_t *list,
                         json_t *made, lh_openai_tools *tools) {
    char name[LH_OPENAI_TOOL_NAME_BYTES];
    if (!find_name(choice, name)) {
        lh_body_refuse(body, "tool_choice", "invalid_value", "must have the name of a function.");
        return;
    }
    json_t *kept = json_string(name);
    if (!kept || json_array_append_new(made, kept))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    else
        lh_openai_tools_choose(body, list, LH_TOOL_CHOICE_NAMED, json_string_value(kept), tools);
}

static bool is_allowed(const json_t *tool, const json_t *allowed) {
    const json_t *function = json_object_get(tool, "function");
    const char *own = json_string_value(json_object_get(function, "name"));
    for (size_t i = 0; i < json_array_size(allowed); i++) {
        char name[LH_OPENAI_TOOL_NAME_BYTES];
        if (find_name(json_array_get(allowed, i), name) && strcmp(name, own) == 0)
            return true;
    }
    return false;
}

/* Those of the list that may be called; the others are as if they were not there. */
static void choose_allowed(const lh_body_reader *body, const json_t *choice, const json_t *list,
                           json_t *made, lh_openai_tools *tools) {
    const json_t *inside = json_object_get(choice, "allowed_tools"),
                 *of = json_is_object(inside) ? inside : choice,
                 *allowed = json_object_get(of, "tools");
    lh_openai_tool_choice mode = LH_TOOL_CHOICE_AUTO;
    read_word(json_string_value(json_object_get(of, "mode")), &mode);
    if (!json_is_array(allowed)) {
        lh_body_refuse(body, "tool_choice", "invalid_type", "must have a list of 'tools'.");
        return;
    }
    json_t *left = json_array();
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_allowed(json_array_get(list, i), allowed))
            left = lh_json_append(left, json_incref(json_array_get(list, i)));
    if (!left || json_array_append_new(made, left))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    else
        lh_openai_tools_choose(body, left, mode, NULL, tools);
}

static void choose_object(const lh_body_reader *body, const json_t *choice, const json_t *list,
                          json_t *made, lh_openai_tools *tools) {
    const char *type = json_string_value(json_object_get(choice, "type"));
    lh_openai_tool_choice word;
    if (read_word(type, &word))
        lh_openai_tools_choose(body, list, word, NULL, tools);
    else if (type && strcmp(type, "allowed_tools") == 0)
        choose_allowed(body, choice, list, made, tools);
    else if (type && is_named_type(type))
        choose_named(body, choice, list, made, tools);
    else
        lh_body_refuse(body, "tool_choice", type ? "unsupported_value" : "invalid_type",
                       "must be %s.", words);
}

void lh_openai_tool_choice_read(const lh_body_reader *body, const json_t *list, json_t *made,
                                lh_openai_tools *tools) {
    const json_t *choice = lh_body_typed(body, "tool_choice", "string|object", words);
    lh_openai_tool_choice word = LH_TOOL_CHOICE_AUTO;
    if (json_is_object(choice))
        choose_object(body, choice, list, made, tools);
    else if (json_is_string(choice) && !read_word(json_string_value(choice), &word))
        lh_body_refuse(body, "tool_choice", "invalid_value", "must be %s.", words);
    else
        lh_openai_tools_choose(body, list, word, NULL, tools);
}
