/* Names are found through a jansson object, which keeps their order, too. */
#include "gateway/constrain/schema_property.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

static void no_memory(const lh_schema_properties *of) {
    lh_grammar_fail(of->document->grammar, LH_ERR_NO_MEMORY, "no memory for a schema's properties");
}

/* The property of this name, which is added where it is not there. NULL: refused. */
static lh_schema_property *property_of(lh_schema_properties *of, const json_t *schema,
                                       const char *name) {
    const json_t *place = json_object_get(of->index, name);
    if (place)
        return &of->properties[json_integer_value(place)];
    if (of->count == LH_SCHEMA_PROPERTIES_MAX) {
        lh_schema_refuse(of->document, schema, "properties", LH_ERR_LIMIT,
                         "come to more than %u for one object", LH_SCHEMA_PROPERTIES_MAX);
        return NULL;
    }
    if (!lh_growing_array_reserve(&of->properties, &of->capacity, of->count + 1,
                                  sizeof *of->properties) ||
        json_object_set_new(of->index, name, json_integer((json_int_t)of->count))) {
        no_memory(of);
        return NULL;
    }
    of->properties[of->count] = (lh_schema_property){.name = name};
    return &of->properties[of->count++];
}

static void add_names(lh_schema_properties *of, const json_t *schema) {
    const json_t *properties = lh_schema_get_map(of->document, schema, "properties");
    const char *name;
    json_t *value;
    if (!lh_schema_count_work(of->document, schema, 20 * json_object_size(properties)))
        return;
    json_object_foreach((json_t *)properties, name, value) {
        if (!property_of(of, schema, name))
            return;
    }
}

static void add_required(lh_schema_properties *of, const json_t *schema) {
    const json_t *list = lh_schema_get_list(of->document, schema, "required");
    if (!lh_schema_count_work(of->document, schema, 20 * json_array_size(list)))
        return;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        lh_schema_property *property = name ? property_of(of, schema, name) : NULL;
        if (!name)
            lh_schema_refuse(of->document, schema, "required", LH_ERR_INVALID,
                             "must be a list of strings");
        if (!property)
            return;
        property->is_required = true;
    }
}

static void add_patterns(lh_schema_properties *of, const json_t *schema) {
    const json_t *patterns = lh_schema_get_map(of->document, schema, "patternProperties");
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)patterns, pattern, value) {
        if (of->pattern_count == LH_SCHEMA_PATTERNS_MAX) {
            lh_schema_refuse(of->document, schema, "patternProperties", LH_ERR_LIMIT,
                             "come to more than %u for one object", LH_SCHEMA_PATTERNS_MAX);
            return;
        }
        of->patterns[of->pattern_count] = pattern;
        of->pattern_schemas[of->pattern_count] = value;
        of->pattern_owners[of->pattern_count++] = schema;
    }
}

void lh_schema_properties_find(const lh_schema_document *document, const lh_schema_list *all,
                               lh_schema_properties *properties) {
    bool is_explicit = false, is_named = false;
    *properties = (lh_schema_properties){
        .document = document, .all = all, .most = LH_GRAMMAR_UNBOUNDED, .index = json_object()};
    if (!properties->index)
        no_memory(properties);
    for (size_t i = 0; i < all->count && lh_schema_document_is_good(document); i++) {
        const json_t *schema = all->schemas[i];
        uint32_t least = lh_schema_get_count(document, schema, "minProperties", 0),
                 most =
                     lh_schema_get_count(document, schema, "maxProperties", LH_GRAMMAR_UNBOUNDED);
        properties->least = least > properties->least ? least : properties->least;
        properties->most = most < properties->most ? most : properties->most;
        add_names(properties, schema);
        add_patterns(properties, schema);
        is_explicit |= json_object_get(schema, "additionalProperties") != NULL;
        is_named |= json_object_get(schema, "properties") != NULL ||
                    json_object_get(schema, "patternProperties") != NULL;
    }
    for (size_t i = 0; i < all->count && lh_schema_document_is_good(document); i++)
        add_required(properties, all->schemas[i]);
    properties->has_others = is_explicit || !is_named;
}

void lh_schema_properties_reset(lh_schema_properties *properties) {
    free(properties->properties);
    json_decref(properties->index);
    *properties = (lh_schema_properties){0};
}

static void add(const lh_schema_properties *of, lh_schema_list *list, const json_t *schema) {
    if (!lh_schema_list_add(list, schema))
        lh_schema_refuse(of->document, schema, NULL, LH_ERR_LIMIT,
                         "is one of more than %d schemas for one value", LH_SCHEMA_LIST_MAX);
}

lh_schema_list lh_schema_properties_of(const lh_schema_properties *properties, const char *name,
                                       uint32_t matched) {
    lh_schema_list list = {.count = 0};
    for (size_t i = 0; i < properties->all->count; i++) {
        const json_t *schema = properties->all->schemas[i],
                     *others = json_object_get(schema, "additionalProperties"),
                     *named =
                         name ? json_object_get(json_object_get(schema, "properties"), name) : NULL;
        bool is_mentioned = named;
        if (named)
            add(properties, &list, named);
        for (size_t p = 0; p < properties->pattern_count; p++)
            if ((matched >> p & 1) && properties->pattern_owners[p] == schema) {
                add(properties, &list, properties->pattern_schemas[p]);
                is_mentioned = true;
            }
        if (others && !is_mentioned)
            add(properties, &list, others);
    }
    return list;
}
