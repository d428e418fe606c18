/* POST /api/chat and /api/generate as dialects. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_ollama_chat, lh_ollama_generate;
