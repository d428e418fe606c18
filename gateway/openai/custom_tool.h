/* Custom tools, which take one text where functions take an object: to the model each is a function
 * with one text, "input". Thread: any. */
#pragma once

#include "gateway/openai/body_reader.h"

/* The function that stands for the tool, of the name `flat`. *kind, what else is known of it
 * (lh_openai_tools.kinds), gets the grammar of its text where there is one. NULL: it is refused, or
 * there is no memory, which fills the error; *kind stays the caller's. */
json_t *lh_openai_custom_tool(const lh_body_reader *tool, const char *flat, json_t **kind);
/* Whether the tool that the model knows by this name is one; kinds may be NULL. */
bool lh_openai_custom_is(const json_t *kinds, const char *name);

/* The arguments of a custom tool's call: {"input": TEXT} as JSON. NULL: no memory. */
json_t *lh_openai_custom_arguments(const char *input, size_t length);
/* The text of such arguments, also where they were cut, as a JSON string; NULL: no memory. */
json_t *lh_openai_custom_input(const char *arguments, size_t length);
