/* Getters over jansson. */
#include "gateway/openai/body_reader.h"

#include "common/base/utf8.h"
#include "common/json/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Doubles hold every integer up to here. */
#define EXACT_INTEGERS 9007199254740992.0

/* ---- Sketches. ---- */

/* Member `key` of a sketch, which is made; NULL: no memory. */
static json_t *member_of(json_t *sketch, const char *key, json_t *otherwise) {
    json_t *member = json_object_get(sketch, key);
    if (member)
        json_decref(otherwise);
    else if (json_object_set_new(sketch, key, otherwise) == 0)
        member = otherwise;
    return member;
}

void lh_body_draw(const lh_body_reader *body, const char *key, json_t *schema) {
    json_t *properties = body->sketch ? member_of(body->sketch, "properties", json_object()) : NULL;
    json_t *drawn = json_object_get(properties, key);
    bool is_whole = schema && properties;
    if (is_whole && json_object_size(drawn) == 0)
        is_whole = json_object_set(properties, key, schema) == 0;
    json_decref(schema);
    if (body->sketch && !is_whole)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
}

/* So that null, which counts as absent, is none of its types. */
static void draw_required(const lh_body_reader *body, const char *key) {
    json_t *properties = json_object_get(body->sketch, "properties");
    json_t *types = json_object_get(json_object_get(properties, key), "type");
    if (json_array_size(types) > 1)
        json_array_remove(types, json_array_size(types) - 1);
    json_t *required = member_of(body->sketch, "required", json_array());
    if (!required || json_array_append_new(required, json_string(key)))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
}

/* Types, or values, that are separated by '|', and null. */
static json_t *list_of(const char *words) {
    json_t *list = json_array();
    for (const char *at = words; *at; at += strcspn(at, "|"), at += *at == '|')
        list = lh_json_append(list, json_stringn(at, strcspn(at, "|")));
    return list;
}

static json_t *types_json(const char *types) {
    return json_pack("{s:o}", "type", lh_json_append(list_of(types), json_string("null")));
}

static void draw_type(const lh_body_reader *body, const char *key, const char *types) {
    if (body->sketch)
        lh_body_draw(body, key, types_json(types));
}

static void draw_text(const lh_body_reader *body, const char *key, size_t characters_max) {
    if (!body->sketch)
        return;
    json_t *schema = types_json("string");
    if (characters_max <= INT64_MAX)
        schema = lh_json_set(schema, "maxLength", json_integer((json_int_t)characters_max));
    lh_body_draw(body, key, schema);
}

static void draw_choice(const lh_body_reader *body, const char *key, const char *choices) {
    if (body->sketch)
        lh_body_draw(body, key,
                     json_pack("{s:o}", "enum", lh_json_append(list_of(choices), json_null())));
}

static void draw_range(const lh_body_reader *body, const char *key, const char *type, json_t *low,
                       const char *low_word, json_t *high) {
    json_t *schema = types_json(type);
    schema = lh_json_set(schema, low_word, low);
    schema = lh_json_set(schema, "maximum", high);
    lh_body_draw(body, key, schema);
}

/* ---- Fields. ---- */

void lh_body_refuse(const lh_body_reader *body, const char *key, const char *code,
                    const char *format, ...) {
    lh_openai_error *error = body->error;
    char param[sizeof error->param], text[sizeof error->message];
    if (body->sketch && code && strcmp(code, "missing_required_parameter") == 0)
        draw_required(body, key);
    if (error->status)
        return;
    snprintf(param, sizeof param, "%s%s", body->path, key);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lh_openai_refuse(error, 400, param, code, "'%s' %s", param, text);
}

/* "messages[3].content[0]" as "messages[].content[]". */
static void drop_indexes(char *name) {
    char *to = name;
    for (const char *from = name; *from;) {
        *to++ = *from;
        if (*from++ == '[')
            from += strspn(from, "0123456789");
    }
    *to = '\0';
}

void lh_body_leave_out(const lh_body_reader *body, const char *key, const char *type) {
    char name[LH_BODY_PATH_BYTES + 48];
    if (body->sketch)
        return;
    snprintf(name, sizeof name, "%s%.47s", body->path, key);
    drop_indexes(name);
    if (type)
        lh_left_out_note(body->left_out, "%s of type %.40s", name, type);
    else
        lh_left_out_note(body->left_out, "%s", name);
}

json_t *lh_body_field(const lh_body_reader *body, const char *key) {
    if (body->sketch)
        lh_body_draw(body, key, json_object());
    json_t *value = body->error->status ? NULL : json_object_get(body->object, key);
    return json_is_null(value) ? NULL : value;
}

json_t *lh_body_object(const lh_body_reader *body, const char *key) {
    return lh_body_typed(body, key, "object", "an object");
}

lh_body_reader lh_body_inside(const lh_body_reader *body, const char *key, const char *path) {
    const json_t *object = lh_body_object(body, key);
    return (lh_body_reader){object, path, body->error,
                            json_object_get(json_object_get(body->sketch, "properties"), key),
                            body->left_out};
}

lh_body_reader lh_body_items(const lh_body_reader *body, const char *key) {
    json_t *list = json_object_get(json_object_get(body->sketch, "properties"), key);
    json_t *items = list ? member_of(list, "items", json_pack("{s:s}", "type", "object")) : NULL;
    if (list && !items)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    return (lh_body_reader){NULL, "", body->error, items, NULL};
}

static const char *type_of(const json_t *value) {
    return json_is_object(value)    ? "object"
           : json_is_array(value)   ? "array"
           : json_is_string(value)  ? "string"
           : json_is_boolean(value) ? "boolean"
                                    : "number";
}

json_t *lh_body_typed(const lh_body_reader *body, const char *key, const char *types,
                      const char *words) {
    draw_type(body, key, types);
    json_t *value = lh_body_field(body, key);
    if (!value || lh_body_is_one_of(type_of(value), types))
        return value;
    lh_body_refuse(body, key, "invalid_type", "must be %s.", words);
    return NULL;
}

bool lh_body_element(const lh_body_reader *body, const char *key, size_t index, const json_t *value,
                     char path[LH_BODY_PATH_BYTES], lh_body_reader *element) {
    char name[32];
    snprintf(name, sizeof name, "%s[%zu]", key, index);
    snprintf(path, LH_BODY_PATH_BYTES, "%s%s.", body->path, name);
    *element = (lh_body_reader){value, path, body->error, NULL, body->left_out};
    if (!json_is_object(value))
        lh_body_refuse(body, name, "invalid_type", "must be an object.");
    return json_is_object(value);
}

const char *lh_body_text(const lh_body_reader *body, const char *key, size_t characters_max) {
    draw_text(body, key, characters_max);
    const json_t *value = lh_body_field(body, key);
    if (!value)
        return NULL;
    if (!json_is_string(value))
        lh_body_refuse(body, key, "invalid_type", "must be a string.");
    else if (lh_utf8_count(json_string_value(value), json_string_length(value)) > characters_max)
        lh_body_refuse(body, key, "string_above_max_length", "may have at most %zu characters.",
                       characters_max);
    return body->error->status ? NULL : json_string_value(value);
}

bool lh_body_is_one_of(const char *text, const char *choices) {
    size_t length = strlen(text);
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && memcmp(at, text, length) == 0)
            return true;
    return false;
}

const char *lh_body_choice(const lh_body_reader *body, const char *key, const char *choices) {
    draw_choice(body, key, choices);
    const char *text = lh_body_text(body, key, SIZE_MAX);
    if (!text || lh_body_is_one_of(text, choices))
        return text;
    lh_body_refuse(body, key, "invalid_value", "must be one of %s.", choices);
    return NULL;
}

bool lh_body_bool(const lh_body_reader *body, const char *key) {
    draw_type(body, key, "boolean");
    const json_t *value = lh_body_field(body, key);
    if (value && !json_is_boolean(value))
        lh_body_refuse(body, key, "invalid_type", "must be true or false.");
    return json_is_true(value);
}

bool lh_body_bool_or(const lh_body_reader *body, const char *key, bool otherwise) {
    draw_type(body, key, "boolean");
    return lh_body_field(body, key) ? lh_body_bool(body, key) : otherwise;
}

static bool is_integer(const json_t *value, int64_t *integer) {
    if (json_is_integer(value)) {
        *integer = json_integer_value(value);
        return true;
    }
    double real = json_is_real(value) ? json_real_value(value) : 0.5;
    if (floor(real) != real || fabs(real) > EXACT_INTEGERS)
        return false;
    *integer = (int64_t)real;
    return true;
}

int64_t lh_body_integer(const lh_body_reader *body, const char *key, int64_t low, int64_t high,
                        int64_t otherwise) {
    if (body->sketch)
        draw_range(body, key, "integer", json_integer(low), "minimum", json_integer(high));
    const json_t *value = lh_body_field(body, key);
    int64_t integer;
    if (!value)
        return otherwise;
    if (!is_integer(value, &integer))
        lh_body_refuse(body, key, "invalid_type", "must be an integer.");
    else if (integer < low || integer > high)
        lh_body_refuse(body, key, "invalid_value",
                       "must be an integer from %" PRId64 " to %" PRId64 ", not %" PRId64 ".", low,
                       high, integer);
    return body->error->status ? otherwise : integer;
}

double lh_body_number(const lh_body_reader *body, const char *key, double low, bool low_included,
                      double high, double otherwise) {
    if (body->sketch)
        draw_range(body, key, "number", json_real(low),
                   low_included ? "minimum" : "exclusiveMinimum", json_real(high));
    const json_t *value = lh_body_field(body, key);
    double number = json_number_value(value);
    if (!value)
        return otherwise;
    if (!json_is_number(value))
        lh_body_refuse(body, key, "invalid_type", "must be a number.");
    else if (number < low || (number <= low && !low_included) || number > high)
        lh_body_refuse(body, key, "invalid_value", "must be %s %g and at most %g, not %g.",
                       low_included ? "at least" : "above", low, high, number);
    return body->error->status ? otherwise : number;
}

uint32_t lh_body_token(const lh_body_reader *body, const char *key, const json_t *list,
                       size_t index, uint32_t vocabulary) {
    int64_t integer = 0;
    char element[96];
    bool is_whole = is_integer(json_array_get(list, index), &integer);
    if (is_whole && integer >= 0 && integer < vocabulary)
        return body->error->status ? 0 : (uint32_t)integer;
    snprintf(element, sizeof element, "%.64s[%zu]", key, index);
    if (is_whole)
        lh_body_refuse(body, element, "invalid_value",
                       "is %" PRId64 ", which is not a token id of this model (0 to %u).", integer,
                       vocabulary - 1);
    else
        lh_body_refuse(body, element, "invalid_type", "must be a token id.");
    return 0;
}
