/* JSON out: strings of any bytes, values put together, and objects into a buffer. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"

#include <jansson.h>

/* A JSON string; what is not UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *lh_json_text(const char *bytes, size_t length);

/* The list with one more value, the object with one more member. NULL, and both are released: there
 * is no memory, or either is NULL, so that only the last of a row need be looked at. */
json_t *lh_json_append(json_t *list, json_t *value);
json_t *lh_json_set(json_t *object, const char *key, json_t *value);

/* Appends the value as compact JSON and releases it; floats keep what tells them apart.
 * LH_ERR_NO_MEMORY: also where the value is NULL, so that a builder's failure may be handed on. */
lh_status lh_json_render(json_t *value, lh_text_buffer *out);
