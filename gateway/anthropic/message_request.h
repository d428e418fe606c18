/* The body of POST /v1/messages, and of /v1/messages/count_tokens: its content blocks become the
 * messages of a conversation. Thread: any. */
#pragma once

#include "gateway/openai/request.h"

/* As lh_openai_request_parse; endpoint: LH_OPENAI_MESSAGES. */
bool lh_anthropic_request_parse(json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_request *request,
                                lh_openai_error *error);
