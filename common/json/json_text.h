/* JSON out: strings of any bytes, and objects into a buffer. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"

#include <jansson.h>

/* A JSON string; what is not UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *lh_json_text(const char *bytes, size_t length);

/* Appends the value as compact JSON and releases it; floats keep what tells them apart.
 * LH_ERR_NO_MEMORY: also where the value is NULL, so that a builder's failure may be handed on. */
lh_status lh_json_render(json_t *value, lh_text_buffer *out);
