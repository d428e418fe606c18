/* How much a chat's answer is to be thought about, in the words of OpenAI and of its peers. Thread:
 * any. */
#pragma once

#include "gateway/openai/request.h"

/* reasoning_effort, or `reasoning`, `thinking`, `think` and `enable_thinking`: each of these can
 * say that no thought is wanted, which is the effort "none"; and that one is, which a template is
 * told, too. The request's list `made` is there, and its template_arguments are read. */
void lh_openai_reasoning_read(const lh_body_reader *body, lh_openai_request *request);
/* `think` alone, which Ollama has. */
void lh_openai_reasoning_read_think(const lh_body_reader *body, lh_openai_request *request);
/* Sets the effort "none". */
void lh_openai_reasoning_decline(const lh_body_reader *body, lh_openai_request *request);
/* `reasoning` alone, which Responses has, too: {effort, enabled}. */
void lh_openai_reasoning_read_object(const lh_body_reader *body, lh_openai_request *request);
