/* `tool_choice`, in every way in which clients write it: a word, or an object whose type is a word,
 * a function, a tool of one's own, or a list of those that may be called. Thread: any. */
#pragma once

#include "gateway/openai/tools.h"

/* Which tools of the list may be called, and which must be. made: a list that outlives it, where
 * the tools that may be called become a list of their own. What names no tool of the list, or a
 * kind of tool that this server does not have, is refused. */
void lh_openai_tool_choice_read(const lh_body_reader *body, const json_t *list, json_t *made,
                                lh_openai_tools *tools);
