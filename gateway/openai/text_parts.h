/* Texts that come as lists of parts: [{"type": "text", "text": "..."}]. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/openai/body_reader.h"

/* Appends the texts of the list under `key`, a line break between two, as llama.cpp and vLLM do.
 * types: those of parts that are text, as of lh_body_choice. Parts that are anything else are
 * refused by name; nothing is ever fetched. */
void lh_openai_text_parts_join(const lh_body_reader *item, const char *key, const char *types,
                               lh_text_buffer *text);
