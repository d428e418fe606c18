/* Chunks in order. */
#include "gateway/openai/stream.h"

#include "common/json/json_text.h"

#include <assert.h>
#include <string.h>

static lh_status put(lh_openai_stream *stream, const char *text) {
    assert(!stream->done);
    return lh_text_buffer_append(&stream->out, text, strlen(text), NULL);
}

/* An event of the JSON, which it takes (NULL: no memory) and which holds no line break. */
static lh_status put_event(lh_openai_stream *stream, json_t *data) {
    lh_status opened = put(stream, "data: "), rendered = lh_json_render(data, &stream->out);
    return opened ? opened : rendered ? rendered : put(stream, "\n\n");
}

static lh_status put_done(lh_openai_stream *stream) {
    lh_status status = put(stream, "data: [DONE]\n\n");
    stream->done = true;
    return status;
}

/* The first chunk of every choice; a completion that echoes nothing needs none. */
static lh_status open_choices(lh_openai_stream *stream, const lh_token_usage *usage) {
    static const lh_text_buffer nothing = {0};
    lh_status status = LH_OK;
    stream->opened = true;
    if (stream->frame->endpoint == LH_OPENAI_COMPLETIONS && !stream->echoes &&
        !stream->frame->prompt_ids)
        return LH_OK;
    for (uint32_t i = 0; i < stream->choices && !status; i++) {
        const lh_text_buffer *echo =
            stream->echoes ? &stream->echoes[i / stream->choices_per_prompt] : &nothing;
        status = put_event(
            stream, lh_openai_opening_json(stream->frame, i, echo->bytes, echo->length, usage));
    }
    return status;
}

/* A call's head and its arguments are chunks of their own: clients take the arguments of a chunk
 * with an id for the whole of what they may begin with. */
static lh_status put_calls(lh_openai_stream *stream, const lh_generation_piece *piece,
                           const lh_token_usage *usage) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < piece->call_count && !status; i++) {
        const lh_tool_call_delta *call = &piece->calls[i];
        if (call->begins)
            status = put_event(stream,
                               lh_openai_call_head_json(stream->frame, piece->choice, call, usage));
        if (!status && call->arguments_length)
            status = put_event(
                stream, lh_openai_call_arguments_json(stream->frame, piece->choice, call->index,
                                                      piece->arguments + call->arguments_at,
                                                      call->arguments_length, usage));
    }
    return status;
}

lh_status lh_openai_stream_put(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_token_usage *usage) {
    const lh_token_usage *told = stream->continuous_usage ? usage : NULL;
    lh_status status = stream->opened ? LH_OK : open_choices(stream, told);
    if (!status && (piece->length || piece->thought_length || piece->token_count))
        status = put_event(stream, lh_openai_chunk_json(stream->frame, piece, told));
    if (!status)
        status = put_calls(stream, piece, told);
    if (!status && piece->finished)
        status = put_event(stream, lh_openai_end_json(stream->frame, piece, told));
    return status;
}

lh_status lh_openai_stream_close(lh_openai_stream *stream, const lh_token_usage *usage) {
    lh_status status = LH_OK;
    if (stream->include_usage || stream->frame->timing)
        status = put_event(
            stream, lh_openai_usage_json(stream->frame, stream->include_usage ? usage : NULL));
    lh_status ended = put_done(stream);
    return status ? status : ended;
}

lh_status lh_openai_stream_fail(lh_openai_stream *stream, const lh_openai_error *error) {
    lh_status status = put_event(stream, lh_openai_error_json(error)), ended = put_done(stream);
    return status ? status : ended;
}

lh_status lh_openai_stream_keep_alive(lh_openai_stream *stream) {
    return put(stream, ": keep-alive\n\n");
}

size_t lh_openai_stream_pending(const lh_openai_stream *stream) {
    return stream->out.length - stream->sent;
}

size_t lh_openai_stream_take(lh_openai_stream *stream, char *buffer, size_t capacity) {
    size_t length = lh_openai_stream_pending(stream);
    length = length < capacity ? length : capacity;
    if (length)
        memcpy(buffer, stream->out.bytes + stream->sent, length);
    stream->sent += length;
    if (stream->sent == stream->out.length)
        stream->sent = stream->out.length = 0;
    return length;
}
