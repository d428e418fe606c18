/* Pulls pieces, renders them, and says when to wait. */
#include "common/clock.h"
#include "common/log.h"
#include "gateway/openai/openai_answer_state.h"
#include "gateway/openai/openai_refusals.h"

#include <stdlib.h>

/* A stream is filled no further than this before it is sent. */
#define BUFFER_BYTES 16384

lh_openai_answer *lh_openai_answer_create(const lh_openai_answer_options *options, lh_http_exchange *exchange,
                                          lh_pass *pass) {
    lh_openai_answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return NULL;
    answer->options = *options;
    answer->timing.store = options->traces;
    answer->exchange = exchange;
    answer->pass = pass;
    return answer;
}

void lh_openai_answer_destroy(lh_openai_answer *answer) {
    if (!answer)
        return;
    lh_openai_timing_end(&answer->timing);
    json_decref(answer->frame.timing);
    lh_generation *generation = answer->generation;
    uint32_t count = generation ? lh_generation_choices(generation) : 0;
    lh_generation_destroy(generation);
    for (uint32_t i = 0; answer->gathered && i < count; i++)
        lh_openai_gathered_reset(&answer->gathered[i]);
    for (uint32_t i = 0; i < answer->echo_count; i++)
        lh_text_buffer_reset(&answer->echoes[i]);
    free(answer->gathered);
    free(answer->echoes);
    lh_openai_stream_reset(&answer->stream);
    free(answer);
}

void lh_openai_answer_name(lh_openai_answer *answer, const char *request_id, int64_t received_us) {
    answer->received_us = received_us;
    lh_openai_timing_name(&answer->timing, request_id, received_us);
}

void lh_openai_answer_abandon(lh_openai_answer *answer) {
    atomic_store(&answer->gone, true);
    lh_generation *generation = atomic_load(&answer->generation);
    if (generation)
        lh_generation_abandon(generation);
}

lh_openai_usage lh_openai_answer_usage(const lh_openai_answer *answer) {
    lh_generation *generation = atomic_load(&((lh_openai_answer *)answer)->generation);
    if (!generation)
        return (lh_openai_usage){0};
    return (lh_openai_usage){lh_generation_prompt_tokens(generation),
                             lh_generation_completion_tokens(generation),
                             lh_generation_cached_tokens(generation)};
}

/* ---- Timing. ---- */

/* All choices have ended. False: what the answer is to tell of its timing has not come, and the exchange will be woken. */
static bool has_timing(lh_openai_answer *answer) {
    int64_t again_us;
    if (answer->frame.timing || lh_openai_timing_ready(&answer->timing, &answer->frame.timing, &again_us))
        return true;
    lh_http_exchange_wake_at(answer->exchange, again_us);
    return false;
}

/* ---- Failing. ---- */

/* What ended it, as the client is told: that its time was over is no fault of a worker, nor is that it has left, if
 * by closing its sending side alone. */
static void explain(const lh_openai_answer *answer, const lh_error *cause, lh_openai_error *error) {
    bool gone = atomic_load(&answer->gone);
    lh_log(gone ? LH_LOG_DEBUG : LH_LOG_WARN, "api", "request failed: %s", cause->message);
    lh_openai_error_from(error, cause);
    if (gone)
        lh_openai_refuse_gone(error);
    else if (cause->status == LH_ERR_TIMEOUT && answer->deadline_us && lh_clock_us() >= answer->deadline_us)
        lh_openai_refuse_late(error, lh_openai_answer_usage(answer).completion_tokens,
                              answer->deadline_us - answer->received_us);
}

/* ---- Streaming. ---- */

/* The stream has begun and cannot go on: the client is told so, and may not use the connection again. */
static lh_status fail_stream(lh_openai_answer *answer, const lh_error *cause) {
    lh_openai_error error;
    explain(answer, cause, &error);
    lh_http_exchange_close_after(answer->exchange);
    return lh_openai_stream_fail(&answer->stream, &error);
}

/* Fills the stream with what there is. LH_AGAIN: nothing. LH_ERR_NO_MEMORY: of the stream. Else LH_OK. */
static lh_status fill(lh_openai_answer *answer) {
    lh_openai_stream *stream = &answer->stream;
    lh_status status = LH_OK;
    while (!status && !stream->done && lh_openai_stream_pending(stream) < BUFFER_BYTES) {
        lh_generation_piece piece;
        lh_error cause;
        status = lh_generation_pull(answer->generation, &piece, &cause);
        lh_openai_usage usage = lh_openai_answer_usage(answer);
        if (!status)
            status = lh_openai_stream_put(stream, &piece, &usage);
        else if (status == LH_ERR_CLOSED)
            status = has_timing(answer) ? lh_openai_stream_close(stream, &usage) : LH_AGAIN;
        else if (status != LH_AGAIN)
            status = fail_stream(answer, &cause);
    }
    return status == LH_AGAIN && lh_openai_stream_pending(stream) > 0 ? LH_OK : status;
}

/* Nothing to send: a comment, if the silence has lasted; else waits for it to last, or for the engine. */
static lh_http_progress stay_alive(lh_openai_answer *answer) {
    int64_t deadline_us = answer->silent_since_us + (int64_t)answer->options.keep_alive_ms * 1000;
    if (lh_openai_timing_waits(&answer->timing)) /* it is woken for that */
        return LH_HTTP_WAIT;
    if (lh_clock_us() < deadline_us) {
        lh_http_exchange_wake_at(answer->exchange, deadline_us);
        return LH_HTTP_WAIT;
    }
    return lh_openai_stream_keep_alive(&answer->stream) ? LH_HTTP_BREAK : LH_HTTP_READY;
}

lh_http_progress lh_openai_answer_read(lh_openai_answer *answer, char *buffer, size_t capacity,
                                       size_t *length) {
    lh_openai_stream *stream = &answer->stream;
    if (lh_openai_stream_pending(stream) == 0) {
        if (stream->done)
            return LH_HTTP_END;
        lh_status status = fill(answer);
        if (status && status != LH_AGAIN)
            return LH_HTTP_BREAK;
        lh_http_progress progress = status == LH_AGAIN ? stay_alive(answer) : LH_HTTP_READY;
        if (progress != LH_HTTP_READY)
            return progress;
    }
    *length = lh_openai_stream_take(stream, buffer, capacity);
    answer->silent_since_us = lh_clock_us();
    return LH_HTTP_READY;
}

/* ---- Before the reply. ---- */

static lh_http_progress refuse(const lh_openai_answer *answer, const lh_error *cause,
                               lh_openai_error *error) {
    explain(answer, cause, error);
    return LH_HTTP_READY;
}

static lh_http_progress open_stream(lh_http_reply *reply) {
    reply->status = 200;
    reply->streamed = true;
    lh_http_reply_add(reply, "Content-Type", "text/event-stream; charset=utf-8");
    lh_http_reply_add(reply, "Cache-Control", "no-cache");
    lh_http_reply_add(reply, "X-Accel-Buffering", "no");
    return LH_HTTP_READY;
}

/* Waits for the first piece, or for the silence to have lasted. */
static lh_http_progress proceed_stream(lh_openai_answer *answer, lh_http_reply *reply,
                                       lh_openai_error *error) {
    lh_generation_piece piece;
    lh_error cause;
    lh_status status = lh_generation_pull(answer->generation, &piece, &cause);
    if (status == LH_AGAIN) {
        lh_http_progress progress = stay_alive(answer);
        return progress == LH_HTTP_READY ? open_stream(reply) : progress;
    }
    lh_openai_usage usage = lh_openai_answer_usage(answer);
    if (!status && lh_openai_stream_put(&answer->stream, &piece, &usage))
        status = lh_fail(&cause, LH_ERR_NO_MEMORY, "no memory for a stream");
    if (status)
        return refuse(answer, &cause, error);
    return open_stream(reply);
}

static lh_status gather_piece(lh_openai_answer *answer, const lh_generation_piece *piece) {
    lh_openai_gathered *gathered = &answer->gathered[piece->choice];
    lh_status status = LH_OK;
    if (answer->echoes && gathered->text.length == 0) {
        const lh_text_buffer *echo = &answer->echoes[piece->choice / answer->stream.choices_per_prompt];
        status = lh_text_buffer_append(&gathered->text, echo->bytes, echo->length, NULL);
    }
    return status ? status : lh_openai_gather(&answer->frame, piece, gathered);
}

static lh_status render_whole(lh_openai_answer *answer, lh_http_reply *reply) {
    lh_openai_usage usage = lh_openai_answer_usage(answer);
    lh_text_buffer body = {0};
    lh_status status = lh_openai_render_answer(&answer->frame, answer->gathered,
                                               lh_generation_choices(answer->generation), &usage, &body);
    if (status) {
        lh_text_buffer_reset(&body);
        return status;
    }
    reply->status = 200;
    reply->body = body.bytes;
    reply->body_bytes = body.length;
    lh_http_reply_add(reply, "Content-Type", "application/json");
    return LH_OK;
}

static lh_http_progress proceed_whole(lh_openai_answer *answer, lh_http_reply *reply,
                                      lh_openai_error *error) {
    lh_generation_piece piece;
    lh_error cause = {.status = LH_ERR_NO_MEMORY, .message = "no memory for an answer"};
    lh_status status = LH_OK;
    while (!status) {
        lh_error why;
        status = lh_generation_pull(answer->generation, &piece, &why);
        if (!status)
            status = gather_piece(answer, &piece);
        else if (status != LH_AGAIN && status != LH_ERR_CLOSED)
            cause = why;
    }
    if (status == LH_AGAIN || (status == LH_ERR_CLOSED && !has_timing(answer)))
        return LH_HTTP_WAIT;
    if (status == LH_ERR_CLOSED && !render_whole(answer, reply))
        return LH_HTTP_READY;
    return refuse(answer, &cause, error);
}

lh_http_progress lh_openai_answer_proceed(lh_openai_answer *answer, lh_http_reply *reply,
                                          lh_openai_error *error) {
    error->status = 0;
    return answer->streams ? proceed_stream(answer, reply, error) : proceed_whole(answer, reply, error);
}
