/* POST /v1/embeddings as a dialect: its requests have prompts and generate nothing, and its answers
 * are what the hidden states of each prompt add up to, of length 1. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_openai_embeddings;
