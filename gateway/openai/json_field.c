/* Getters. */
#include "gateway/openai/json_field.h"

#include "common/base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Doubles hold every integer up to here. */
#define EXACT_INTEGERS 9007199254740992.0

json_t *lh_json_field(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

bool lh_json_integer(const json_t *value, int64_t *integer) {
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

bool lh_json_field_bool(const json_t *object, const char *key, const char *param, bool *value,
                        lh_openai_error *error) {
    json_t *field = lh_json_field(object, key);
    if (!field)
        return true;
    if (!json_is_boolean(field))
        return lh_openai_refuse(error, param ? param : key, "invalid_type",
                                "'%s' must be true or false.", param ? param : key);
    *value = json_is_true(field);
    return true;
}

bool lh_json_field_integer(const json_t *object, const char *key, int64_t low, int64_t high,
                           int64_t *value, bool *present, lh_openai_error *error) {
    json_t *field = lh_json_field(object, key);
    if (present)
        *present = field;
    if (!field)
        return true;
    int64_t integer;
    if (!lh_json_integer(field, &integer))
        return lh_openai_refuse(error, key, "invalid_type", "'%s' must be an integer.", key);
    if (integer < low || integer > high)
        return lh_openai_refuse(error, key, "invalid_value",
                                "'%s' must be an integer from %" PRId64 " to %" PRId64
                                ", not %" PRId64 ".",
                                key, low, high, integer);
    *value = integer;
    return true;
}

bool lh_json_field_number(const json_t *object, const char *key, double low, bool low_included,
                          double high, double *value, lh_openai_error *error) {
    json_t *field = lh_json_field(object, key);
    if (!field)
        return true;
    if (!json_is_number(field))
        return lh_openai_refuse(error, key, "invalid_type", "'%s' must be a number.", key);
    double number = json_number_value(field);
    if (number < low || (number <= low && !low_included) || number > high)
        return lh_openai_refuse(error, key, "invalid_value",
                                "'%s' must be %s %g and at most %g, not %g.", key,
                                low_included ? "at least" : "above", low, high, number);
    *value = number;
    return true;
}

bool lh_json_field_text(const json_t *object, const char *key, size_t characters_max,
                        const char **value, lh_openai_error *error) {
    json_t *field = lh_json_field(object, key);
    if (!field)
        return true;
    if (!json_is_string(field))
        return lh_openai_refuse(error, key, "invalid_type", "'%s' must be a string.", key);
    if (lh_utf8_count(json_string_value(field), json_string_length(field)) > characters_max)
        return lh_openai_refuse(error, key, "string_above_max_length",
                                "'%s' may have at most %zu characters.", key, characters_max);
    *value = json_string_value(field);
    return true;
}

static bool is_one_of(const char *text, const char *choices) {
    size_t length = strlen(text);
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && memcmp(at, text, length) == 0)
            return true;
    return false;
}

bool lh_json_field_choice(const json_t *object, const char *key, const char *choices,
                          const char **value, lh_openai_error *error) {
    const char *text = NULL;
    if (!lh_json_field_text(object, key, SIZE_MAX, &text, error))
        return false;
    if (text && !is_one_of(text, choices))
        return lh_openai_refuse(error, key, "invalid_value", "'%s' must be one of %s.", key,
                                choices);
    if (text)
        *value = text;
    return true;
}
