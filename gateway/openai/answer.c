/* Submits a request; then pulls pieces, renders them, and says when to wait. */
#include "gateway/openai/answer.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/json/json_text.h"
#include "gateway/openai/lookup.h"
#include "gateway/openai/outage.h"
#include "gateway/openai/timing.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* A stream is filled no further than this before it is sent. */
#define BUFFER_BYTES 16384
/* What a client leaves untaken is counted in such pieces: whoever keeps up has none. */
#define HELD_BYTES 65536u
/* How often a silent stream looks whether there is a chain. */
#define WAITING_US 5000000

struct lh_openai_answer {
    const lh_openai_service *service;
    const lh_openai_dialect *dialect;
    lh_http_exchange *exchange;
    lh_ticket *ticket;
    const char *request_id;
    int64_t received_us;
    int64_t deadline_us; /* 0: none */
    /* Set once, when the request begins; lh_openai_answer_abandon reads both on any thread. */
    _Atomic(lh_generation *) generation;
    atomic_bool gone;

    char id[LH_RANDOM_ID_BYTES];
    lh_openai_frame frame;
    const lh_tool_format *tool_format; /* NULL: no tool may be called */
    uint32_t tool_calls_max;           /* of a choice */
    bool must_call;
    const json_t *tools;    /* the request's; until the generation has them */
    uint32_t choices;       /* of all prompts */
    void *writer;           /* the dialect's */
    const char *form_param; /* that gave the form of the answers; NULL: none did */
    bool streams;
    lh_server_events events;
    size_t held_bytes;  /* of what the client does not take, as the exchange knows them */
    json_t *prompt_ids; /* [prompt]; NULL: not asked for */
    int64_t silent_since_us;

    lh_openai_timing timing;
};

lh_openai_answer *lh_openai_answer_create(const lh_openai_service *service,
                                          const lh_openai_dialect *dialect,
                                          lh_http_exchange *exchange, lh_ticket *ticket,
                                          const char *request_id, int64_t received_us) {
    lh_openai_answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return NULL;
    answer->service = service;
    answer->dialect = dialect;
    answer->exchange = exchange;
    answer->ticket = ticket;
    answer->request_id = request_id;
    answer->received_us = received_us;
    return answer;
}

void lh_openai_answer_destroy(lh_openai_answer *answer) {
    if (!answer)
        return;
    lh_openai_timing_end(&answer->timing);
    json_decref(answer->frame.timing);
    json_decref(answer->frame.tool_kinds);
    lh_generation_destroy(answer->generation);
    answer->dialect->destroy(answer->writer);
    json_decref(answer->prompt_ids);
    lh_server_events_reset(&answer->events);
    free(answer);
}

void lh_openai_answer_abandon(lh_openai_answer *answer) {
    atomic_store(&answer->gone, true);
    lh_generation *generation = atomic_load(&answer->generation);
    if (generation)
        lh_generation_abandon(generation);
}

lh_token_usage lh_openai_answer_usage(const lh_openai_answer *answer) {
    return answer->generation ? lh_generation_usage(answer->generation) : (lh_token_usage){0};
}

uint64_t lh_openai_answer_guided_us(const lh_openai_answer *answer) {
    return answer->generation ? lh_generation_guided_us(answer->generation) : 0;
}

lh_openai_answer_facts lh_openai_answer_tell(const lh_openai_answer *answer) {
    lh_openai_answer_facts facts = {0};
    if (answer->generation) {
        facts.id = answer->id;
        facts.progress = lh_generation_tell(answer->generation);
    }
    return facts;
}

/* ---- Beginning. ---- */

static void on_ready(void *context) {
    lh_http_exchange_wake(context);
}

/* By which marks thoughts are told apart; NULL: they are not. */
static const lh_thinking_marks *thinking_of(const lh_openai_answer *answer,
                                            const lh_openai_request *request) {
    const lh_chat_template *chat = answer->service->model->chat_template;
    bool is_asked = lh_openai_is_chat(request->endpoint) && !request->keeps_thoughts;
    return is_asked ? lh_chat_template_thinking(chat) : NULL;
}

static void set_frame(lh_openai_answer *answer, const lh_openai_request *request,
                      uint32_t prompts) {
    const lh_openai_parameters *parameters = &request->parameters;
    const lh_sampling *sampling = &parameters->sequence.sampling;
    lh_random_id(answer->dialect->id_prefix, answer->id);
    answer->frame = (lh_openai_frame){.endpoint = request->endpoint,
                                      .id = answer->id,
                                      .created = (int64_t)time(NULL),
                                      .received_us = answer->received_us,
                                      .model = answer->service->model,
                                      .service_tier = parameters->service_tier_given,
                                      .logprobs = sampling->want_logprob,
                                      .echoes_logprobs = request->echo && sampling->want_logprob,
                                      .prompt_logprobs = parameters->wants_prompt_logprobs,
                                      .prompt_tops = parameters->prompt_logprobs,
                                      .thinking = thinking_of(answer, request),
                                      .digests = answer->service->config.logits_digest,
                                      .calls_functions = request->calls_functions,
                                      .tool_kinds = json_incref(request->tool_kinds),
                                      .top_logprobs = sampling->top_logprobs,
                                      .returns_ids = parameters->returns_ids,
                                      .prompt_ids = answer->prompt_ids,
                                      .choices_per_prompt = parameters->choices};
    if (request->tools.choice != LH_TOOL_CHOICE_NONE)
        answer->tool_format = lh_chat_template_tool_format(answer->service->model->chat_template);
    answer->form_param = request->format.is_given ? request->format.param : NULL;
    answer->tools = request->kept_tools;
    answer->tool_calls_max = request->tools.has_one_call ? 1 : LH_TOOL_CALLS_MAX;
    answer->must_call = request->tools.choice == LH_TOOL_CHOICE_REQUIRED ||
                        request->tools.choice == LH_TOOL_CHOICE_NAMED;
    answer->streams = parameters->stream;
    answer->choices = prompts * parameters->choices;
}

/* The deadline of the server or of the request, whichever comes first. */
static int64_t deadline_of(const lh_openai_answer *answer, const lh_openai_parameters *parameters) {
    int64_t timeout_us = answer->service->config.request_timeout_us;
    if (parameters->timeout_us && (!timeout_us || parameters->timeout_us < timeout_us))
        timeout_us = parameters->timeout_us;
    return timeout_us ? answer->received_us + timeout_us : 0;
}

static lh_generation_options generation_options(lh_openai_answer *answer,
                                                const lh_openai_parameters *parameters,
                                                const lh_generation_prompt *prompts, size_t count) {
    lh_generation_options options = {.prompts = prompts,
                                     .prompt_count = (uint32_t)count,
                                     .choices = parameters->choices,
                                     .sequence = parameters->sequence,
                                     .stops = parameters->stops,
                                     .stop_count = parameters->stop_count,
                                     .stop_tokens = parameters->stop_tokens,
                                     .stop_token_count = parameters->stop_token_count,
                                     .keeps_tokens = parameters->returns_ids,
                                     .shows_special = parameters->shows_special,
                                     .ignore_eos = parameters->ignore_eos,
                                     .thinking = answer->frame.thinking,
                                     .tool_format = answer->tool_format,
                                     .tool_calls_max = answer->tool_calls_max,
                                     .must_call = answer->must_call,
                                     .tools = answer->tools,
                                     .only_whole = !parameters->stream,
                                     .on_ready = on_ready,
                                     .context = answer->exchange,
                                     .metrics = answer->service->metrics,
                                     .received_us = answer->received_us};
    lh_sequence_request *sequence = &options.sequence;
    sequence->trace = answer->timing.trace;
    sequence->tenant = answer->ticket->tenant;
    sequence->deadline_us = answer->deadline_us;
    if (sequence->priority < answer->ticket->priority)
        sequence->priority = answer->ticket->priority;
    sequence->sampling.want_digest = answer->frame.digests;
    if (!parameters->seed_given)
        sequence->sampling.seed = lh_random_u64();
    return options;
}

/* A client may ask for what is not served as often as it likes. */
static void tell_reason(const lh_openai_answer *answer, lh_log_level level, const char *message,
                        const lh_error *cause) {
    unsigned long long left_out = 0;
    lh_log_limit *limit = lh_ticket_log_limit(answer->service->config.authenticator, answer->ticket,
                                              LH_CLIENT_LINE_REASON);
    if (level == LH_LOG_DEBUG || lh_log_limit_take(limit, lh_clock_us(), &left_out))
        lh_log(level, "api", "%s reason=\"%s\" answer=%s id=%s left_out=%llu", message,
               cause->message, answer->id, answer->request_id, left_out);
}

static bool submit(lh_openai_answer *answer, const lh_generation_options *options,
                   lh_openai_error *error) {
    lh_error cause;
    lh_status status = lh_generation_submit(answer->generation, options, &cause);
    if (status == LH_OK) {
        lh_ticket_enter(answer->ticket, answer->choices, lh_clock_us());
        return true;
    }
    tell_reason(answer, LH_LOG_INFO, "request is not admitted", &cause);
    if (status == LH_ERR_UNAVAILABLE)
        return lh_openai_lookup_refuse(answer->service, error);
    return status == LH_ERR_BUSY ? lh_openai_refuse_full(error, answer->ticket, answer->choices)
                                 : lh_openai_refuse_admission(error, &cause);
}

static bool start(lh_openai_answer *answer, const lh_openai_parameters *parameters,
                  const lh_generation_prompt *prompts, size_t count, lh_openai_error *error) {
    const lh_openai_service *service = answer->service;
    uint64_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += prompts[i].token_count;
    lh_account_refusal refusal;
    if (!lh_ticket_take_prompt(answer->ticket, tokens, lh_clock_us(), &refusal))
        return lh_openai_refuse_client(error, answer->ticket, &refusal);
    lh_openai_timing_open(&answer->timing, service->config.traces, answer->id, answer->request_id,
                          answer->received_us, (uint32_t)tokens, parameters->wants_timing);
    answer->deadline_us = deadline_of(answer, parameters);
    lh_generation_options options = generation_options(answer, parameters, prompts, count);
    lh_generation *generation;
    lh_error cause;
    if (lh_generation_create(service->engine, service->model, &options, &generation, &cause))
        return lh_openai_refuse_cause(error, &cause);
    assert(!answer->generation);
    atomic_store(&answer->generation, generation);
    if (!submit(answer, &options, error))
        return false;
    if (atomic_load(&answer->gone))
        lh_generation_abandon(generation);
    answer->silent_since_us = lh_clock_us();
    return true;
}

/* Lists of ids, which outlive what was read. NULL: no memory. */
static json_t *list_prompts(const lh_generation_prompt *prompts, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *ids = json_array();
        for (uint32_t j = 0; j < prompts[i].token_count; j++)
            ids = lh_json_append(ids, json_integer((json_int_t)prompts[i].tokens[j]));
        all = lh_json_append(all, ids);
    }
    return all;
}

bool lh_openai_answer_begin(lh_openai_answer *answer, lh_openai_reading *reading,
                            lh_openai_error *error) {
    const lh_openai_parameters *parameters = &reading->request.parameters;
    if (parameters->returns_ids &&
        !(answer->prompt_ids = list_prompts(reading->prompts, reading->prompt_count)))
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    set_frame(answer, &reading->request, (uint32_t)reading->prompt_count);
    answer->writer =
        answer->dialect->open(&answer->frame, reading, answer->streams ? &answer->events : NULL);
    if (!answer->writer)
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    return start(answer, parameters, reading->prompts, reading->prompt_count, error);
}

/* ---- Timing. ---- */

/* All choices have ended. False: the timing that the answer is to show has not come, and the
 * exchange will be woken. */
static bool has_timing(lh_openai_answer *answer) {
    int64_t again_us;
    if (answer->frame.timing ||
        lh_openai_timing_ready(&answer->timing, &answer->frame.timing, &again_us))
        return true;
    lh_http_exchange_wake_at(answer->exchange, again_us);
    return false;
}

/* ---- Failing. ---- */

/* The error that the client is shown: that its time was over, or that it has left by closing its
 * sending side, is no fault of a worker. */
static void explain(const lh_openai_answer *answer, const lh_error *cause, lh_openai_error *error) {
    bool gone = atomic_load(&answer->gone);
    tell_reason(answer, gone ? LH_LOG_DEBUG : LH_LOG_WARN, "request failed", cause);
    double seconds = (double)(answer->deadline_us - answer->received_us) / 1e6;
    uint64_t tokens = lh_openai_answer_usage(answer).completion_tokens;
    if (gone)
        lh_openai_refuse(
            error, 499, NULL, "client_closed_request",
            "The client closed its side of the connection before the answer was complete.");
    else if (cause->status == LH_ERR_LIMIT && answer->form_param) /* it was too much to follow */
        lh_openai_refuse(error, 400, answer->form_param, "invalid_value", "'%s': %s.",
                         answer->form_param, cause->message);
    else if (cause->status != LH_ERR_TIMEOUT || !answer->deadline_us ||
             lh_clock_us() < answer->deadline_us)
        lh_openai_refuse_cause(error, cause);
    else if (tokens == 0) /* it may be tried again as it is */
        lh_openai_refuse(error, 408, NULL, "request_timeout",
                         "The request's time, %.3g s, was over before its first token.", seconds);
    else
        lh_openai_refuse(error, 504, NULL, "request_timeout",
                         "The request's time, %.3g s, was over after %llu tokens.", seconds,
                         (unsigned long long)tokens);
}

/* ---- Streaming. ---- */

/* The stream has begun and cannot go on: it ends with the error, and the connection with it. */
static lh_status fail_stream(lh_openai_answer *answer, const lh_error *cause) {
    lh_openai_error error;
    explain(answer, cause, &error);
    lh_http_exchange_close_after(answer->exchange);
    return answer->dialect->fail(answer->writer, &error);
}

/* Fills the stream with the pieces that there are. LH_AGAIN: none; LH_ERR_NO_MEMORY. */
static lh_status fill(lh_openai_answer *answer) {
    const lh_openai_dialect *dialect = answer->dialect;
    lh_server_events *events = &answer->events;
    lh_status status = LH_OK;
    while (!status && !events->done && lh_server_events_pending(events) < BUFFER_BYTES) {
        lh_generation_piece piece;
        lh_error cause;
        status = lh_generation_pull(answer->generation, &piece, &cause);
        lh_token_usage usage = lh_openai_answer_usage(answer);
        if (!status)
            status = dialect->put(answer->writer, &piece, &usage);
        else if (status == LH_ERR_CLOSED)
            status = has_timing(answer) ? dialect->end(answer->writer, &usage) : LH_AGAIN;
        else if (status != LH_AGAIN)
            status = fail_stream(answer, &cause);
    }
    return status == LH_AGAIN && lh_server_events_pending(events) > 0 ? LH_OK : status;
}

/* Nothing to send: a comment, if the silence has lasted; else waits for it to last, or for the
 * engine. A stream that has no chain says so sooner. */
static lh_http_progress stay_alive(lh_openai_answer *answer) {
    if (lh_openai_timing_waits(&answer->timing)) /* it is woken for that */
        return LH_HTTP_WAIT;
    const int64_t silence_us = (int64_t)answer->service->config.keep_alive_ms * 1000;
    const int64_t now_us = lh_clock_us(), silent_us = now_us - answer->silent_since_us;
    char waiting[LH_OPENAI_WAITING_BYTES] = "";
    /* Not for each token: it takes a lock. */
    if (silent_us >= lh_min_i64(silence_us, WAITING_US))
        lh_openai_outage_waiting(answer->service, waiting);
    if (silent_us >= silence_us || waiting[0])
        return answer->dialect->keep_alive(answer->writer, waiting) ? LH_HTTP_BREAK : LH_HTTP_READY;
    int64_t look_us = now_us + lh_min_i64(silence_us - silent_us, WAITING_US);
    lh_http_exchange_wake_at(answer->exchange, look_us);
    return LH_HTTP_WAIT;
}

/* False: the client takes so little, and others need the memory. */
static bool count_held(lh_openai_answer *answer) {
    if (lh_server_events_pending(&answer->events) < BUFFER_BYTES && !answer->held_bytes)
        return true;
    size_t bytes = lh_generation_held_bytes(answer->generation) / HELD_BYTES * HELD_BYTES;
    if (bytes == answer->held_bytes)
        return true;
    answer->held_bytes = bytes;
    return lh_http_exchange_hold(answer->exchange, bytes);
}

lh_http_progress lh_openai_answer_read(lh_openai_answer *answer, char *buffer, size_t capacity,
                                       size_t *length) {
    lh_server_events *events = &answer->events;
    if (lh_server_events_pending(events) == 0) {
        if (events->done)
            return LH_HTTP_END;
        lh_status status = fill(answer);
        if (status && status != LH_AGAIN)
            return LH_HTTP_BREAK;
        lh_http_progress progress = status == LH_AGAIN ? stay_alive(answer) : LH_HTTP_READY;
        if (progress != LH_HTTP_READY)
            return progress;
        if (!count_held(answer))
            return LH_HTTP_BREAK;
    }
    *length = lh_server_events_take(events, buffer, capacity);
    answer->silent_since_us = lh_clock_us();
    return LH_HTTP_READY;
}

bool lh_openai_answer_is_over(const lh_openai_answer *answer) {
    return answer->events.done;
}

/* ---- Before the reply. ---- */

static void open_stream(const lh_openai_dialect *dialect, lh_http_reply *reply) {
    const char *type = dialect->stream_type;
    reply->status = 200;
    reply->streamed = true;
    lh_http_reply_add(reply, "Content-Type", "%s",
                      type ? type : "text/event-stream; charset=utf-8");
    lh_http_reply_add(reply, "Cache-Control", "no-cache");
    lh_http_reply_add(reply, "X-Accel-Buffering", "no");
}

/* Waits for the first piece, or for the silence to have lasted. */
static lh_http_progress proceed_stream(lh_openai_answer *answer, lh_http_reply *reply,
                                       lh_openai_error *error) {
    lh_generation_piece piece;
    lh_error cause;
    lh_http_progress progress = LH_HTTP_READY;
    lh_status status = lh_generation_pull(answer->generation, &piece, &cause);
    lh_token_usage usage = lh_openai_answer_usage(answer);
    if (status == LH_AGAIN)
        progress = stay_alive(answer);
    else if (!status && answer->dialect->put(answer->writer, &piece, &usage))
        status = lh_fail(&cause, LH_ERR_NO_MEMORY, "no memory for a stream");
    if (status && status != LH_AGAIN)
        explain(answer, &cause, error);
    else if (progress == LH_HTTP_READY)
        open_stream(answer->dialect, reply);
    return progress;
}

static lh_http_progress proceed_whole(lh_openai_answer *answer, lh_http_reply *reply,
                                      lh_openai_error *error) {
    lh_generation_piece piece;
    lh_error cause = {.status = LH_ERR_NO_MEMORY, .message = "no memory for an answer"};
    lh_status status = LH_OK;
    while (!status) {
        lh_error why;
        status = lh_generation_pull(answer->generation, &piece, &why);
        lh_token_usage usage = lh_openai_answer_usage(answer);
        if (!status)
            status = answer->dialect->put(answer->writer, &piece, &usage);
        else if (status != LH_AGAIN && status != LH_ERR_CLOSED)
            cause = why;
    }
    if (status == LH_AGAIN || (status == LH_ERR_CLOSED && !has_timing(answer)))
        return LH_HTTP_WAIT;
    lh_token_usage usage = lh_openai_answer_usage(answer);
    if (status == LH_ERR_CLOSED &&
        !lh_openai_json_reply(200, answer->dialect->whole(answer->writer, &usage), reply))
        return LH_HTTP_READY;
    explain(answer, &cause, error);
    return LH_HTTP_READY;
}

lh_http_progress lh_openai_answer_proceed(lh_openai_answer *answer, lh_http_reply *reply,
                                          lh_openai_error *error) {
    error->status = 0;
    return answer->streams ? proceed_stream(answer, reply, error)
                           : proceed_whole(answer, reply, error);
}
