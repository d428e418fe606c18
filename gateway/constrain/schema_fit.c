/* A validator of the keywords that are followed. */
#include "gateway/constrain/schema_fit.h"

#include "gateway/constrain/schema_name.h"
#include "gateway/constrain/schema_number.h"
#include "gateway/constrain/schema_string.h"

#include <math.h>
#include <string.h>

#define DEPTH_MAX 200

typedef struct check {
    const lh_schema_document *document;
    const json_t *source;
    size_t depth;
} check;

static bool fits(check *of, const json_t *schema, const json_t *value);

static unsigned type_of(const json_t *value) {
    double real = json_real_value(value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return LH_SCHEMA_OBJECT;
    case JSON_ARRAY:
        return LH_SCHEMA_ARRAY;
    case JSON_STRING:
        return LH_SCHEMA_STRING;
    case JSON_INTEGER:
        return LH_SCHEMA_INTEGER;
    case JSON_REAL:
        return real == floor(real) ? LH_SCHEMA_INTEGER : LH_SCHEMA_FRACTION;
    case JSON_NULL:
        return LH_SCHEMA_NULL;
    default:
        return LH_SCHEMA_BOOLEAN;
    }
}

/* As JSON Schema compares: 1 and 1.0 are equal. */
static bool is_equal(const json_t *a, const json_t *b) {
    const char *name;
    json_t *member;
    bool equal = true;
    if (json_is_number(a) && json_is_number(b))
        return lh_schema_numbers_are_equal(a, b);
    if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
        json_object_size(a) != json_object_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a) && equal; i++)
        equal = is_equal(json_array_get(a, i), json_array_get(b, i));
    json_object_foreach((json_t *)a, name, member) {
        const json_t *other = json_object_get(b, name);
        equal = equal && other && is_equal(member, other);
    }
    return equal && (json_is_array(a) || json_is_object(a) || json_equal(a, b));
}

static bool is_listed(const lh_schema_document *document, const json_t *list, const json_t *value) {
    bool found = false;
    if (!lh_schema_count_work(document, list, 4 * json_array_size(list)))
        return false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++)
        found = is_equal(json_array_get(list, i), value);
    return found;
}

static bool fits_any(check *of, const json_t *list, const json_t *value) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (fits(of, json_array_get(list, i), value))
            return true;
    return !list;
}

static bool fits_in_place(check *of, const json_t *schema, const json_t *value) {
    const lh_schema_document *document = of->document;
    const json_t *all = lh_schema_get_list(document, schema, "allOf");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!fits(of, json_array_get(all, i), value))
            return false;
    if (json_object_get(schema, "$ref")) {
        const json_t *target = lh_schema_resolve(document, schema);
        if (!target || !fits(of, target, value))
            return false;
    }
    return fits_any(of, lh_schema_get_list(document, schema, "anyOf"), value) &&
           fits_any(of, lh_schema_get_list(document, schema, "oneOf"), value);
}

static bool fits_array(check *of, const json_t *schema, const json_t *value) {
    const lh_schema_document *document = of->document;
    const json_t *first = lh_schema_get_list(document, schema, "prefixItems"),
                 *items = json_object_get(schema, "items"),
                 *contained = json_object_get(schema, "contains");
    size_t size = json_array_size(value), found = 0;
    if (size < lh_schema_get_count(document, schema, "minItems", 0) ||
        size > lh_schema_get_count(document, schema, "maxItems", UINT32_MAX))
        return false;
    for (size_t i = 0; i < size; i++) {
        const json_t *one = i < json_array_size(first) ? json_array_get(first, i) : items;
        if (one && !fits(of, one, json_array_get(value, i)))
            return false;
        found += contained && fits(of, contained, json_array_get(value, i));
    }
    return !contained || found >= lh_schema_get_count(document, schema, "minContains", 1);
}

static bool fits_object(check *of, const json_t *schema, const json_t *value) {
    const lh_schema_document *document = of->document;
    const json_t *properties = lh_schema_get_map(document, schema, "properties"),
                 *required = lh_schema_get_list(document, schema, "required"),
                 *others = json_object_get(schema, "additionalProperties");
    size_t size = json_object_size(value);
    const char *name;
    json_t *member;
    if (json_object_get(schema, "patternProperties"))
        lh_schema_refuse(document, schema, "patternProperties", LH_ERR_UNSUPPORTED,
                         "is not supported where values are named, by enum or const");
    if (size < lh_schema_get_count(document, schema, "minProperties", 0) ||
        size > lh_schema_get_count(document, schema, "maxProperties", UINT32_MAX))
        return false;
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *wanted = json_string_value(json_array_get(required, i));
        if (wanted && !json_object_get(value, wanted))
            return false;
    }
    json_object_foreach((json_t *)value, name, member) {
        if (!lh_schema_name_fits(document, schema, name))
            return false;
        const json_t *named = json_object_get(properties, name), *one = named ? named : others;
        if (one && !fits(of, one, member))
            return false;
    }
    return true;
}

static bool fits_type(check *of, const json_t *schema, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return fits_object(of, schema, value);
    case JSON_ARRAY:
        return fits_array(of, schema, value);
    case JSON_STRING:
        return lh_schema_string_fits(of->document, schema, value);
    case JSON_INTEGER:
    case JSON_REAL:
        return lh_schema_number_fits(of->document, schema, value);
    default:
        return true;
    }
}

static bool fits_keywords(check *of, const json_t *schema, const json_t *value) {
    const json_t *list = lh_schema_get_list(of->document, schema, "enum"),
                 *constant = json_object_get(schema, "const");
    return (lh_schema_get_types(of->document, schema) & type_of(value)) &&
           (!list || list == of->source || is_listed(of->document, list, value)) &&
           (!constant || is_equal(constant, value)) && fits_type(of, schema, value) &&
           fits_in_place(of, schema, value);
}

static bool fits(check *of, const json_t *schema, const json_t *value) {
    const lh_schema_document *document = of->document;
    if (json_is_boolean(schema) || !lh_schema_check_keywords(document, schema))
        return json_is_true(schema);
    if (of->depth == DEPTH_MAX)
        lh_schema_refuse(document, schema, NULL, LH_ERR_LIMIT,
                         "is looked at too often for the values of enum and const");
    of->depth++;
    bool done = lh_schema_count_work(document, schema, 100) && fits_keywords(of, schema, value);
    of->depth--;
    return done && lh_schema_document_is_good(document);
}

bool lh_schema_value_fits(const lh_schema_document *document, const lh_schema_list *all,
                          const json_t *source, const json_t *value) {
    check of = {.document = document, .source = source};
    for (size_t i = 0; i < all->count; i++)
        if (!fits(&of, all->schemas[i], value))
            return false;
    return true;
}
