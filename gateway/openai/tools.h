/* What a request says of tools: the list, which of them may be called, and the calls and results in
 * a chat's messages. Thread: any. */
#pragma once

#include "gateway/openai/body_reader.h"
#include "gateway/text/chat_messages.h"
#include "gateway/text/tools/tool_call_parser.h"

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
    bool has_one_call; /* at most */
    /* The request's, of those that the client knows by more than their names in the list: {NAME:
     * {"type": "custom" or "function", "name", "namespace", "grammar"}}. NULL: none. What is custom
     * has one text, "input", which is of the grammar where one is there ({"syntax",
     * "definition"}). */
    const json_t *kinds;
} lh_openai_tools;

#define LH_OPENAI_TOOL_NAME_BYTES (LH_TOOL_NAME_BYTES_MAX + 1u)
/* The name in the list of a tool that is in a namespace, or in none (NULL). False: it has no room.
 */
bool lh_openai_tool_flat_name(const char *space, const char *name,
                              char flat[LH_OPENAI_TOOL_NAME_BYTES]);

#define LH_OPENAI_CALL_ID_CHARACTERS_MAX 256u

/* How a dialect says what a tool is. */
typedef struct lh_openai_tool_words {
    const char *list;       /* the request's member; NULL: "tools" */
    const char *inside;     /* the tool's member that is the function; NULL: the tool is */
    const char *parameters; /* the function's schema */
    const char *type;       /* of functions */
    bool may_lack_type;
} lh_openai_tool_words;

/* The list `tools`, checked, as chat has it: the body's own, or put into `made`, a list that
 * outlives it. Tools of other types are left out; custom ones (custom_tool.h) are not where there
 * is an object `kinds`, which tells of them as lh_openai_tools.kinds. NULL: there is none, or it is
 * refused. */
const json_t *lh_openai_tools_read(const lh_body_reader *body, const lh_openai_tool_words *words,
                                   json_t *made, json_t *kinds);
/* Which of them may be called, as `tool_choice` has said; name: of LH_TOOL_CHOICE_NAMED. */
void lh_openai_tools_choose(const lh_body_reader *body, const json_t *list,
                            lh_openai_tool_choice choice, const char *name, lh_openai_tools *tools);
/* parallel_tool_calls, once the choice is known: who names a function and says nothing else wants
 * one call of it, as clients that read a single result do. */
void lh_openai_tools_read_parallel(const lh_body_reader *body, lh_openai_tools *tools);
/* The name of a function: 1 to LH_TOOL_NAME_BYTES_MAX bytes without control characters. NULL:
 * refused. */
const char *lh_openai_tool_name(const lh_body_reader *function);
/* The arguments of a call in the history, a text of JSON; "{}" where there are none, or nothing but
 * white space. NULL: refused. */
const char *lh_openai_tool_arguments(const lh_body_reader *function);

/* Reads tool_calls, tool_call_id and name of a message, whose role is known. */
void lh_openai_tools_parse_message(const lh_body_reader *message, lh_chat_message *out);
