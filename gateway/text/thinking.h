/* Models that think before they answer put marks around it: "<think>" ... "</think>". Which marks a
 * model uses stands in its chat template; a splitter tells the two apart in the text that it
 * generates. Thread: a splitter's is its owner's; the rest any. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "gateway/text/channels.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_thinking_marks {
    const char *open, *close;
    bool are_channels; /* the answer has marks of its own (channels.h) */
} lh_thinking_marks;

/* Of the pairs that are known, the one whose end stands in the template: some have the beginning
 * drawn by the model. Of channels it is the beginning, for their end is others', too. NULL: none
 * does. Static storage. */
const lh_thinking_marks *lh_thinking_marks_find(const char *chat_template, size_t length);
/* Whether a token of this name is one of the marks. marks NULL: false. */
bool lh_thinking_is_mark(const lh_thinking_marks *marks, const char *name, size_t length);
/* Whether the text ends with the opening mark, but for white space: what is generated behind it
 * begins inside. marks NULL: false. */
bool lh_thinking_is_opened(const lh_thinking_marks *marks, const char *text, size_t length);
/* Whether the last opening mark in the text has no closing one behind it. marks NULL: false. */
bool lh_thinking_is_open(const lh_thinking_marks *marks, const char *text, size_t length);

typedef enum lh_thinking_stage {
    LH_THINKING_BEGIN,   /* white space, or a part of the opening mark: it may still begin */
    LH_THINKING_THOUGHT, /* between the marks */
    LH_THINKING_TURN,    /* white space behind the closing mark, which is nobody's */
    LH_THINKING_ANSWER
} lh_thinking_stage;

/* The text of one choice. White space beside the marks belongs to neither part. */
typedef struct lh_thinking_splitter {
    const lh_thinking_marks *marks; /* NULL: all is the answer */
    lh_thinking_stage stage;
    bool has_thought;    /* some of the thought's text has come */
    lh_text_buffer held; /* not given out: it may become a mark, or white space beside one */
    lh_channel_splitter channels; /* where the marks are such: instead of all that */
} lh_thinking_splitter;

/* is_open: the prompt has ended inside. Zeroed first; _reset frees it. */
void lh_thinking_splitter_init(lh_thinking_splitter *splitter, const lh_thinking_marks *marks,
                               bool is_open);
void lh_thinking_splitter_reset(lh_thinking_splitter *splitter);
/* Whether what comes now is a thought, for all that is known. */
bool lh_thinking_splitter_is_inside(const lh_thinking_splitter *splitter);
/* Appends what is known of the text so far to the one or the other. LH_ERR_NO_MEMORY. */
lh_status lh_thinking_splitter_push(lh_thinking_splitter *splitter, const char *text, size_t length,
                                    lh_text_buffer *thought, lh_text_buffer *answer,
                                    lh_error *error);
/* No more comes: what was held back is given out. LH_ERR_NO_MEMORY. */
lh_status lh_thinking_splitter_finish(lh_thinking_splitter *splitter, lh_text_buffer *thought,
                                      lh_text_buffer *answer, lh_error *error);
