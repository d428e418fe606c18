/* The body of a streamed answer to chat or completions: pieces of text go in, events come out in
 * the order that clients rely on. Each choice opens with a chunk of its own, ends with exactly one
 * finish_reason, and the stream ends with [DONE], whatever happens. Thread: its owner's. */
#pragma once

#include "gateway/openai/error.h"
#include "gateway/openai/render.h"
#include "gateway/openai/server_events.h"

/* A call of a custom tool, whose text is told when it is whole. */
typedef struct lh_openai_custom_call {
    bool is_open;
    uint32_t index;
    lh_text_buffer arguments;
} lh_openai_custom_call;

typedef struct lh_openai_stream {
    const lh_openai_frame *frame;
    lh_server_events *events;
    /* [prompts]: what each choice of a prompt opens with; NULL: nothing */
    const lh_text_buffer *echoes;
    uint32_t choices, choices_per_prompt;
    bool include_usage, continuous_usage;
    lh_openai_custom_call *custom_calls; /* [choices]; NULL: there are no custom tools */

    bool opened;
} lh_openai_stream;

/* Each appends events to a stream that is not done. LH_ERR_NO_MEMORY: the stream is of no use any
 * more. */
lh_status lh_openai_stream_put(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_token_usage *usage);
/* All choices have ended. */
lh_status lh_openai_stream_close(lh_openai_stream *stream, const lh_token_usage *usage);
/* It cannot go on. */
lh_status lh_openai_stream_fail(lh_openai_stream *stream, const lh_openai_error *error);
