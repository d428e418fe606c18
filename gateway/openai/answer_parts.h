/* An answer as a row of parts, each of one kind: what the model thinks, what it says, and its calls
 * of tools, in the order in which they come. Pieces go in; what begins, grows and ends is told, as
 * dialects with a list of items or blocks have it. Thread: its owner's. */
#pragma once

#include "gateway/openai/choice.h"

typedef enum lh_answer_part_kind {
    LH_ANSWER_THOUGHT,
    LH_ANSWER_TEXT,
    LH_ANSWER_CALL
} lh_answer_part_kind;

typedef struct lh_answer_part {
    lh_answer_part_kind kind;
    char id[LH_RANDOM_ID_BYTES];           /* of a call */
    char name[LH_TOOL_NAME_BYTES_MAX + 1]; /* of the tool that it calls */
    lh_text_buffer text;                   /* so far; of a call its arguments */
} lh_answer_part;

/* Each part begins, grows and ends before the next one begins; index: its place in the row. What
 * they return ends the taking of a piece. NULL functions are not called. */
typedef struct lh_answer_part_listener {
    lh_status (*begin)(void *context, size_t index);
    lh_status (*grow)(void *context, size_t index, const char *bytes, size_t length,
                      const lh_generation_piece *piece);
    lh_status (*end)(void *context, size_t index);
    void *context;
} lh_answer_part_listener;

typedef struct lh_answer_parts {
    lh_answer_part_listener listener;
    lh_answer_part *parts; /* [count] */
    size_t count, capacity;
    bool is_open; /* the last one goes on */
} lh_answer_parts;

/* {0} with a listener is an empty row. */
void lh_answer_parts_reset(lh_answer_parts *parts);
/* Of one choice. LH_ERR_NO_MEMORY, or what the listener returned. */
lh_status lh_answer_parts_take(lh_answer_parts *parts, const lh_generation_piece *piece);
/* Begins a part of text, where there is none at all, and ends the last one. Fails as _take. */
lh_status lh_answer_parts_end(lh_answer_parts *parts, bool needs_text);
