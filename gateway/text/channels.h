/* Answers of gpt-oss are messages, each with a channel (OpenAI's harmony format,
 * cookbook.openai.com/articles/openai-harmony):
 *
 *   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
 *
 * What is said in `analysis` is thought, what is said in other channels is the answer. A message to
 * somebody, a tool's call, is part of the answer and keeps its header:
 *
 *   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}
 *
 * Thread: a splitter's is its owner's. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stdbool.h>
#include <stddef.h>

/* What a template of this format has in it, and where a thought of it begins and ends. */
#define LH_CHANNELS_THOUGHT_OPEN  "<|channel|>analysis<|message|>"
#define LH_CHANNELS_THOUGHT_CLOSE "<|end|>"

typedef enum lh_channel_stage {
    LH_CHANNEL_BEGIN,   /* a part of a header, or the answer goes on from the prompt */
    LH_CHANNEL_HEADER,  /* before <|message|> */
    LH_CHANNEL_THOUGHT, /* in a message */
    LH_CHANNEL_ANSWER   /* likewise */
} lh_channel_stage;

/* The text of one choice. */
typedef struct lh_channel_splitter {
    lh_channel_stage stage;
    bool has_thought, has_answer; /* some of it has come */
    bool begins;                  /* a message has begun, and none of its text has come */
    lh_text_buffer held;          /* a header, or what may become a mark */
} lh_channel_splitter;

/* Whether `name` is a mark of the format: where it is a control token, it has no other text. */
bool lh_channels_is_mark(const char *name, size_t length);

/* is_open: the prompt has ended inside of a thought. */
void lh_channel_splitter_init(lh_channel_splitter *splitter, bool is_open);
void lh_channel_splitter_reset(lh_channel_splitter *splitter);
/* Appends what is known of the text so far to the one or the other. Two messages of one kind have
 * an empty line between them. LH_ERR_NO_MEMORY. */
lh_status lh_channel_splitter_push(lh_channel_splitter *splitter, const char *text, size_t length,
                                   lh_text_buffer *thought, lh_text_buffer *answer,
                                   lh_error *error);
/* No more comes: what was held back is given out, but for a header without a message.
 * LH_ERR_NO_MEMORY. */
lh_status lh_channel_splitter_finish(lh_channel_splitter *splitter, lh_text_buffer *thought,
                                     lh_text_buffer *answer, lh_error *error);
