/* POST /api/embed and /api/embeddings as dialects: OpenAI's in Ollama's words. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_ollama_embed, lh_ollama_embeddings;
