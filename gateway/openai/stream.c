/* Chunks in order. */
#include "gateway/openai/stream.h"

#include "gateway/http/sse.h"

#include <string.h>

void lh_openai_stream_reset(lh_openai_stream *stream) {
    lh_text_buffer_reset(&stream->out);
}

/* The first chunk of every choice; a completion that echoes nothing needs none. */
static lh_status open_choices(lh_openai_stream *stream, const lh_openai_usage *usage) {
    static const lh_text_buffer nothing = {0};
    stream->opened = true;
    if (stream->frame->endpoint == LH_OPENAI_COMPLETIONS && !stream->echoes)
        return LH_OK;
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < stream->choices && !status; i++) {
        const lh_text_buffer *echo =
            stream->echoes ? &stream->echoes[i / stream->choices_per_prompt] : &nothing;
        status = lh_openai_render_opening(stream->frame, i, echo->bytes, echo->length, usage,
                                          &stream->out);
    }
    return status;
}

lh_status lh_openai_stream_put(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_openai_usage *usage) {
    const lh_openai_usage *told = stream->continuous_usage ? usage : NULL;
    lh_status status = stream->opened ? LH_OK : open_choices(stream, told);
    if (!status && (piece->length || piece->token_count))
        status = lh_openai_render_chunk(stream->frame, piece, told, &stream->out);
    if (!status && piece->finished)
        status = lh_openai_render_end(stream->frame, piece, told, &stream->out);
    return status;
}

lh_status lh_openai_stream_close(lh_openai_stream *stream, const lh_openai_usage *usage) {
    lh_status status = LH_OK;
    if (stream->include_usage || stream->frame->timing)
        status = lh_openai_render_usage(stream->frame, stream->include_usage ? usage : NULL,
                                        &stream->out);
    stream->done = true;
    return status ? status : lh_sse_done(&stream->out);
}

lh_status lh_openai_stream_fail(lh_openai_stream *stream, const lh_openai_error *error) {
    stream->done = true;
    lh_status status = lh_sse_open(&stream->out);
    if (!status)
        status = lh_openai_error_render(error, &stream->out);
    if (!status)
        status = lh_sse_close(&stream->out);
    return status ? status : lh_sse_done(&stream->out);
}

lh_status lh_openai_stream_keep_alive(lh_openai_stream *stream) {
    return lh_sse_keep_alive(&stream->out);
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
