/* The body of POST /v1/chat/completions as plain data. Thread: any. */
#pragma once

#include "gateway/openai/parameters.h"
#include "gateway/text/chat_template.h"

typedef struct lh_openai_chat_request {
    json_t *body; /* what the rest points into */
    lh_openai_parameters parameters;
    lh_chat_message *messages; /* [message_count], developer shown as system */
    char **joined;             /* [message_count]: content put together from parts, or NULL */
    size_t message_count;
} lh_openai_chat_request;

/* Takes the parsed body. False: *error says what is wrong. Either way lh_openai_chat_request_reset
 * frees what it holds. */
bool lh_openai_chat_request_parse(json_t *body, const lh_openai_limits *limits,
                                  lh_openai_chat_request *request, lh_openai_error *error);
void lh_openai_chat_request_reset(lh_openai_chat_request *request);
