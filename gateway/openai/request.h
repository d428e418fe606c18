/* The body of POST /v1/chat/completions or /v1/completions as plain data. Thread: any. */
#pragma once

#include "gateway/openai/parameters.h"
#include "gateway/text/chat_template.h"

/* One prompt of completions: text, or token ids. */
typedef struct lh_openai_prompt {
    const char *text; /* NULL: tokens */
    size_t length;
    uint32_t *tokens; /* malloc'd */
    size_t token_count;
} lh_openai_prompt;

typedef struct lh_openai_request {
    lh_openai_endpoint endpoint;
    json_t *body; /* what the rest points into */
    lh_openai_parameters parameters;
    /* Chat. */
    lh_chat_message *messages; /* [message_count], developer shown as system */
    char **joined;             /* [message_count]: content put together from parts, or NULL */
    size_t message_count;
    /* Completions. */
    lh_openai_prompt *prompts; /* [prompt_count] */
    size_t prompt_count;
    bool echo;
} lh_openai_request;

/* Takes the parsed body. False: *error says what is wrong. Either way lh_openai_request_reset frees
 * what it holds. */
bool lh_openai_request_parse(json_t *body, lh_openai_endpoint endpoint,
                             const lh_openai_limits *limits, lh_openai_request *request,
                             lh_openai_error *error);
void lh_openai_request_reset(lh_openai_request *request);
