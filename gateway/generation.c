/* Queues of events in, pieces of text out. */
#include "gateway/generation.h"

#include "gateway/event_queue.h"
#include "gateway/growing_array.h"
#include "gateway/text_decoder.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A token whose text has not left yet, and where in the text it begins. */
typedef struct pending_token {
    lh_generation_token token;
    size_t first_top, decoded_before;
} pending_token;

typedef struct choice_state {
    lh_generation *generation;
    uint32_t index, drawn;
    uint64_t handle;
    bool finished;
    lh_text_decoder decoder;
    lh_stop_matcher *matcher;
    lh_text_buffer decoded; /* of one token, scratch */
    lh_text_buffer out;     /* the piece */
    size_t decoded_bytes, decoded_characters, emitted_bytes;
    pending_token *pending; /* [pending_count], those with an index below `shown` are in the last piece */
    size_t pending_count, pending_capacity, shown;
    lh_engine_logprob *tops;
    size_t top_count, top_capacity;
    lh_generation_token *shown_tokens;
    size_t shown_capacity;
} choice_state;

struct lh_generation {
    lh_engine *engine;
    const lh_served_model *model;
    void (*on_ready)(void *context);
    void *context;
    bool keeps_tokens, waits_for_ends;
    uint32_t min_tokens, choice_count, open_choices;
    uint64_t prompt_tokens, completion_tokens;
    choice_state *choices;
    choice_state *last; /* whose piece was given out last */
    lh_event_queue queue;

    pthread_mutex_t mutex; /* guards the rest, and the handles until `submitted` is set */
    bool submitted, abandoned;
};

/* The engine's thread. */
static void on_event(void *context, const lh_engine_event *event) {
    choice_state *choice = context;
    lh_generation *generation = choice->generation;
    lh_event_queue_push(&generation->queue, choice->index, event);
    if (event->kind != LH_ENGINE_TOKEN || !generation->waits_for_ends)
        generation->on_ready(generation->context);
}

/* ---- From a token to text. ---- */

static size_t count_characters(const lh_text_buffer *text) {
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += ((unsigned char)text->bytes[i] & 0xC0) != 0x80;
    return count;
}

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a generation");
}

static lh_status keep_token(choice_state *choice, const lh_queued_event *item, lh_error *error) {
    const lh_engine_event *event = &item->event;
    if (!lh_growing_array_reserve(&choice->pending, &choice->pending_capacity, choice->pending_count + 1,
                                  sizeof *choice->pending) ||
        !lh_growing_array_reserve(&choice->tops, &choice->top_capacity, choice->top_count + event->top_count,
                                  sizeof *choice->tops))
        return no_memory(error);
    choice->pending[choice->pending_count++] =
        (pending_token){.token = {event->token, event->logprob, event->top_count, NULL, event->digest,
                                  choice->decoded_characters},
                        .first_top = choice->top_count,
                        .decoded_before = choice->decoded_bytes};
    if (event->top_count)
        memcpy(choice->tops + choice->top_count, event->top, event->top_count * sizeof *event->top);
    choice->top_count += event->top_count;
    return LH_OK;
}

/* Decoded text goes through the stop strings, once there are as many tokens as the request wants at least. */
static lh_status pass_on(choice_state *choice, bool *stopped, lh_error *error) {
    const lh_text_buffer *text = &choice->decoded;
    choice->decoded_bytes += text->length;
    choice->decoded_characters += count_characters(text);
    if (choice->drawn < choice->generation->min_tokens)
        return lh_text_buffer_append(&choice->out, text->bytes, text->length, error);
    return lh_stop_matcher_push(choice->matcher, text->bytes, text->length, &choice->out, stopped, error);
}

static void finish_choice(choice_state *choice, lh_generation_piece *piece, lh_finish_reason reason) {
    choice->finished = true;
    choice->generation->open_choices--;
    piece->finished = true;
    piece->reason = reason;
}

static lh_status take_token(choice_state *choice, const lh_queued_event *item, lh_generation_piece *piece,
                            lh_error *error) {
    lh_generation *generation = choice->generation;
    const char *bytes;
    size_t length;
    bool stopped = false;
    lh_status status =
        lh_tokenizer_token_bytes(generation->model->tokenizer, item->event.token, &bytes, &length);
    if (status)
        return lh_fail(error, LH_ERR_INTERNAL, "the engine drew token %u, which is not in the vocabulary",
                       item->event.token);
    choice->drawn++;
    generation->completion_tokens++;
    if (generation->keeps_tokens && (status = keep_token(choice, item, error)))
        return status;
    choice->decoded.length = 0;
    status = lh_text_decoder_push(&choice->decoder, bytes, length, &choice->decoded, error);
    if (!status)
        status = pass_on(choice, &stopped, error);
    if (!status && stopped) {
        finish_choice(choice, piece, LH_FINISH_STOP);
        lh_engine_cancel_later(generation->engine, choice->handle);
    }
    return status;
}

/* The engine's end: what the decoder and the matcher hold back comes out. */
static lh_status take_finish(choice_state *choice, lh_finish_reason reason, lh_generation_piece *piece,
                             lh_error *error) {
    bool stopped = false;
    choice->decoded.length = 0;
    lh_status status = lh_text_decoder_finish(&choice->decoder, &choice->decoded, error);
    if (!status)
        status = pass_on(choice, &stopped, error);
    if (!status && !stopped)
        status = lh_stop_matcher_finish(choice->matcher, &choice->out, error);
    if (!status)
        finish_choice(choice, piece, stopped ? LH_FINISH_STOP : reason);
    return status;
}

/* ---- Pieces. ---- */

/* Forgets what the last piece showed. */
static void drop_piece(lh_generation *generation) {
    choice_state *choice = generation->last;
    if (!choice)
        return;
    choice->out.length = 0;
    choice->pending_count -= choice->shown;
    if (choice->pending_count)
        memmove(choice->pending, choice->pending + choice->shown,
                choice->pending_count * sizeof *choice->pending);
    else
        choice->top_count = 0;
    choice->shown = 0;
    generation->last = NULL;
}

/* Shows the tokens whose text begins before the end of what has left; at the end of a choice that no stop
 * string cut short, all of them. */
static lh_status show_tokens(choice_state *choice, lh_generation_piece *piece, lh_error *error) {
    bool all = choice->finished && lh_stop_matcher_found(choice->matcher) < 0;
    size_t count = 0;
    while (count < choice->pending_count &&
           (all || choice->pending[count].decoded_before < choice->emitted_bytes))
        count++;
    if (!lh_growing_array_reserve(&choice->shown_tokens, &choice->shown_capacity, count,
                                  sizeof *choice->shown_tokens))
        return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        choice->shown_tokens[i] = choice->pending[i].token;
        choice->shown_tokens[i].top = choice->tops + choice->pending[i].first_top;
    }
    choice->shown = count;
    piece->tokens = choice->shown_tokens;
    piece->token_count = count;
    return LH_OK;
}

static lh_status give_piece(choice_state *choice, lh_generation_piece *piece, lh_error *error) {
    choice->generation->last = choice;
    choice->emitted_bytes += choice->out.length;
    piece->choice = choice->index;
    piece->text = choice->out.length ? choice->out.bytes : "";
    piece->length = choice->out.length;
    return show_tokens(choice, piece, error);
}

static lh_status take_event(lh_generation *generation, const lh_queued_event *item,
                            lh_generation_piece *piece, lh_error *error) {
    choice_state *choice = &generation->choices[item->choice];
    switch (item->event.kind) {
    case LH_ENGINE_TOKEN:
        return take_token(choice, item, piece, error);
    case LH_ENGINE_FINISHED:
        return take_finish(choice, item->event.reason, piece, error);
    case LH_ENGINE_FAILED:
        break;
    }
    /* Whatever else went wrong inside must not look like this module's own LH_AGAIN or LH_ERR_CLOSED. */
    bool passed_on = item->error.status == LH_ERR_UNAVAILABLE || item->error.status == LH_ERR_TIMEOUT;
    return lh_fail(error, passed_on ? item->error.status : LH_ERR_INTERNAL, "%s", item->error.message);
}

lh_status lh_generation_pull(lh_generation *generation, lh_generation_piece *piece, lh_error *error) {
    drop_piece(generation);
    *piece = (lh_generation_piece){0};
    if (generation->open_choices == 0)
        return LH_ERR_CLOSED;
    for (;;) {
        const lh_queued_event *item;
        lh_status status = lh_event_queue_next(&generation->queue, &item);
        if (status == LH_ERR_NO_MEMORY)
            return no_memory(error);
        if (status)
            return status;
        choice_state *choice = &generation->choices[item->choice];
        if (choice->finished)
            continue; /* drawn before the engine heard of the stop string */
        status = take_event(generation, item, piece, error);
        if (status)
            return status;
        if (choice->out.length || piece->finished)
            return give_piece(choice, piece, error);
    }
}

/* ---- Beginning and end. ---- */

static void free_choice(choice_state *choice) {
    lh_stop_matcher_destroy(choice->matcher);
    lh_text_buffer_reset(&choice->decoded);
    lh_text_buffer_reset(&choice->out);
    free(choice->pending);
    free(choice->tops);
    free(choice->shown_tokens);
}

static void free_all(lh_generation *generation) {
    for (uint32_t i = 0; generation->choices && i < generation->choice_count; i++)
        free_choice(&generation->choices[i]);
    free(generation->choices);
    lh_event_queue_reset(&generation->queue);
    pthread_mutex_destroy(&generation->mutex);
    free(generation);
}

void lh_generation_destroy(lh_generation *generation) {
    if (!generation)
        return;
    if (generation->submitted)
        for (uint32_t i = 0; i < generation->choice_count; i++)
            lh_engine_cancel(generation->engine, generation->choices[i].handle);
    free_all(generation);
}

void lh_generation_abandon(lh_generation *generation) {
    pthread_mutex_lock(&generation->mutex);
    generation->abandoned = true;
    bool submitted = generation->submitted;
    pthread_mutex_unlock(&generation->mutex);
    for (uint32_t i = 0; submitted && i < generation->choice_count; i++)
        lh_engine_cancel_later(generation->engine, generation->choices[i].handle);
}

/* The model's stop tokens and the request's; malloc'd. False: no memory. */
static bool gather_stop_tokens(const lh_served_model *model, const lh_generation_options *options,
                               uint32_t **tokens, uint32_t *count) {
    uint32_t own_count = 0;
    const uint32_t *own = lh_tokenizer_stop_tokens(model->tokenizer, &own_count);
    if (options->ignore_eos)
        own_count = 0;
    *count = own_count + options->stop_token_count;
    *tokens = calloc(*count + 1, sizeof **tokens);
    if (!*tokens)
        return false;
    if (own_count)
        memcpy(*tokens, own, own_count * sizeof **tokens);
    if (options->stop_token_count)
        memcpy(*tokens + own_count, options->stop_tokens, options->stop_token_count * sizeof **tokens);
    return true;
}

static void fill_request(const lh_generation_options *options, choice_state *choice,
                         lh_engine_request *request) {
    const lh_generation_prompt *prompt = &options->prompts[choice->index / options->choices];
    request->prompt = prompt->tokens;
    request->prompt_tokens = prompt->token_count;
    request->max_tokens = prompt->max_tokens;
    request->min_tokens = options->min_tokens < prompt->max_tokens ? options->min_tokens : prompt->max_tokens;
    request->sampling = options->sampling;
    request->sampling.seed += choice->index % options->choices;
    request->on_event = on_event;
    request->context = choice;
}

/* Publishes the handles. The client may have hung up while the engine took the sequences. */
static void note_submitted(lh_generation *generation, const uint64_t *handles) {
    for (uint32_t i = 0; i < generation->choice_count; i++)
        generation->choices[i].handle = handles[i];
    pthread_mutex_lock(&generation->mutex);
    generation->submitted = true;
    bool abandoned = generation->abandoned;
    pthread_mutex_unlock(&generation->mutex);
    if (abandoned)
        lh_generation_abandon(generation);
}

/* Nothing is to be generated: every choice ends, as if its length were reached. */
static void end_at_once(lh_generation *generation) {
    lh_engine_event end = {.kind = LH_ENGINE_FINISHED, .reason = LH_FINISH_LENGTH};
    for (uint32_t i = 0; i < generation->choice_count; i++)
        lh_event_queue_push(&generation->queue, i, &end);
}

lh_status lh_generation_submit(lh_generation *generation, const lh_generation_options *options,
                               lh_error *error) {
    if (options->prompts[0].max_tokens == 0) {
        end_at_once(generation);
        return LH_OK;
    }
    uint32_t count = generation->choice_count, stop_count;
    uint32_t *stop_tokens = NULL;
    lh_status status = LH_ERR_NO_MEMORY;
    lh_engine_request *requests = calloc(count, sizeof *requests);
    uint64_t *handles = calloc(count, sizeof *handles);
    if (!requests || !handles || !gather_stop_tokens(generation->model, options, &stop_tokens, &stop_count)) {
        no_memory(error);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        fill_request(options, &generation->choices[i], &requests[i]);
        requests[i].stop_tokens = stop_tokens;
        requests[i].stop_token_count = stop_count;
    }
    status = lh_engine_submit(generation->engine, requests, count, handles, error);
    if (!status)
        note_submitted(generation, handles);
out:
    free(stop_tokens);
    free(handles);
    free(requests);
    return status;
}

static lh_status init_choices(lh_generation *generation, const lh_generation_options *options,
                              lh_error *error) {
    generation->choices = calloc(generation->choice_count, sizeof *generation->choices);
    if (!generation->choices)
        return no_memory(error);
    for (uint32_t i = 0; i < generation->choice_count; i++) {
        choice_state *choice = &generation->choices[i];
        choice->generation = generation;
        choice->index = i;
        lh_text_decoder_init(&choice->decoder);
        lh_status status =
            lh_stop_matcher_create(options->stops, options->stop_count, &choice->matcher, error);
        if (status)
            return status;
    }
    return LH_OK;
}

lh_status lh_generation_create(lh_engine *engine, const lh_served_model *model,
                               const lh_generation_options *options, lh_generation **out, lh_error *error) {
    assert(options->prompt_count && options->choices);
    lh_generation *generation = calloc(1, sizeof *generation);
    if (!generation)
        return no_memory(error);
    generation->engine = engine;
    generation->model = model;
    generation->on_ready = options->on_ready;
    generation->context = options->context;
    generation->keeps_tokens = options->sampling.want_logprob || options->sampling.want_digest;
    generation->waits_for_ends =
        options->only_whole && options->stop_count == 0; /* else a token may be the end */
    generation->min_tokens = options->min_tokens;
    generation->choice_count = generation->open_choices = options->prompt_count * options->choices;
    for (uint32_t i = 0; i < options->prompt_count; i++)
        generation->prompt_tokens += options->prompts[i].token_count;
    pthread_mutex_init(&generation->mutex, NULL);
    lh_event_queue_init(&generation->queue);
    lh_status status = init_choices(generation, options, error);
    if (status) {
        free_all(generation);
        return status;
    }
    *out = generation;
    return LH_OK;
}

uint32_t lh_generation_choices(const lh_generation *generation) {
    return generation->choice_count;
}

uint64_t lh_generation_prompt_tokens(const lh_generation *generation) {
    return generation->prompt_tokens;
}

uint64_t lh_generation_completion_tokens(const lh_generation *generation) {
    return generation->completion_tokens;
}
