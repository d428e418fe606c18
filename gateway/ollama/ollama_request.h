/* The bodies of POST /api/chat and /api/generate. As lh_openai_request_parse. Where there is
 * nothing to answer, which is how Ollama's clients have a model loaded, the request has its reply.
 * Thread: any. */
#pragma once

#include "gateway/openai/request.h"

bool lh_ollama_chat_parse(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                          lh_openai_request *request, lh_openai_error *error);
/* The prompt becomes a conversation, but where `raw` is true or a suffix is given. */
bool lh_ollama_generate_parse(json_t *body, lh_openai_endpoint endpoint,
                              const lh_openai_limits *limits, lh_openai_request *request,
                              lh_openai_error *error);
