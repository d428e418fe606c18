/* The body of POST /v1/responses: its items become the messages of a conversation. Thread: any. */
#pragma once

#include "gateway/openai/request.h"

/* As lh_openai_request_parse; endpoint: LH_OPENAI_RESPONSES. `told` is what every object of the
 * answer repeats of its request. */
bool lh_responses_request_parse(json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_request *request,
                                lh_openai_error *error);
