/* The messages of a conversation, and as the values that a chat template takes. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct lh_chat_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* NULL: none, of an assistant that called tools */
    size_t content_length;
    const char *thought; /* reasoning_content of an assistant's; NULL: none */
    size_t thought_length;
    /* The API's list of an assistant's calls, checked: each has a function with a name, and
     * arguments that are text. NULL: none. */
    const json_t *tool_calls;
    const char *tool_call_id, *name; /* of a tool's; NULL: not told */
} lh_chat_message;

/* Templates differ in what they take of tools. */
typedef enum lh_chat_tools_form {
    LH_CHAT_TOOLS_OBJECTS, /* the arguments of calls as values: what transformers gives */
    LH_CHAT_TOOLS_TEXTS,   /* the arguments of calls as the text that the API has */
    LH_CHAT_TOOLS_WORDS,   /* no tools: all of it in words (tools/tool_prompt.h) */
    /* The same, and results are one message with what the user says behind them. */
    LH_CHAT_TOOLS_WORDS_IN_TURNS,
    LH_CHAT_TOOLS_WORDS_OF_USER /* the same, and the tools are told by the user: no system */
} lh_chat_tools_form;

/* Whether any of them calls a tool. */
bool lh_chat_messages_call_tools(const lh_chat_message *messages, size_t count);
/* *values: the list, which is the caller's. tools: where all is in words, told in the system
 * message; NULL: none. LH_ERR_NO_MEMORY. */
lh_status lh_chat_messages_json(const lh_chat_message *messages, size_t count, const json_t *tools,
                                lh_chat_tools_form form, json_t **values, lh_error *error);
