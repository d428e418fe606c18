/* Texts that come as lists of parts: [{"type": "text", "text": "..."}]. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/openai/body_reader.h"

typedef enum lh_openai_part {
    LH_OPENAI_PART_UNKNOWN, /* so it is refused by its type, unless it has been already */
    LH_OPENAI_PART_TAKEN,   /* its text was appended */
    LH_OPENAI_PART_LEFT_OUT /* there is nothing of it */
} lh_openai_part;

/* What becomes of a part that is no text by its type. key: the part's name in the list's object,
 * "content[2]", for what it refuses or leaves out. */
typedef lh_openai_part (*lh_openai_part_reader)(const lh_body_reader *item, const char *key,
                                                const char *type, const json_t *part,
                                                lh_text_buffer *text);

typedef struct lh_openai_part_rules {
    const char *types;           /* of parts that are text, as of lh_body_choice */
    lh_openai_part_reader other; /* of any other part; NULL: it is refused */
    size_t first;                /* that is looked at: those before it are left out */
} lh_openai_part_rules;

/* Appends the texts of the list under `key`, a line break between two, as llama.cpp and vLLM do.
 * Parts that are no text are refused by name, or as the rules say; nothing is ever fetched. */
void lh_openai_text_parts_join(const lh_body_reader *item, const char *key,
                               const lh_openai_part_rules *rules, lh_text_buffer *text);
/* A part of what a tool has given that is no text: a mark stands for it, so that the model knows
 * that it cannot see it, and the session goes on. */
lh_openai_part lh_openai_result_part(const lh_body_reader *item, const char *key, const char *type,
                                     const json_t *part, lh_text_buffer *text);
