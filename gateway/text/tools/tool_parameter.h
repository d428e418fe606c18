/* Parameters of a call that is written without JSON, each between marks of its own: a text as it
 * is, anything else as JSON. Which it is the function's schema says. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Of chat's `tools` (NULL: not known): the schema of a function's parameter; NULL: there is none.
 */
const json_t *lh_tool_parameter_find(const json_t *tools, const char *function, const char *key,
                                     size_t key_length);
/* Whether a value of it can only be a text, or null. NULL: false. */
bool lh_tool_parameter_is_text(const json_t *schema);
/* Appends the value that was written so as JSON: what is no JSON is a text; Python's words for
 * true, false and null are taken, too. LH_ERR_NO_MEMORY. */
lh_status lh_tool_parameter_render(const json_t *schema, const char *written, size_t length,
                                   lh_text_buffer *json, lh_error *error);
/* Appends the bytes as a JSON string; what is not UTF-8 becomes U+FFFD. LH_ERR_NO_MEMORY. */
lh_status lh_tool_parameter_quote(const char *bytes, size_t length, lh_text_buffer *json,
                                  lh_error *error);
