/* json_t out of plain structs. A NULL among the parts makes the whole NULL. */
#include "gateway/openai/render.h"

#include "common/base/growing_array.h"
#include "common/json/json_text.h"
#include "gateway/openai/custom_tool.h"
#include "gateway/openai/logprobs.h"
#include "gateway/text/model_aliases.h"

#include <stdlib.h>
#include <string.h>

static const char *finish_name(const lh_openai_frame *frame, lh_finish_reason reason,
                               bool has_called) {
    return reason == LH_FINISH_LENGTH ? "length"
           : !has_called              ? "stop"
           : frame->calls_functions   ? "function_call"
                                      : "tool_calls";
}

static json_t *render_usage(const lh_openai_frame *frame, const lh_token_usage *usage) {
    json_t *all =
        json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                  "completion_tokens", (json_int_t)usage->completion_tokens, "total_tokens",
                  (json_int_t)(usage->prompt_tokens + usage->completion_tokens),
                  "prompt_tokens_details", "cached_tokens", (json_int_t)usage->cached_tokens);
    return frame->thinking ? lh_json_set(all, "completion_tokens_details",
                                         json_pack("{s:I}", "reasoning_tokens",
                                                   (json_int_t)usage->thought_tokens))
                           : all;
}

/* The object that holds `choices`, which it takes. */
static json_t *render_frame(const lh_openai_frame *frame, bool is_chunk, json_t *choices,
                            const lh_token_usage *usage) {
    const char *object = frame->endpoint != LH_OPENAI_CHAT ? "text_completion"
                         : is_chunk                        ? "chat.completion.chunk"
                                                           : "chat.completion";
    json_t *all = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", frame->id, "object", object,
                            "created", (json_int_t)frame->created, "model", frame->model->id,
                            "system_fingerprint", frame->model->fingerprint, "choices", choices);
    if (frame->service_tier)
        all = lh_json_set(all, "service_tier", json_string("default"));
    if (usage)
        all = lh_json_set(all, "usage", render_usage(frame, usage));
    if (frame->timing)
        all = lh_json_set(all, "longhaul", json_pack("{s:O}", "timing", frame->timing));
    return all;
}

static json_t *render_logprobs(const lh_openai_frame *frame, const lh_generation_piece *piece) {
    if (!frame->logprobs)
        return json_null();
    return lh_openai_logprobs(frame->endpoint, frame->model->tokenizer, piece->tokens,
                              piece->token_count, frame->top_logprobs);
}

static json_t *render_echo(const lh_openai_frame *frame, const lh_generation_piece *piece) {
    return lh_openai_echo_logprobs(frame->model->tokenizer, &piece->prompt->scores,
                                   frame->top_logprobs);
}

/* What ended it of what the request named, as vLLM tells it: the string, or the token's id. */
static json_t *render_stop(const lh_generation_piece *piece) {
    if (piece->stop.bytes)
        return lh_json_text(piece->stop.bytes, piece->stop.length);
    return piece->stop_token < 0 ? json_null() : json_integer((json_int_t)piece->stop_token);
}

static json_t *render_ids(const lh_generation_piece *piece) {
    json_t *ids = json_array();
    for (size_t i = 0; i < piece->token_count; i++)
        ids = lh_json_append(ids, json_integer((json_int_t)piece->tokens[i].answer.token));
    return ids;
}

/* The ids of a choice's prompt: of completions each choice tells them, of chat the whole does. */
static json_t *add_prompt_ids(const lh_openai_frame *frame, uint32_t choice, json_t *to) {
    size_t prompt = choice / frame->choices_per_prompt;
    return lh_json_set(to, "prompt_token_ids",
                       json_incref(json_array_get(frame->prompt_ids, prompt)));
}

/* ---- Chunks. ---- */

/* A chunk with one choice, which it takes. */
static json_t *render_chunk(const lh_openai_frame *frame, json_t *choice,
                            const lh_token_usage *usage) {
    return render_frame(frame, true, lh_json_append(json_array(), choice), usage);
}

/* Of chat: what the model thinks and what it answers, each where there is some. */
static json_t *render_delta(const lh_generation_piece *piece) {
    json_t *delta = json_object();
    if (piece->thought_length > 0)
        delta = lh_json_set(delta, "reasoning_content",
                            lh_json_text(piece->thought, piece->thought_length));
    if (piece->length > 0 || piece->thought_length == 0)
        delta = lh_json_set(delta, "content", lh_json_text(piece->text, piece->length));
    return delta;
}

/* One choice of a chunk: its piece (NULL: no text), what is known of its tokens (taken), and its
 * end (NULL: goes on). */
static json_t *chunk_choice(const lh_openai_frame *frame, uint32_t index,
                            const lh_generation_piece *piece, json_t *logprobs,
                            const char *finish) {
    if (frame->endpoint != LH_OPENAI_CHAT)
        return json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "text",
                         lh_json_text(piece ? piece->text : NULL, piece ? piece->length : 0),
                         "logprobs", logprobs, "finish_reason", finish);
    json_t *delta = piece ? render_delta(piece) : json_object();
    return json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "delta", delta,
                     "logprobs", logprobs, "finish_reason", finish);
}

json_t *lh_openai_opening_json(const lh_openai_frame *frame, uint32_t choice, const char *text,
                               size_t length, const lh_token_usage *usage) {
    const lh_generation_piece echo = {.text = text, .length = length};
    json_t *opening =
        frame->endpoint == LH_OPENAI_CHAT
            ? json_pack("{s:I, s:{s:s, s:s}, s:n, s:n}", "index", (json_int_t)choice, "delta",
                        "role", "assistant", "content", "", "logprobs", "finish_reason")
            : chunk_choice(frame, choice, &echo, json_null(), NULL);
    bool is_chat = frame->endpoint == LH_OPENAI_CHAT;
    if (frame->prompt_ids && !is_chat)
        opening = add_prompt_ids(frame, choice, opening);
    json_t *chunk = render_chunk(frame, opening, usage);
    return frame->prompt_ids && is_chat ? add_prompt_ids(frame, 0, chunk) : chunk;
}

json_t *lh_openai_echo_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                            const char *text, size_t length, const lh_token_usage *usage) {
    const lh_generation_piece echo = {.text = text, .length = length};
    json_t *logprobs = render_echo(frame, piece);
    return render_chunk(frame, chunk_choice(frame, piece->choice, &echo, logprobs, NULL), usage);
}

json_t *lh_openai_chunk_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                             const lh_token_usage *usage) {
    json_t *choice = chunk_choice(frame, piece->choice, piece, render_logprobs(frame, piece), NULL);
    if (frame->digests)
        choice = lh_json_set(choice, "logits_digests",
                             lh_openai_digests(piece->tokens, piece->token_count));
    if (frame->returns_ids)
        choice = lh_json_set(choice, "token_ids", render_ids(piece));
    return render_chunk(frame, choice, usage);
}

json_t *lh_openai_end_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           const lh_token_usage *usage) {
    json_t *choice = chunk_choice(frame, piece->choice, NULL, json_null(),
                                  finish_name(frame, piece->reason, piece->has_called));
    return render_chunk(frame, lh_json_set(choice, "stop_reason", render_stop(piece)), usage);
}

/* A chunk of chat with a piece of one call, which it takes: of what is called, and for those who
 * know several calls the rest of it. */
static json_t *render_call(const lh_openai_frame *frame, uint32_t choice, json_t *function,
                           json_t *call, const lh_token_usage *usage) {
    json_t *delta = frame->calls_functions ? json_pack("{s:o}", "function_call", function)
                                           : json_pack("{s:[o]}", "tool_calls",
                                                       lh_json_set(call, "function", function));
    if (frame->calls_functions)
        json_decref(call);
    return render_chunk(frame,
                        json_pack("{s:I, s:o, s:n, s:n}", "index", (json_int_t)choice, "delta",
                                  delta, "logprobs", "finish_reason"),
                        usage);
}

/* The same of a custom tool's call. */
static json_t *render_custom_call(const lh_openai_frame *frame, uint32_t choice, json_t *call,
                                  const lh_token_usage *usage) {
    return render_chunk(frame,
                        json_pack("{s:I, s:{s:[o]}, s:n, s:n}", "index", (json_int_t)choice,
                                  "delta", "tool_calls", call, "logprobs", "finish_reason"),
                        usage);
}

json_t *lh_openai_custom_input_json(const lh_openai_frame *frame, uint32_t choice, uint32_t call,
                                    const char *arguments, size_t length,
                                    const lh_token_usage *usage) {
    return render_custom_call(frame, choice,
                              json_pack("{s:I, s:{s:o}}", "index", (json_int_t)call, "custom",
                                        "input", lh_openai_custom_input(arguments, length)),
                              usage);
}

json_t *lh_openai_call_head_json(const lh_openai_frame *frame, uint32_t choice,
                                 const lh_tool_call_delta *call, const lh_token_usage *usage) {
    if (lh_openai_custom_is(frame->tool_kinds, call->name))
        return render_custom_call(frame, choice,
                                  json_pack("{s:I, s:s, s:s, s:{s:s, s:s}}", "index",
                                            (json_int_t)call->index, "id", call->id, "type",
                                            "custom", "custom", "name", call->name, "input", ""),
                                  usage);
    return render_call(frame, choice,
                       json_pack("{s:o, s:s}", "name", lh_json_text(call->name, strlen(call->name)),
                                 "arguments", ""),
                       json_pack("{s:I, s:s, s:s}", "index", (json_int_t)call->index, "id",
                                 call->id, "type", "function"),
                       usage);
}

json_t *lh_openai_call_arguments_json(const lh_openai_frame *frame, uint32_t choice, uint32_t call,
                                      const char *arguments, size_t length,
                                      const lh_token_usage *usage) {
    return render_call(frame, choice,
                       json_pack("{s:o}", "arguments", lh_json_text(arguments, length)),
                       json_pack("{s:I}", "index", (json_int_t)call), usage);
}

json_t *lh_openai_usage_json(const lh_openai_frame *frame, const lh_token_usage *usage) {
    return render_frame(frame, true, json_array(), usage);
}

/* ---- Answers at once. ---- */

void lh_openai_gathered_reset(lh_openai_gathered *gathered) {
    lh_text_buffer_reset(&gathered->text);
    lh_text_buffer_reset(&gathered->thought);
    lh_text_buffer_reset(&gathered->arguments);
    free(gathered->calls);
    json_decref(gathered->logprobs);
    json_decref(gathered->digests);
    json_decref(gathered->ids);
    json_decref(gathered->stop_reason);
    json_decref(gathered->prompt_logprobs);
    *gathered = (lh_openai_gathered){0};
}

/* Calls come one after the other: the arguments of each follow those of the one before. */
static bool gather_calls(const lh_generation_piece *piece, lh_openai_gathered *gathered) {
    for (size_t i = 0; i < piece->call_count; i++) {
        const lh_tool_call_delta *delta = &piece->calls[i];
        if (delta->begins) {
            if (!lh_growing_array_reserve(&gathered->calls, &gathered->call_capacity,
                                          gathered->call_count + 1, sizeof *gathered->calls))
                return false;
            gathered->calls[gathered->call_count] = *delta;
            gathered->calls[gathered->call_count].arguments_at = gathered->arguments.length;
            gathered->calls[gathered->call_count++].arguments_length = 0;
        }
        if (lh_text_buffer_append(&gathered->arguments, piece->arguments + delta->arguments_at,
                                  delta->arguments_length, NULL))
            return false;
        gathered->calls[gathered->call_count - 1].arguments_length += delta->arguments_length;
    }
    return true;
}

/* A choice's first piece. False: no memory. */
static bool gather_scores(const lh_openai_frame *frame, const lh_generation_piece *piece,
                          lh_openai_gathered *gathered) {
    if (!piece->prompt)
        return true;
    if (frame->echoes_logprobs &&
        !lh_openai_logprobs_extend(&gathered->logprobs, render_echo(frame, piece)))
        return false;
    if (!frame->prompt_logprobs)
        return true;
    gathered->prompt_logprobs = lh_openai_prompt_logprobs(
        frame->model->tokenizer, &piece->prompt->scores, frame->prompt_tops);
    return gathered->prompt_logprobs;
}

lh_status lh_openai_gather(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           lh_openai_gathered *gathered) {
    bool whole =
        !lh_text_buffer_append(&gathered->text, piece->text, piece->length, NULL) &&
        !lh_text_buffer_append(&gathered->thought, piece->thought, piece->thought_length, NULL) &&
        gather_calls(piece, gathered) && gather_scores(frame, piece, gathered) &&
        (!frame->logprobs ||
         lh_openai_logprobs_extend(&gathered->logprobs, render_logprobs(frame, piece))) &&
        (!frame->digests ||
         lh_openai_logprobs_extend(&gathered->digests,
                                   lh_openai_digests(piece->tokens, piece->token_count)));
    if (whole && frame->returns_ids)
        whole = lh_openai_logprobs_extend(&gathered->ids, render_ids(piece));
    if (piece->finished) {
        gathered->reason = piece->reason;
        gathered->stop_reason = render_stop(piece);
        whole = whole && gathered->stop_reason;
    }
    return whole ? LH_OK : LH_ERR_NO_MEMORY;
}

static json_t *render_function(const lh_openai_gathered *gathered, const lh_tool_call_delta *call) {
    const char *arguments =
        gathered->arguments.bytes ? gathered->arguments.bytes + call->arguments_at : "";
    return json_pack("{s:o, s:o}", "name", lh_json_text(call->name, strlen(call->name)),
                     "arguments", lh_json_text(arguments, call->arguments_length));
}

static json_t *render_custom(const lh_openai_gathered *gathered, const lh_tool_call_delta *call) {
    const char *arguments = gathered->arguments.bytes + call->arguments_at;
    return json_pack("{s:s, s:o}", "name", call->name, "input",
                     lh_openai_custom_input(arguments, call->arguments_length));
}

static json_t *render_calls(const lh_openai_frame *frame, const lh_openai_gathered *gathered) {
    json_t *list = json_array();
    for (size_t i = 0; i < gathered->call_count; i++) {
        const lh_tool_call_delta *call = &gathered->calls[i];
        bool is_custom = lh_openai_custom_is(frame->tool_kinds, call->name);
        const char *type = is_custom ? "custom" : "function";
        list = lh_json_append(list, json_pack("{s:s, s:s, s:o}", "id", call->id, "type", type, type,
                                              is_custom ? render_custom(gathered, call)
                                                        : render_function(gathered, call)));
    }
    return list;
}

/* Takes the text, for which a call may stand. */
static json_t *render_message(const lh_openai_frame *frame, const lh_openai_gathered *gathered,
                              json_t *text) {
    if (gathered->call_count > 0 && gathered->text.length == 0) {
        json_decref(text);
        text = json_null();
    }
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal");
    if (gathered->call_count > 0 && frame->calls_functions)
        message =
            lh_json_set(message, "function_call", render_function(gathered, &gathered->calls[0]));
    else if (gathered->call_count > 0)
        message = lh_json_set(message, "tool_calls", render_calls(frame, gathered));
    if (gathered->thought.length > 0)
        message = lh_json_set(message, "reasoning_content",
                              lh_json_text(gathered->thought.bytes, gathered->thought.length));
    return message;
}

static json_t *answer_choice(const lh_openai_frame *frame, uint32_t index,
                             const lh_openai_gathered *gathered) {
    json_t *text = lh_json_text(gathered->text.bytes, gathered->text.length), *choice;
    json_t *logprobs = gathered->logprobs ? json_incref(gathered->logprobs) : json_null();
    const char *finish = finish_name(frame, gathered->reason, gathered->call_count > 0);
    if (frame->endpoint == LH_OPENAI_CHAT)
        choice = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)index, "message",
                           render_message(frame, gathered, text), "logprobs", logprobs,
                           "finish_reason", finish);
    else
        choice = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)index, "text", text,
                           "logprobs", logprobs, "finish_reason", finish);
    if (gathered->digests)
        choice = lh_json_set(choice, "logits_digests", json_incref(gathered->digests));
    if (gathered->ids)
        choice = lh_json_set(choice, "token_ids", json_incref(gathered->ids));
    if (frame->prompt_ids && frame->endpoint != LH_OPENAI_CHAT)
        choice = add_prompt_ids(frame, index, choice);
    if (gathered->prompt_logprobs && frame->endpoint != LH_OPENAI_CHAT)
        choice = lh_json_set(choice, "prompt_logprobs", json_incref(gathered->prompt_logprobs));
    return lh_json_set(choice, "stop_reason",
                       gathered->stop_reason ? json_incref(gathered->stop_reason) : json_null());
}

json_t *lh_openai_answer_json(const lh_openai_frame *frame, const lh_openai_gathered *choices,
                              uint32_t count, const lh_token_usage *usage) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        list = lh_json_append(list, answer_choice(frame, i, &choices[i]));
    json_t *all = render_frame(frame, false, list, usage);
    if (frame->prompt_logprobs && frame->endpoint == LH_OPENAI_CHAT)
        all = lh_json_set(all, "prompt_logprobs", json_incref(choices[0].prompt_logprobs));
    return frame->prompt_ids && frame->endpoint == LH_OPENAI_CHAT ? add_prompt_ids(frame, 0, all)
                                                                  : all;
}

static json_t *render_sampling(const lh_sampling_defaults *defaults) {
    json_t *all = json_object();
    for (int field = 0; field < LH_SAMPLING_FIELDS; field++) {
        const lh_sampling_range *range = lh_sampling_range_of((lh_sampling_field)field);
        double value = defaults->values[field];
        all = lh_json_set(all, range->name,
                          range->is_integer ? json_integer((json_int_t)value) : json_real(value));
    }
    return all;
}

static json_t *render_aliases(const lh_served_model *model) {
    json_t *list = json_array();
    const char *rest = model->aliases, *name;
    size_t length;
    while ((name = lh_model_aliases_next(&rest, &length)))
        list = lh_json_append(list, lh_json_text(name, length));
    return list;
}

json_t *lh_openai_model_json(const lh_served_model *model, uint32_t served_context,
                             const char *name, size_t length) {
    return json_pack("{s:o, s:s, s:I, s:s, s:s, s:I, s:{s:I, s:I, s:I}, s:o, s:{s:o}}", "id",
                     lh_json_text(name, length), "object", "model", "created",
                     (json_int_t)model->created, "owned_by", "longhaul", "root", model->id,
                     "max_model_len", (json_int_t)served_context, "meta", "n_ctx",
                     (json_int_t)served_context, "n_ctx_train", (json_int_t)model->trained_context,
                     "n_vocab", (json_int_t)model->vocabulary, "aliases", render_aliases(model),
                     "longhaul", "default_sampling", render_sampling(&model->sampling));
}
