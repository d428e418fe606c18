/* What Ollama's routes tell of the model that is served. Thread: any. */
#pragma once

#include "gateway/openai/dialect.h"

/* As lh_openai_ollama has it. */
json_t *lh_ollama_tell(lh_openai_action action, const lh_served_model *model,
                       const lh_openai_limits *limits, bool is_ready, const json_t *body,
                       lh_openai_error *error);
