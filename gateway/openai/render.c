/* json_t out of plain structs. A NULL among the parts makes the whole NULL, which lh_json_render
 * reports. */
#include "gateway/openai/render.h"

#include "common/json/json_text.h"
#include "gateway/http/sse.h"
#include "gateway/openai/logprobs.h"

static const char *finish_name(lh_finish_reason reason) {
    return reason == LH_FINISH_STOP ? "stop" : "length";
}

static json_t *usage_object(const lh_openai_usage *usage) {
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                     "completion_tokens", (json_int_t)usage->completion_tokens, "total_tokens",
                     (json_int_t)(usage->prompt_tokens + usage->completion_tokens),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)usage->cached_tokens);
}

/* The object that holds `choices`, which it takes. */
static json_t *frame_object(const lh_openai_frame *frame, const char *object, json_t *choices,
                            const lh_openai_usage *usage) {
    json_t *all = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", frame->id, "object", object,
                            "created", (json_int_t)frame->created, "model", frame->model->id,
                            "system_fingerprint", frame->model->fingerprint, "choices", choices);
    bool whole = all;
    if (whole && frame->service_tier)
        whole = json_object_set_new(all, "service_tier", json_string("default")) == 0;
    if (whole && usage)
        whole = json_object_set_new(all, "usage", usage_object(usage)) == 0;
    if (whole && frame->timing)
        whole =
            json_object_set_new(all, "longhaul", json_pack("{s:O}", "timing", frame->timing)) == 0;
    if (whole)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- Chunks. ---- */

/* A chunk with one choice; takes `choice`. */
static lh_status render_chunk(const lh_openai_frame *frame, json_t *choice,
                              const lh_openai_usage *usage, lh_text_buffer *out) {
    const char *object =
        frame->endpoint == LH_OPENAI_CHAT ? "chat.completion.chunk" : "text_completion";
    json_t *chunk = choice ? frame_object(frame, object, json_pack("[o]", choice), usage) : NULL;
    lh_status status = lh_sse_open(out);
    if (status)
        json_decref(chunk);
    else
        status = lh_json_render(chunk, out);
    return status ? status : lh_sse_close(out);
}

/* One choice of a chunk: its text (NULL: none), what is known of its tokens (taken), and its end
 * (NULL: goes on). */
static json_t *chunk_choice(const lh_openai_frame *frame, uint32_t index, json_t *text,
                            json_t *logprobs, const char *finish) {
    if (frame->endpoint == LH_OPENAI_CHAT)
        return json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "delta",
                         text ? json_pack("{s:o}", "content", text) : json_object(), "logprobs",
                         logprobs, "finish_reason", finish);
    return json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "text",
                     text ? text : json_string(""), "logprobs", logprobs, "finish_reason", finish);
}

lh_status lh_openai_render_opening(const lh_openai_frame *frame, uint32_t choice, const char *text,
                                   size_t length, const lh_openai_usage *usage,
                                   lh_text_buffer *out) {
    json_t *object;
    if (frame->endpoint == LH_OPENAI_CHAT)
        object = json_pack("{s:I, s:{s:s, s:s}, s:n, s:n}", "index", (json_int_t)choice, "delta",
                           "role", "assistant", "content", "", "logprobs", "finish_reason");
    else
        object = chunk_choice(frame, choice, lh_json_text(text, length), json_null(), NULL);
    return render_chunk(frame, object, usage, out);
}

static json_t *piece_logprobs(const lh_openai_frame *frame, const lh_generation_piece *piece) {
    if (!frame->logprobs)
        return json_null();
    return lh_openai_logprobs(frame->endpoint, frame->model->tokenizer, piece->tokens,
                              piece->token_count, frame->top_logprobs);
}

lh_status lh_openai_render_chunk(const lh_openai_frame *frame, const lh_generation_piece *piece,
                                 const lh_openai_usage *usage, lh_text_buffer *out) {
    json_t *text = lh_json_text(piece->text, piece->length),
           *logprobs = text ? piece_logprobs(frame, piece) : NULL;
    json_t *choice = logprobs ? chunk_choice(frame, piece->choice, text, logprobs, NULL) : NULL;
    if (text && !logprobs)
        json_decref(text);
    if (choice && frame->digests &&
        json_object_set_new(choice, "logits_digests",
                            lh_openai_digests(piece->tokens, piece->token_count)) != 0) {
        json_decref(choice);
        choice = NULL;
    }
    return render_chunk(frame, choice, usage, out);
}

lh_status lh_openai_render_end(const lh_openai_frame *frame, const lh_generation_piece *piece,
                               const lh_openai_usage *usage, lh_text_buffer *out) {
    return render_chunk(
        frame, chunk_choice(frame, piece->choice, NULL, json_null(), finish_name(piece->reason)),
        usage, out);
}

lh_status lh_openai_render_usage(const lh_openai_frame *frame, const lh_openai_usage *usage,
                                 lh_text_buffer *out) {
    const char *object =
        frame->endpoint == LH_OPENAI_CHAT ? "chat.completion.chunk" : "text_completion";
    lh_status status = lh_sse_open(out);
    if (!status)
        status = lh_json_render(frame_object(frame, object, json_array(), usage), out);
    return status ? status : lh_sse_close(out);
}

/* ---- Answers at once. ---- */

void lh_openai_gathered_reset(lh_openai_gathered *gathered) {
    lh_text_buffer_reset(&gathered->text);
    json_decref(gathered->logprobs);
    json_decref(gathered->digests);
    *gathered = (lh_openai_gathered){0};
}

/* Appends `more` (taken) to *all, or makes it *all. */
static lh_status extend(json_t **all, json_t *more, bool (*append)(json_t *all, json_t *more)) {
    if (!*all) {
        *all = more;
        return more ? LH_OK : LH_ERR_NO_MEMORY;
    }
    return append(*all, more) ? LH_OK : LH_ERR_NO_MEMORY;
}

static bool extend_list(json_t *all, json_t *more) {
    bool whole = more && json_array_extend(all, more) == 0;
    json_decref(more);
    return whole;
}

lh_status lh_openai_gather(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           lh_openai_gathered *gathered) {
    lh_status status = lh_text_buffer_append(&gathered->text, piece->text, piece->length, NULL);
    if (!status && frame->logprobs)
        status =
            extend(&gathered->logprobs, piece_logprobs(frame, piece), lh_openai_logprobs_extend);
    if (!status && frame->digests)
        status = extend(&gathered->digests, lh_openai_digests(piece->tokens, piece->token_count),
                        extend_list);
    if (piece->finished)
        gathered->reason = piece->reason;
    return status;
}

static json_t *answer_choice(const lh_openai_frame *frame, uint32_t index,
                             lh_openai_gathered *gathered) {
    json_t *text = lh_json_text(gathered->text.bytes, gathered->text.length);
    json_t *logprobs = gathered->logprobs ? gathered->logprobs : json_null();
    gathered->logprobs = NULL;
    const char *finish = finish_name(gathered->reason);
    json_t *choice;
    if (frame->endpoint == LH_OPENAI_CHAT)
        choice = json_pack("{s:I, s:{s:s, s:o, s:n}, s:o, s:s}", "index", (json_int_t)index,
                           "message", "role", "assistant", "content", text, "refusal", "logprobs",
                           logprobs, "finish_reason", finish);
    else
        choice = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)index, "text", text,
                           "logprobs", logprobs, "finish_reason", finish);
    if (choice && gathered->digests) {
        if (json_object_set(choice, "logits_digests", gathered->digests) != 0) {
            json_decref(choice);
            choice = NULL;
        }
    }
    return choice;
}

lh_status lh_openai_render_answer(const lh_openai_frame *frame, lh_openai_gathered *choices,
                                  uint32_t count, const lh_openai_usage *usage,
                                  lh_text_buffer *out) {
    const char *object = frame->endpoint == LH_OPENAI_CHAT ? "chat.completion" : "text_completion";
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        if (json_array_append_new(list, answer_choice(frame, i, &choices[i])) != 0) {
            json_decref(list);
            return LH_ERR_NO_MEMORY;
        }
    }
    return lh_json_render(frame_object(frame, object, list, usage), out);
}

json_t *lh_openai_model_object(const lh_served_model *model) {
    return json_pack("{s:s, s:s, s:I, s:s, s:I}", "id", model->id, "object", "model", "created",
                     (json_int_t)model->created, "owned_by", "longhaul", "max_model_len",
                     (json_int_t)model->context);
}
