/* Tools in the API's words as chat's functions, which is what models know: functions, also those in
 * namespaces, and custom tools, which take one text. What OpenAI would run itself is left out.
 * Thread: any. */
#pragma once

#include "gateway/openai/request.h"

/* tools, tool_choice, parallel_tool_calls, and the tools that the input adds. Fills the request's
 * tools and tool_kinds; its list `made` is there. */
void lh_response_tools_read(const lh_body_reader *body, lh_openai_request *request);
