/* Sequences of the engine on one side, choices on the other. */
#include "gateway/openai/generation.h"

#include "common/base/clock.h"
#include "gateway/openai/event_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A choice and its sequence. */
typedef struct sequence {
    lh_generation *generation;
    uint64_t handle;
    lh_choice choice;
    lh_prompt_answer prompt; /* what is asked of its prompt */
    uint32_t cached_tokens;
    int64_t last_token_us; /* the engine's thread; 0: none has come */
    uint64_t guide_work;   /* likewise: of its latest event */
} sequence;

struct lh_generation {
    lh_engine *engine;
    const lh_served_model *model;
    void (*on_ready)(void *context);
    void *context;
    lh_request_metrics *metrics; /* NULL: none */
    int64_t received_us;
    bool waits_for_ends, has_failed;
    bool asks_of_prompts;
    uint32_t choice_count, open_choices;
    uint32_t choices_of_prompt;
    lh_token_usage usage; /* without cached_tokens and thought_tokens */
    sequence *sequences;  /* [choice_count] */
    lh_choice *last;      /* whose piece was given out last */
    lh_event_queue queue;
    json_t *tools;         /* NULL: not needed */
    uint32_t *stop_tokens; /* [stop_token_count]: those that the request named */
    uint32_t stop_token_count;
    /* Of the latest event. */
    _Atomic(const char *) chain;
    atomic_uint epoch;
    _Atomic(int64_t) first_token_us;
    _Atomic(uint64_t) tokens_sampled;
    _Atomic(uint64_t) guide_work; /* of all sequences */

    pthread_mutex_t mutex; /* guards the rest, and the handles until `submitted` is set */
    bool submitted, abandoned;
};

/* The engine's thread. */
static void note_token(sequence *from) {
    const lh_generation *generation = from->generation;
    int64_t now_us = lh_clock_us(), before_us = from->last_token_us;
    from->last_token_us = now_us;
    if (!generation->metrics)
        return;
    if (before_us == 0)
        lh_request_metrics_note_first_token(generation->metrics, now_us - generation->received_us);
    else
        lh_request_metrics_note_next_token(generation->metrics, now_us - before_us);
}

/* The engine's thread. Who did not come to a chain again has done nothing there. */
static void note_guidance(sequence *from, uint64_t work) {
    if (work <= from->guide_work)
        return;
    atomic_fetch_add(&from->generation->guide_work, work - from->guide_work);
    from->guide_work = work;
}

/* The engine's thread. */
static void on_event(void *context, const lh_sequence_event *event) {
    sequence *from = context;
    lh_generation *generation = from->generation;
    if (event->kind == LH_SEQUENCE_TOKEN)
        note_token(from);
    note_guidance(from, event->guide_work);
    atomic_store(&generation->epoch, event->epoch);
    atomic_store(&generation->chain, event->chain);
    if (event->kind == LH_SEQUENCE_TOKEN && atomic_fetch_add(&generation->tokens_sampled, 1) == 0)
        atomic_store(&generation->first_token_us, lh_clock_us());
    lh_event_queue_push(&generation->queue, from->choice.index, event);
    if (lh_sequence_event_is_last(event) || !generation->waits_for_ends)
        generation->on_ready(generation->context);
}

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a generation");
}

/* ---- Pulling. ---- */

/* -1: it is none that the request named. */
static int64_t named_stop(const lh_generation *generation, uint32_t token) {
    for (uint32_t i = 0; i < generation->stop_token_count; i++)
        if (generation->stop_tokens[i] == token)
            return token;
    return -1;
}

/* No answer goes out without what was asked of the prompt. */
static lh_status take_answer_event(sequence *from, const lh_queued_event *item, lh_error *error) {
    lh_status status = lh_prompt_answer_check(&from->prompt, error);
    if (status != LH_OK)
        return status;
    if (item->event.kind == LH_SEQUENCE_TOKEN) {
        from->generation->usage.completion_tokens++;
        return lh_choice_take_token(&from->choice, &item->event, error);
    }
    if (item->event.reason == LH_FINISH_STOP)
        from->choice.stop_token = named_stop(from->generation, item->event.token);
    return lh_choice_finish(&from->choice, item->event.reason, error);
}

static lh_status take_event(sequence *from, const lh_queued_event *item, lh_error *error) {
    from->cached_tokens = item->event.cached_tokens;
    switch (item->event.kind) {
    case LH_SEQUENCE_TOKEN:
    case LH_SEQUENCE_FINISHED:
        return take_answer_event(from, item, error);
    case LH_SEQUENCE_PROMPT:
        return lh_prompt_answer_take(&from->prompt, &item->event, error);
    case LH_SEQUENCE_FAILED:
        break;
    }
    /* LH_ERR_LIMIT is of what was asked for: a form that can be read in too many ways, or more than
     * the workers have room for. Whatever else went wrong inside must not look like this module's
     * own LH_AGAIN or LH_ERR_CLOSED. */
    lh_status status = item->error.status;
    bool passed_on =
        status == LH_ERR_UNAVAILABLE || status == LH_ERR_TIMEOUT || status == LH_ERR_LIMIT;
    return lh_fail(error, passed_on ? status : LH_ERR_INTERNAL, "%s", item->error.message);
}

static void note_end(const sequence *from, lh_request_end end) {
    const lh_generation *generation = from->generation;
    if (generation->metrics)
        lh_request_metrics_note_end(generation->metrics, end, from->choice.sampled,
                                    lh_clock_us() - generation->received_us);
}

static lh_status give_piece(sequence *from, lh_generation_piece *piece, lh_error *error) {
    lh_generation *generation = from->generation;
    assert(!generation->last && generation->open_choices > 0);
    generation->last = &from->choice;
    if (from->choice.finished)
        generation->open_choices--;
    return lh_choice_show(&from->choice, piece, error);
}

/* Takes one event. LH_AGAIN: it gave nothing to show. */
static lh_status pull_event(sequence *from, const lh_queued_event *item, lh_generation_piece *piece,
                            lh_error *error) {
    if (from->choice.finished)
        return LH_AGAIN; /* drawn before the engine heard of the stop string */
    lh_status status = take_event(from, item, error);
    from->generation->has_failed |= status != LH_OK;
    if (status)
        return status;
    if (from->choice.finished)
        note_end(from, from->choice.reason == LH_FINISH_STOP ? LH_REQUEST_STOP : LH_REQUEST_LENGTH);
    if (from->choice.finished && item->event.kind == LH_SEQUENCE_TOKEN)
        lh_engine_cancel_later(from->generation->engine, from->handle);
    return lh_choice_has_piece(&from->choice) ? give_piece(from, piece, error) : LH_AGAIN;
}

lh_status lh_generation_pull(lh_generation *generation, lh_generation_piece *piece,
                             lh_error *error) {
    if (generation->last)
        lh_choice_drop(generation->last);
    generation->last = NULL;
    if (generation->open_choices == 0)
        return LH_ERR_CLOSED;
    const lh_queued_event *item;
    lh_status status;
    while (!(status = lh_event_queue_next(&generation->queue, &item))) {
        status = pull_event(&generation->sequences[item->choice], item, piece, error);
        if (status != LH_AGAIN)
            return status;
    }
    return status == LH_ERR_NO_MEMORY ? no_memory(error) : status;
}

/* ---- Beginning and end. ---- */

/* No event of it comes any more. */
static void end_sequence(const lh_generation *generation, const sequence *ended) {
    lh_engine_cancel(generation->engine, ended->handle);
    if (!ended->choice.finished)
        note_end(ended, generation->has_failed ? LH_REQUEST_ERROR : LH_REQUEST_ABORT);
}

static void reset_sequence(sequence *gone) {
    lh_prompt_answer_reset(&gone->prompt);
    lh_choice_reset(&gone->choice);
}

void lh_generation_destroy(lh_generation *generation) {
    if (!generation)
        return;
    if (generation->submitted)
        for (uint32_t i = 0; i < generation->choice_count; i++)
            end_sequence(generation, &generation->sequences[i]);
    for (uint32_t i = 0; generation->sequences && i < generation->choice_count; i++)
        reset_sequence(&generation->sequences[i]);
    free(generation->sequences);
    json_decref(generation->tools);
    free(generation->stop_tokens);
    lh_event_queue_reset(&generation->queue);
    pthread_mutex_destroy(&generation->mutex);
    free(generation);
}

void lh_generation_abandon(lh_generation *generation) {
    pthread_mutex_lock(&generation->mutex);
    generation->abandoned = true;
    bool submitted = generation->submitted;
    pthread_mutex_unlock(&generation->mutex);
    for (uint32_t i = 0; submitted && i < generation->choice_count; i++)
        lh_engine_cancel_later(generation->engine, generation->sequences[i].handle);
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
        memcpy(*tokens + own_count, options->stop_tokens,
               options->stop_token_count * sizeof **tokens);
    return true;
}

static lh_sequence_request make_request(const lh_generation_options *options, sequence *to) {
    const lh_generation_prompt *prompt = &options->prompts[to->choice.index / options->choices];
    lh_sequence_request request = options->sequence;
    request.prompt = prompt->tokens;
    request.prompt_tokens = prompt->token_count;
    request.max_tokens = prompt->max_tokens;
    if (request.min_tokens > prompt->max_tokens)
        request.min_tokens = prompt->max_tokens;
    request.sampling.seed += to->choice.index % options->choices;
    request.on_event = on_event;
    request.context = to;
    return request;
}

static void note_prompts(const lh_generation *generation, const lh_generation_options *options) {
    for (uint32_t i = 0; generation->metrics && i < options->prompt_count; i++)
        lh_request_metrics_note_prompt(generation->metrics, options->prompts[i].token_count);
}

/* Publishes the handles. The client may have hung up while the engine took the sequences. */
static void note_submitted(lh_generation *generation, const uint64_t *handles) {
    for (uint32_t i = 0; i < generation->choice_count; i++)
        generation->sequences[i].handle = handles[i];
    pthread_mutex_lock(&generation->mutex);
    generation->submitted = true;
    bool abandoned = generation->abandoned;
    pthread_mutex_unlock(&generation->mutex);
    if (abandoned)
        lh_generation_abandon(generation);
}

/* Nothing is to be generated: every choice ends, as if its length were reached. */
static void end_at_once(lh_generation *generation) {
    lh_sequence_event end = {.kind = LH_SEQUENCE_FINISHED, .reason = LH_FINISH_LENGTH};
    for (uint32_t i = 0; i < generation->choice_count; i++)
        lh_event_queue_push(&generation->queue, i, &end);
}

lh_status lh_generation_submit(lh_generation *generation, const lh_generation_options *options,
                               lh_error *error) {
    assert(!generation->submitted);
    if (options->prompts[0].max_tokens == 0 && !generation->asks_of_prompts) {
        end_at_once(generation);
        return LH_OK;
    }
    uint32_t count = generation->choice_count, stop_count;
    uint32_t *stop_tokens = NULL;
    lh_status status = LH_ERR_NO_MEMORY;
    lh_sequence_request *requests = calloc(count, sizeof *requests);
    uint64_t *handles = calloc(count, sizeof *handles);
    if (!requests || !handles ||
        !gather_stop_tokens(generation->model, options, &stop_tokens, &stop_count)) {
        no_memory(error);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        requests[i] = make_request(options, &generation->sequences[i]);
        requests[i].stop_tokens = stop_tokens;
        requests[i].stop_token_count = stop_count;
    }
    status = lh_engine_submit(generation->engine, requests, count, handles, error);
    if (!status) {
        note_prompts(generation, options);
        note_submitted(generation, handles);
    }
out:
    free(stop_tokens);
    free(handles);
    free(requests);
    return status;
}

static lh_status init_choices(lh_generation *generation, const lh_generation_options *options,
                              lh_error *error) {
    generation->sequences = calloc(generation->choice_count, sizeof *generation->sequences);
    if (!generation->sequences)
        return no_memory(error);
    for (uint32_t i = 0; i < generation->choice_count; i++) {
        const lh_generation_prompt *prompt = &options->prompts[i / options->choices];
        sequence *made = &generation->sequences[i];
        made->generation = generation;
        lh_choice *choice = &made->choice;
        choice->decoded_characters = prompt->echo_characters;
        choice->prompt = generation->asks_of_prompts ? &made->prompt : NULL;
        choice->tokenizer = generation->model->tokenizer;
        choice->index = i;
        choice->min_tokens = options->sequence.min_tokens;
        choice->keeps_tokens =
            options->keeps_tokens || lh_sampling_wants_report(&options->sequence.sampling);
        choice->shows_special = options->shows_special;
        choice->stop_token = -1;
        lh_text_decoder_init(&choice->decoder);
        lh_thinking_splitter_init(&choice->splitter, options->thinking, prompt->is_thinking);
        lh_tool_call_parser_init(&choice->tool_calls, options->tool_format,
                                 options->tool_calls_max);
        choice->tool_calls.tools = generation->tools;
        choice->tool_calls.must_call = options->must_call;
        lh_status status =
            lh_stop_matcher_create(options->stops, options->stop_count, &choice->matcher, error);
        if (!status)
            status = lh_prompt_answer_init(&made->prompt, &options->sequence, prompt->tokens,
                                           prompt->token_count, error);
        made->prompt.scores.characters = prompt->echo_characters;
        if (status)
            return status;
    }
    return LH_OK;
}

static lh_status keep_stop_tokens(lh_generation *generation, const lh_generation_options *options,
                                  lh_error *error) {
    size_t bytes = options->stop_token_count * sizeof *generation->stop_tokens;
    if (bytes == 0)
        return LH_OK;
    generation->stop_tokens = malloc(bytes);
    if (!generation->stop_tokens)
        return no_memory(error);
    memcpy(generation->stop_tokens, options->stop_tokens, bytes);
    generation->stop_token_count = options->stop_token_count;
    return LH_OK;
}

lh_status lh_generation_create(lh_engine *engine, const lh_served_model *model,
                               const lh_generation_options *options, lh_generation **out,
                               lh_error *error) {
    assert(options->prompt_count && options->choices);
    lh_generation *generation = calloc(1, sizeof *generation);
    if (!generation)
        return no_memory(error);
    generation->engine = engine;
    generation->model = model;
    generation->on_ready = options->on_ready;
    generation->context = options->context;
    generation->metrics = options->metrics;
    generation->received_us = options->received_us;
    generation->waits_for_ends =
        options->only_whole && options->stop_count == 0; /* else a token may be the end */
    generation->tools = json_incref((json_t *)options->tools);
    generation->asks_of_prompts = lh_sequence_request_asks_of_prompt(&options->sequence);
    generation->choices_of_prompt = options->choices;
    generation->choice_count = generation->open_choices = options->prompt_count * options->choices;
    for (uint32_t i = 0; i < options->prompt_count; i++)
        generation->usage.prompt_tokens += options->prompts[i].token_count;
    pthread_mutex_init(&generation->mutex, NULL);
    lh_event_queue_init(&generation->queue);
    lh_status status = keep_stop_tokens(generation, options, error);
    if (!status)
        status = init_choices(generation, options, error);
    if (status) {
        lh_generation_destroy(generation);
        return status;
    }
    *out = generation;
    return LH_OK;
}

static const char *finish_of(const lh_generation *generation) {
    static const char *const names[] = {"", "stop", "length", "stop,length"};
    unsigned reasons = 0;
    for (uint32_t i = 0; generation->open_choices == 0 && i < generation->choice_count; i++)
        reasons |= generation->sequences[i].choice.reason == LH_FINISH_STOP ? 1u : 2u;
    return names[reasons];
}

lh_generation_progress lh_generation_tell(lh_generation *generation) {
    return (lh_generation_progress){.chain = atomic_load(&generation->chain),
                                    .epoch = atomic_load(&generation->epoch),
                                    .first_token_us = atomic_load(&generation->first_token_us),
                                    .tokens_sampled = atomic_load(&generation->tokens_sampled),
                                    .finish = finish_of(generation)};
}

uint64_t lh_generation_guided_us(const lh_generation *generation) {
    return atomic_load(&generation->guide_work) * LH_CONSTRAINT_WORK_NS / 1000;
}

size_t lh_generation_held_bytes(lh_generation *generation) {
    return lh_event_queue_bytes(&generation->queue);
}

lh_token_usage lh_generation_usage(const lh_generation *generation) {
    lh_token_usage usage = generation->usage;
    for (uint32_t i = 0; i < generation->choice_count; i += generation->choices_of_prompt)
        usage.cached_tokens += generation->sequences[i].cached_tokens;
    for (uint32_t i = 0; i < generation->choice_count; i++)
        usage.thought_tokens += generation->sequences[i].choice.thought_tokens;
    usage.first_token_us = atomic_load(&generation->first_token_us);
    return usage;
}
