/* The beginning of an answer: tokenizes, fits, asks the client's account, and submits. */
#include "common/clock.h"
#include "common/log.h"
#include "gateway/openai/openai_answer_state.h"
#include "gateway/openai/openai_prompt.h"
#include "gateway/openai/openai_refusals.h"

#include <stdlib.h>
#include <time.h>

static bool out_of_memory(lh_openai_error *error) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_NO_MEMORY});
    return false;
}

static void on_ready(void *context) {
    lh_http_exchange_wake(context);
}

static void set_frame(lh_openai_answer *answer, lh_openai_endpoint endpoint,
                      const lh_openai_parameters *parameters) {
    lh_random_id(endpoint == LH_OPENAI_CHAT ? "chatcmpl-" : "cmpl-", answer->id);
    answer->frame = (lh_openai_frame){.endpoint = endpoint,
                                      .id = answer->id,
                                      .created = (int64_t)time(NULL),
                                      .model = answer->options.model,
                                      .service_tier = parameters->service_tier_given,
                                      .logprobs = parameters->sampling.want_logprob,
                                      .digests = answer->options.logits_digest,
                                      .top_logprobs = parameters->sampling.top_logprobs};
    answer->streams = parameters->stream;
    answer->stream =
        (lh_openai_stream){.frame = &answer->frame,
                           .choices_per_prompt = parameters->choices,
                           .include_usage = parameters->include_usage,
                           .continuous_usage = parameters->include_usage && parameters->continuous_usage};
}

static void open_trace(lh_openai_answer *answer, const lh_openai_parameters *parameters,
                       const lh_generation_prompt *prompts, size_t count) {
    uint32_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += prompts[i].token_count;
    lh_openai_timing_open(&answer->timing, answer->id, tokens, parameters->wants_timing);
}

/* The server's or the request's own, whichever comes first. */
static int64_t deadline_of(const lh_openai_answer *answer, const lh_openai_parameters *parameters) {
    int64_t timeout_us = answer->options.timeout_us;
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
                                     .has_overlap = parameters->has_overlap,
                                     .overlap = parameters->overlap,
                                     .trace = answer->timing.trace,
                                     .tenant = answer->pass->tenant,
                                     .cache_salt = parameters->cache_salt,
                                     .priority = parameters->priority > answer->pass->priority
                                                     ? parameters->priority
                                                     : answer->pass->priority,
                                     .deadline_us = answer->deadline_us,
                                     .sampling = parameters->sampling,
                                     .stops = parameters->stops,
                                     .stop_count = parameters->stop_count,
                                     .stop_tokens = parameters->stop_tokens,
                                     .stop_token_count = parameters->stop_token_count,
                                     .ignore_eos = parameters->ignore_eos,
                                     .min_tokens = parameters->min_tokens,
                                     .only_whole = !parameters->stream,
                                     .on_ready = on_ready,
                                     .context = answer->exchange};
    options.sampling.want_digest = answer->options.logits_digest;
    if (!parameters->seed_given)
        options.sampling.seed = lh_random_u64();
    return options;
}

static bool take(lh_openai_answer *answer, const lh_generation_prompt *prompts, size_t count,
                 lh_openai_error *error) {
    uint64_t tokens = 0;
    lh_account_refusal refusal;
    for (size_t i = 0; i < count; i++)
        tokens += prompts[i].token_count;
    if (lh_pass_take(answer->pass, tokens, lh_clock_us(), &refusal))
        return true;
    lh_openai_refuse_client(error, answer->pass, &refusal);
    return false;
}

/* The engine takes the sequences, or the client is given back what it paid for them. */
static bool submit(lh_openai_answer *answer, lh_generation *generation, const lh_generation_options *options,
                   lh_openai_error *error) {
    lh_error cause;
    uint32_t sequences = lh_generation_choices(generation);
    lh_status status = lh_generation_submit(generation, options, &cause);
    if (status == LH_OK) {
        lh_pass_enter(answer->pass, sequences, lh_clock_us());
        return true;
    }
    lh_log(LH_LOG_INFO, "api", "request not admitted: %s", cause.message);
    lh_pass_refund(answer->pass, lh_clock_us());
    lh_openai_error_from(error, &cause);
    if (status == LH_ERR_BUSY)
        lh_openai_refuse_full(error, answer->pass, sequences, lh_clock_us());
    return false;
}

static bool start(lh_openai_answer *answer, const lh_openai_parameters *parameters,
                  const lh_generation_prompt *prompts, size_t count, lh_openai_error *error) {
    if (!take(answer, prompts, count, error))
        return false;
    open_trace(answer, parameters, prompts, count);
    answer->deadline_us = deadline_of(answer, parameters);
    lh_generation_options options = generation_options(answer, parameters, prompts, count);
    lh_generation *generation;
    lh_error cause;
    if (lh_generation_create(answer->options.engine, answer->options.model, &options, &generation, &cause)) {
        lh_openai_error_from(error, &cause);
        return false;
    }
    atomic_store(&answer->generation, generation);
    answer->stream.choices = lh_generation_choices(generation);
    answer->stream.echoes = answer->echoes;
    if (!parameters->stream) {
        answer->gathered = calloc(lh_generation_choices(generation), sizeof *answer->gathered);
        if (!answer->gathered)
            return out_of_memory(error);
    }
    if (!submit(answer, generation, &options, error))
        return false;
    if (atomic_load(&answer->gone))
        lh_generation_abandon(generation);
    answer->silent_since_us = lh_clock_us();
    return true;
}

/* What the chain's KV caches hold may be less than the model's context. */
static uint32_t context_now(const lh_openai_answer *answer) {
    uint64_t positions = lh_engine_current_room(answer->options.engine).positions_max;
    uint32_t context = answer->options.model->context;
    return positions < context ? (uint32_t)positions : context;
}

static size_t content_bytes(const lh_openai_chat_request *request) {
    size_t bytes = 0;
    for (size_t i = 0; i < request->message_count; i++)
        bytes += request->messages[i].content_length;
    return bytes;
}

bool lh_openai_answer_begin_chat(lh_openai_answer *answer, const lh_openai_chat_request *request,
                                 lh_openai_error *error) {
    const lh_served_model *model = answer->options.model;
    lh_tokens tokens = {0};
    lh_generation_prompt prompt;
    uint32_t context = context_now(answer);
    set_frame(answer, LH_OPENAI_CHAT, &request->parameters);
    bool begun = lh_openai_prompt_may_fit(context, LH_OPENAI_CHAT, content_bytes(request),
                                          answer->options.longest_token_bytes, error) &&
                 lh_openai_prompt_from_chat(model, request, &tokens, error) &&
                 lh_openai_prompt_fit(context, LH_OPENAI_CHAT, tokens.count, &request->parameters,
                                      &prompt.max_tokens, error);
    if (begun) {
        prompt.tokens = tokens.ids;
        prompt.token_count = (uint32_t)tokens.count;
        begun = start(answer, &request->parameters, &prompt, 1, error);
    }
    free(tokens.ids);
    return begun;
}

static bool keep_echo(lh_openai_answer *answer, const lh_openai_completion_request *request,
                      lh_openai_error *error) {
    answer->echoes = calloc(request->prompt_count, sizeof *answer->echoes);
    if (!answer->echoes)
        return out_of_memory(error);
    answer->echo_count = (uint32_t)request->prompt_count;
    for (size_t i = 0; i < request->prompt_count; i++)
        if (lh_openai_prompt_text(answer->options.model, &request->prompts[i], &answer->echoes[i]))
            return out_of_memory(error);
    return true;
}

static bool tokenize(lh_openai_answer *answer, const lh_openai_completion_request *request, lh_tokens *tokens,
                     lh_generation_prompt *prompts, lh_openai_error *error) {
    const lh_served_model *model = answer->options.model;
    uint32_t context = context_now(answer);
    for (size_t i = 0; i < request->prompt_count; i++) {
        if (!lh_openai_prompt_may_fit(context, LH_OPENAI_COMPLETIONS, request->prompts[i].length,
                                      answer->options.longest_token_bytes, error) ||
            !lh_openai_prompt_from_completion(model, &request->prompts[i], &tokens[i], error) ||
            !lh_openai_prompt_fit(context, LH_OPENAI_COMPLETIONS, tokens[i].count, &request->parameters,
                                  &prompts[i].max_tokens, error))
            return false;
        prompts[i].tokens = tokens[i].ids;
        prompts[i].token_count = (uint32_t)tokens[i].count;
    }
    return true;
}

bool lh_openai_answer_begin_completion(lh_openai_answer *answer, const lh_openai_completion_request *request,
                                       lh_openai_error *error) {
    size_t count = request->prompt_count;
    set_frame(answer, LH_OPENAI_COMPLETIONS, &request->parameters);
    if (request->echo && !keep_echo(answer, request, error))
        return false;
    lh_tokens *tokens = calloc(count, sizeof *tokens);
    lh_generation_prompt *prompts = calloc(count, sizeof *prompts);
    bool begun;
    if (tokens && prompts)
        begun = tokenize(answer, request, tokens, prompts, error) &&
                start(answer, &request->parameters, prompts, count, error);
    else
        begun = out_of_memory(error);
    for (size_t i = 0; tokens && i < count; i++)
        free(tokens[i].ids);
    free(tokens);
    free(prompts);
    return begun;
}
