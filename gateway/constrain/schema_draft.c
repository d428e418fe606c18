/* A walk over the copy, which minds what is a schema and what is data. */
#include "gateway/constrain/schema_draft.h"

#include "gateway/constrain/string_format.h"

#include <string.h>

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Values that are data, whatever they look like. */
static bool is_data(const char *keyword) {
    static const char *const names[] = {"const", "enum", "default", "example", "examples", NULL};
    return is_one_of(keyword, names);
}

/* Maps of schemas by names of the user's. */
static bool is_map(const char *keyword) {
    static const char *const names[] = {"properties",  "patternProperties", "$defs",
                                        "definitions", "dependentSchemas",  NULL};
    return is_one_of(keyword, names);
}

/* ---- One schema ---- */

static void drop_nulls(json_t *schema) {
    static const char *const kept[] = {"const", "default", "example", "examples", NULL};
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(schema, next, name, value) {
        if (json_is_null(value) && !is_one_of(name, kept))
            json_object_del(schema, name);
    }
}

/* Draft 4's: a switch beside the bound. */
static bool renew_bound(json_t *schema, const char *exclusive, const char *bound) {
    const json_t *value = json_object_get(schema, exclusive);
    json_t *number = json_object_get(schema, bound);
    bool is_set = true;
    if (!json_is_boolean(value))
        return true;
    if (json_is_true(value) && json_is_number(number)) {
        is_set = json_object_set(schema, exclusive, number) == 0;
        json_object_del(schema, bound);
    } else {
        json_object_del(schema, exclusive);
    }
    return is_set;
}

static bool renew_items(json_t *schema) {
    json_t *items = json_object_get(schema, "items"),
           *additional = json_object_get(schema, "additionalItems");
    bool is_set = true;
    if (json_is_array(items)) {
        is_set = json_object_set(schema, "prefixItems", items) == 0;
        if (additional)
            is_set = is_set && json_object_set(schema, "items", additional) == 0;
        else
            json_object_del(schema, "items");
    }
    json_object_del(schema, "additionalItems");
    return is_set;
}

/* Draft 3's: a property says itself that it must be there. */
static bool renew_required(json_t *schema) {
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *name;
    bool is_set = true;
    json_object_foreach(properties, name, property) {
        const json_t *required = json_object_get(property, "required");
        if (!json_is_boolean(required))
            continue;
        json_t *list = json_object_get(schema, "required");
        if (!json_is_array(list)) {
            list = json_array();
            is_set = is_set && json_object_set_new(schema, "required", list) == 0;
        }
        if (json_is_true(required))
            is_set = is_set && json_array_append_new(list, json_string(name)) == 0;
        json_object_del(property, "required");
    }
    return is_set;
}

static bool looks_around(const char *pattern) {
    return strstr(pattern, "(?=") || strstr(pattern, "(?!") || strstr(pattern, "(?<=") ||
           strstr(pattern, "(?<!");
}

static bool has_loose_pattern(const json_t *schema) {
    const char *pattern = json_string_value(json_object_get(schema, "pattern")),
               *format = json_string_value(json_object_get(schema, "format"));
    return pattern && format && looks_around(pattern) && lh_string_format_pattern(format);
}

static bool renew(json_t *schema) {
    drop_nulls(schema);
    json_object_del(schema, "uniqueItems");
    if (has_loose_pattern(schema))
        json_object_del(schema, "pattern");
    return renew_bound(schema, "exclusiveMinimum", "minimum") &&
           renew_bound(schema, "exclusiveMaximum", "maximum") && renew_items(schema) &&
           renew_required(schema);
}

/* ---- All of them ---- */

static bool renew_all(json_t *value, bool is_schema) {
    const char *name;
    json_t *inner;
    bool done = !is_schema || !json_is_object(value) || renew(value);
    for (size_t i = 0; done && i < json_array_size(value); i++)
        done = renew_all(json_array_get(value, i), true);
    json_object_foreach(value, name, inner) {
        if (done && !(is_schema && is_data(name)))
            done = renew_all(inner, !(is_schema && is_map(name)));
    }
    return done;
}

json_t *lh_schema_draft_renew(const json_t *schema) {
    json_t *copy = json_deep_copy(schema);
    if (copy && renew_all(copy, true))
        return copy;
    json_decref(copy);
    return NULL;
}

static bool is_loose(const json_t *value, bool is_schema) {
    const char *name;
    json_t *inner;
    bool loose = is_schema &&
                 (json_is_true(json_object_get(value, "uniqueItems")) || has_loose_pattern(value));
    for (size_t i = 0; !loose && i < json_array_size(value); i++)
        loose = is_loose(json_array_get(value, i), true);
    json_object_foreach((json_t *)value, name, inner) {
        if (!loose && !(is_schema && is_data(name)))
            loose = is_loose(inner, !(is_schema && is_map(name)));
    }
    return loose;
}

bool lh_schema_draft_is_loose(const json_t *schema) {
    return is_loose(schema, true);
}
