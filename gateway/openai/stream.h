/* The body of a streamed answer, as server-sent events (WHATWG HTML, 9.2) of one line each: pieces
 * of text go in, events come out in the order that clients rely on. Each choice opens with a chunk
 * of its own, ends with exactly one finish_reason, and the stream ends with [DONE], whatever
 * happens. Thread: its owner's. */
#pragma once

#include "gateway/openai/error.h"
#include "gateway/openai/render.h"

typedef struct lh_openai_stream {
    const lh_openai_frame *frame;
    /* [prompts]: what each choice of a prompt opens with; NULL: nothing */
    const lh_text_buffer *echoes;
    uint32_t choices, choices_per_prompt;
    bool include_usage, continuous_usage;

    bool opened, done;
    lh_text_buffer out; /* the owner resets it */
    size_t sent;        /* of out */
} lh_openai_stream;

/* Each appends events to a stream that is not done. LH_ERR_NO_MEMORY: the stream is of no use any
 * more. */
lh_status lh_openai_stream_put(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_token_usage *usage);
/* All choices have ended. */
lh_status lh_openai_stream_close(lh_openai_stream *stream, const lh_token_usage *usage);
/* It cannot go on. */
lh_status lh_openai_stream_fail(lh_openai_stream *stream, const lh_openai_error *error);
/* A comment, which clients skip and which keeps proxies from taking the silence for the end. */
lh_status lh_openai_stream_keep_alive(lh_openai_stream *stream);

/* Bytes that wait to be sent. */
size_t lh_openai_stream_pending(const lh_openai_stream *stream);
/* Moves up to `capacity` of them to `buffer`; returns how many. */
size_t lh_openai_stream_take(lh_openai_stream *stream, char *buffer, size_t capacity);
