/* Chunks in order. */
#include "gateway/openai/stream.h"

#include "gateway/openai/custom_tool.h"

static lh_status put_event(lh_openai_stream *stream, json_t *data) {
    return lh_server_events_put(stream->events, NULL, data);
}

static lh_status put_done(lh_openai_stream *stream) {
    lh_status status = lh_server_events_put_text(stream->events, "[DONE]");
    stream->events->done = true;
    return status;
}

/* The first chunk of every choice; a completion that echoes nothing needs none. An echo that is
 * told with its logprobs comes when these are here. */
static lh_status open_choices(lh_openai_stream *stream, const lh_token_usage *usage) {
    static const lh_text_buffer nothing = {0};
    lh_status status = LH_OK;
    bool echoes = stream->echoes && !stream->frame->echoes_logprobs;
    stream->opened = true;
    if (stream->frame->endpoint == LH_OPENAI_COMPLETIONS && !echoes && !stream->frame->prompt_ids)
        return LH_OK;
    for (uint32_t i = 0; i < stream->choices && !status; i++) {
        const lh_text_buffer *echo =
            echoes ? &stream->echoes[i / stream->choices_per_prompt] : &nothing;
        status = put_event(
            stream, lh_openai_opening_json(stream->frame, i, echo->bytes, echo->length, usage));
    }
    return status;
}

/* Of a choice whose call is over. */
static lh_status end_custom(lh_openai_stream *stream, uint32_t choice,
                            const lh_token_usage *usage) {
    lh_openai_custom_call *call = stream->custom_calls ? &stream->custom_calls[choice] : NULL;
    if (!call || !call->is_open)
        return LH_OK;
    call->is_open = false;
    return put_event(stream, lh_openai_custom_input_json(stream->frame, choice, call->index,
                                                         call->arguments.bytes,
                                                         call->arguments.length, usage));
}

static lh_status begin_call(lh_openai_stream *stream, uint32_t choice,
                            const lh_tool_call_delta *call, const lh_token_usage *usage) {
    lh_status status = end_custom(stream, choice, usage);
    if (lh_openai_custom_is(stream->frame->tool_kinds, call->name)) {
        stream->custom_calls[choice].is_open = true;
        stream->custom_calls[choice].index = call->index;
        stream->custom_calls[choice].arguments.length = 0;
    }
    return status ? status
                  : put_event(stream, lh_openai_call_head_json(stream->frame, choice, call, usage));
}

static lh_status put_arguments(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_tool_call_delta *call, const lh_token_usage *usage) {
    const char *arguments = piece->arguments + call->arguments_at;
    lh_openai_custom_call *custom =
        stream->custom_calls ? &stream->custom_calls[piece->choice] : NULL;
    if (custom && custom->is_open)
        return lh_text_buffer_append(&custom->arguments, arguments, call->arguments_length, NULL);
    return put_event(stream,
                     lh_openai_call_arguments_json(stream->frame, piece->choice, call->index,
                                                   arguments, call->arguments_length, usage));
}

/* A call's head and its arguments are chunks of their own: clients take the arguments of a chunk
 * with an id for the whole of what they may begin with. */
static lh_status put_calls(lh_openai_stream *stream, const lh_generation_piece *piece,
                           const lh_token_usage *usage) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < piece->call_count && !status; i++) {
        const lh_tool_call_delta *call = &piece->calls[i];
        if (call->begins)
            status = begin_call(stream, piece->choice, call, usage);
        if (!status && call->arguments_length)
            status = put_arguments(stream, piece, call, usage);
    }
    return status;
}

static lh_status put_echo(lh_openai_stream *stream, const lh_generation_piece *piece,
                          const lh_token_usage *usage) {
    const lh_text_buffer *echo = &stream->echoes[piece->choice / stream->choices_per_prompt];
    return put_event(stream,
                     lh_openai_echo_json(stream->frame, piece, echo->bytes, echo->length, usage));
}

lh_status lh_openai_stream_put(lh_openai_stream *stream, const lh_generation_piece *piece,
                               const lh_token_usage *usage) {
    const lh_token_usage *told = stream->continuous_usage ? usage : NULL;
    lh_status status = stream->opened ? LH_OK : open_choices(stream, told);
    if (!status && piece->prompt && stream->frame->echoes_logprobs)
        status = put_echo(stream, piece, told);
    if (!status && (piece->length || piece->thought_length || piece->token_count))
        status = put_event(stream, lh_openai_chunk_json(stream->frame, piece, told));
    if (!status)
        status = put_calls(stream, piece, told);
    if (!status && piece->finished)
        status = end_custom(stream, piece->choice, told);
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
