/* What a chat request says of tools: the list, which of them may be called, and the calls and
 * results in its messages. Thread: any. */
#pragma once

#include "gateway/openai/body_reader.h"
#include "gateway/text/chat_messages.h"

typedef enum lh_openai_tool_choice {
    LH_TOOL_CHOICE_NONE, /* also where there are no tools */
    LH_TOOL_CHOICE_AUTO,
    LH_TOOL_CHOICE_REQUIRED, /* at least one of them is called */
    LH_TOOL_CHOICE_NAMED     /* this one is */
} lh_openai_tool_choice;

typedef struct lh_openai_tools {
    const json_t *list; /* of the body, checked; NULL: none may be called */
    lh_openai_tool_choice choice;
    const char *name;  /* of LH_TOOL_CHOICE_NAMED */
    bool has_one_call; /* parallel_tool_calls is false */
} lh_openai_tools;

/* Reads tools, tool_choice, parallel_tool_calls, and their elder names functions and
 * function_call, which are refused. */
void lh_openai_tools_parse(const lh_body_reader *body, lh_openai_tools *tools);
/* Reads tool_calls, tool_call_id and name of a message, whose role is known. */
void lh_openai_tools_parse_message(const lh_body_reader *message, lh_chat_message *out);
