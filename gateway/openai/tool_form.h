/* The form of an answer that must call tools: in the words of the model's own format, with
 * arguments that satisfy the tools' schemas. Thread: any. */
#pragma once

#include "gateway/openai/tools.h"
#include "gateway/text/tokenizer.h"
#include "gateway/text/tools/tool_format.h"

/* What LH_CONSTRAINT_CALLS takes, which is the caller's; NULL: no memory. tools: one is to be
 * called (required or named), and its list is still there. */
json_t *lh_openai_tool_form(const lh_openai_tools *tools, const lh_tool_format *format,
                            const lh_tokenizer *tokenizer);
