/* Texts that come as lists of parts: [{"type": "text", "text": "..."}]. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/openai/body_reader.h"

/* What no model here can see or hear. Where these types are among those that are taken, a few words
 * stand for such a part, so that a conversation that had one goes on. */
#define LH_OPENAI_MEDIA_PARTS                                                                      \
    "input_image|image_url|image|input_file|file|document|input_audio|audio|video_url|computer_"   \
    "screenshot"

/* Appends the texts of the list under `key`, a line break between two, as llama.cpp and vLLM do.
 * types: those of parts that are text, as of lh_body_choice. Parts that are anything else are
 * refused by name; nothing is ever fetched. */
void lh_openai_text_parts_join(const lh_body_reader *item, const char *key, const char *types,
                               lh_text_buffer *text);
