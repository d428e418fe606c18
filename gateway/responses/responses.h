/* OpenAI's Responses API as a dialect (gateway/openai/dialect.h), stateless: nothing is stored, so
 * that a conversation comes whole each time. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_responses;
