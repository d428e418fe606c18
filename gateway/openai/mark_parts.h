/* A text with marks of a model in it, as a constraint takes it: a list of texts and token ids.
 * Thread: any. */
#pragma once

#include "gateway/text/tokenizer.h"

#include <jansson.h>

/* The caller's; NULL: no memory. */
json_t *lh_openai_mark_parts(const lh_tokenizer *tokenizer, const char *text);
