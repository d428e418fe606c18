/* OpenAI's chat completions and completions as dialects. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_openai_chat, lh_openai_completions;
