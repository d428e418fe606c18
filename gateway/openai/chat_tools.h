/* What a chat says of tools, also in its elder words: functions, function_call and messages of the
 * role function are tools, calls and results. Thread: any. */
#pragma once

#include "gateway/openai/request.h"

/* tools, tool_choice and parallel_tool_calls; or functions and function_call, whose one call the
 * answer then tells in these words, too. The request's list `made` is there. */
void lh_openai_chat_tools_read(const lh_body_reader *body, lh_openai_request *request);
/* Of a message, whose role is known: tool_calls, or function_call; tool_call_id and name. made: as
 * the request's; NULL: nothing is kept. */
void lh_openai_chat_calls_read(const lh_body_reader *message, json_t *made, lh_chat_message *out);
