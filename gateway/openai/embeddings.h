/* POST /v1/embeddings as a dialect: its requests have prompts and generate nothing, and its answers
 * are what the hidden states of each prompt add up to, of length 1. Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_openai_embeddings;

/* For other dialects whose requests have the same inputs, under the field `key`. As `parse`; the
 * request has its endpoint and its body. */
bool lh_openai_embeddings_read(const lh_body_reader *body, const char *key,
                               const lh_openai_limits *limits, lh_openai_request *request);
/* A list of what a writer of lh_openai_embeddings has gathered, a list for each input; NULL: no
 * memory. */
json_t *lh_openai_embeddings_list(const void *writer);
