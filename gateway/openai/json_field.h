/* Typed fields of a JSON object, with the API's rules: null counts as absent, 1.0 is an integer,
 * "1" is none, and what is out of range is refused by name. Each getter leaves *value as it is
 * where the field is absent, and returns false with *error filled where it is wrong. `param` is the
 * name for the error, where it is not the key itself. Thread: any. */
#pragma once

#include "gateway/openai/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The value, or NULL where it is absent or null. */
json_t *lh_json_field(const json_t *object, const char *key);

bool lh_json_field_bool(const json_t *object, const char *key, const char *param, bool *value,
                        lh_openai_error *error);

/* *present (may be NULL) tells whether the field is there. */
bool lh_json_field_integer(const json_t *object, const char *key, int64_t low, int64_t high,
                           int64_t *value, bool *present, lh_openai_error *error);

/* low..high; low itself only where low_included. */
bool lh_json_field_number(const json_t *object, const char *key, double low, bool low_included,
                          double high, double *value, lh_openai_error *error);

/* At most so many characters; *value lives as long as the object. */
bool lh_json_field_text(const json_t *object, const char *key, size_t characters_max,
                        const char **value, lh_openai_error *error);

/* A text that is one of `choices`, separated by '|'. */
bool lh_json_field_choice(const json_t *object, const char *key, const char *choices,
                          const char **value, lh_openai_error *error);

/* Whether a value counts as an integer, and which. */
bool lh_json_integer(const json_t *value, int64_t *integer);
