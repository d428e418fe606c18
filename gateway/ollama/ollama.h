/* Ollama's API as dialects (gateway/openai/dialect.h), and what its other routes tell. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_ollama lh_ollama;
