/* Tools for a model whose template knows none: they are told in words, called in the generic format
 * (tool_format.h), and what they give comes as the user's. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <jansson.h>

/* Appends what the system message says of the tools (the API's list). LH_ERR_NO_MEMORY. */
lh_status lh_tool_prompt_tools(const json_t *tools, lh_text_buffer *text, lh_error *error);
/* Appends an assistant's calls (the API's list, checked) as it would have written them.
 * LH_ERR_NO_MEMORY. */
lh_status lh_tool_prompt_calls(const json_t *calls, lh_text_buffer *text, lh_error *error);
/* Appends what a tool gave. LH_ERR_NO_MEMORY. */
lh_status lh_tool_prompt_result(const char *content, size_t length, lh_text_buffer *text,
                                lh_error *error);
