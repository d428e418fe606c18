/* The form of an answer that must call tools, or may, and then as their schemas say: in the words
 * of the model's own format. Thread: any. */
#pragma once

#include "gateway/constrain/constraint_source.h"
#include "gateway/openai/tools.h"
#include "gateway/text/tokenizer.h"
#include "gateway/text/tools/tool_format.h"

/* Whether calls have a form: one is forced, or one of the tools is strict or has a grammar. */
bool lh_openai_tools_have_form(const lh_openai_tools *tools);
/* What LH_CONSTRAINT_CALLS takes, which is the caller's; NULL: no memory. Of tools that are neither
 * forced nor strict, and have no grammar, any arguments are taken. other: what the answer is where
 * nothing is called, behind the text other_begin; NULL: text. The list of the tools is still there.
 */
json_t *lh_openai_tool_form(const lh_openai_tools *tools, const lh_tool_format *format,
                            const lh_tokenizer *tokenizer, const lh_constraint_source *other,
                            const char *other_begin);
