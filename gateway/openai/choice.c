/* Decoder, stop strings, and the tokens that wait for their text. */
#include "gateway/openai/choice.h"

#include "common/base/growing_array.h"
#include "common/base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void lh_choice_reset(lh_choice *choice) {
    lh_stop_matcher_destroy(choice->matcher);
    lh_text_buffer_reset(&choice->decoded);
    lh_text_buffer_reset(&choice->out);
    lh_thinking_splitter_reset(&choice->splitter);
    lh_text_buffer_reset(&choice->thought);
    lh_text_buffer_reset(&choice->answer);
    lh_tool_call_parser_reset(&choice->tool_calls);
    lh_text_buffer_reset(&choice->said);
    free(choice->pending);
    lh_answer_store_reset(&choice->answers);
    free(choice->shown_tokens);
}

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a choice");
}

static lh_status keep_token(lh_choice *choice, const lh_sequence_event *event, lh_error *error) {
    size_t answer;
    if (!lh_growing_array_reserve(&choice->pending, &choice->pending_capacity,
                                  choice->pending_count + 1, sizeof *choice->pending) ||
        !lh_answer_store_push(&choice->answers, event->answer, &answer))
        return no_memory(error);
    choice->pending[choice->pending_count++] =
        (lh_choice_token){.answer = answer,
                          .text_offset = choice->decoded_characters,
                          .decoded_before = choice->decoded_bytes};
    return LH_OK;
}

/* Decoded text goes through the stop strings, once there are as many tokens as the request wants at
 * least. */
static lh_status pass_on(lh_choice *choice, lh_error *error) {
    const lh_text_buffer *text = &choice->decoded;
    bool stopped = false;
    choice->decoded_bytes += text->length;
    choice->decoded_characters += lh_utf8_count(text->bytes, text->length);
    if (choice->sampled < choice->min_tokens)
        return lh_text_buffer_append(&choice->out, text->bytes, text->length, error);
    lh_status status = lh_stop_matcher_push(choice->matcher, text->bytes, text->length,
                                            &choice->out, &stopped, error);
    if (!status && stopped) {
        choice->finished = true;
        choice->reason = LH_FINISH_STOP;
    }
    return status;
}

/* Marks that are control tokens have no bytes but those of their names. */
static void show_mark(const lh_choice *choice, uint32_t token, const char **bytes, size_t *length) {
    const lh_thinking_marks *marks = choice->splitter.marks;
    const char *name;
    size_t name_length;
    const lh_tool_format *format = choice->tool_calls.format;
    if ((!marks && !format) || *length > 0 ||
        lh_tokenizer_token_name(choice->tokenizer, token, &name, &name_length) != LH_OK)
        return;
    if (lh_thinking_is_mark(marks, name, name_length) ||
        lh_tool_format_has_mark(format, name, name_length)) {
        *bytes = name;
        *length = name_length;
    }
}

static void show_special(const lh_choice *choice, uint32_t token, const char **bytes,
                         size_t *length) {
    if (choice->shows_special && *length == 0)
        lh_tokenizer_token_name(choice->tokenizer, token, bytes, length);
}

/* ---- Thoughts, calls and the rest, told apart. ---- */

/* Otherwise what comes is the answer as it is. */
static bool is_split(const lh_choice *choice) {
    return choice->splitter.marks != NULL;
}

static lh_status split(lh_choice *choice, const char *bytes, size_t length, lh_error *error) {
    lh_thinking_splitter *splitter = &choice->splitter;
    lh_status status = lh_thinking_splitter_push(splitter, bytes, length, &choice->thought,
                                                 &choice->answer, error);
    if (status == LH_OK && choice->finished)
        status = lh_thinking_splitter_finish(splitter, &choice->thought, &choice->answer, error);
    return status;
}

/* By its length, or a stop string. */
static bool is_cut(const lh_choice *choice) {
    return choice->reason == LH_FINISH_LENGTH || lh_stop_matcher_found(choice->matcher) >= 0;
}

static lh_status find_calls(lh_choice *choice, const char *bytes, size_t length, lh_error *error) {
    lh_tool_call_parser *parser = &choice->tool_calls;
    lh_status status = lh_tool_call_parser_push(parser, bytes, length, &choice->said, error);
    if (status == LH_OK && choice->finished)
        status = lh_tool_call_parser_finish(parser, is_cut(choice), &choice->said, error);
    if (status == LH_OK && parser->stage == LH_TOOL_CALL_OVER && !choice->finished) {
        choice->finished = true;
        choice->reason = LH_FINISH_STOP;
    }
    return status;
}

/* What has come out since the last time. */
static lh_status tell_apart(lh_choice *choice, size_t before, lh_error *error) {
    const char *bytes = choice->out.length > before ? choice->out.bytes + before : "";
    size_t length = choice->out.length - before;
    if (is_split(choice)) {
        size_t answered = choice->answer.length;
        lh_status status = split(choice, bytes, length, error);
        if (status != LH_OK)
            return status;
        length = choice->answer.length - answered;
        bytes = length > 0 ? choice->answer.bytes + answered : "";
    }
    return choice->tool_calls.format ? find_calls(choice, bytes, length, error) : LH_OK;
}

/* The answer's text, without thoughts and calls. */
static const lh_text_buffer *text_left(const lh_choice *choice) {
    return choice->tool_calls.format ? &choice->said
           : is_split(choice)        ? &choice->answer
                                     : &choice->out;
}

lh_status lh_choice_take_token(lh_choice *choice, const lh_sequence_event *event, lh_error *error) {
    const char *bytes;
    size_t length;
    assert(!choice->finished);
    if (lh_tokenizer_token_bytes(choice->tokenizer, event->token, &bytes, &length))
        return lh_fail(error, LH_ERR_INTERNAL,
                       "the engine drew token %u, which is not in the vocabulary", event->token);
    show_mark(choice, event->token, &bytes, &length);
    show_special(choice, event->token, &bytes, &length);
    choice->sampled++;
    choice->thought_tokens += lh_thinking_splitter_is_inside(&choice->splitter);
    lh_status status = choice->keeps_tokens ? keep_token(choice, event, error) : LH_OK;
    size_t before = choice->out.length;
    choice->decoded.length = 0;
    if (!status)
        status = lh_text_decoder_push(&choice->decoder, bytes, length, &choice->decoded, error);
    if (!status)
        status = pass_on(choice, error);
    return status ? status : tell_apart(choice, before, error);
}

lh_status lh_choice_finish(lh_choice *choice, lh_finish_reason reason, lh_error *error) {
    size_t before = choice->out.length;
    choice->decoded.length = 0;
    lh_status status = lh_text_decoder_finish(&choice->decoder, &choice->decoded, error);
    if (!status)
        status = pass_on(choice, error);
    if (!status && !choice->finished) {
        choice->finished = true;
        choice->reason = reason;
        status = lh_stop_matcher_finish(choice->matcher, &choice->out, error);
    }
    return status ? status : tell_apart(choice, before, error);
}

bool lh_choice_has_piece(const lh_choice *choice) {
    return choice->out.length || choice->finished;
}

/* How many tokens have text that begins before the end of what has left; at an end that no stop
 * string made, all. */
static size_t count_shown(const lh_choice *choice) {
    if (choice->finished && lh_stop_matcher_found(choice->matcher) < 0)
        return choice->pending_count;
    size_t count = 0;
    while (count < choice->pending_count &&
           choice->pending[count].decoded_before < choice->emitted_bytes)
        count++;
    return count;
}

static const char *text_of(const lh_text_buffer *buffer) {
    return buffer->length ? buffer->bytes : "";
}

static lh_stop_string stop_of(const lh_choice *choice) {
    int found = choice->finished ? lh_stop_matcher_found(choice->matcher) : -1;
    return found < 0 ? (lh_stop_string){NULL, 0} : lh_stop_matcher_string(choice->matcher, found);
}

lh_status lh_choice_show(lh_choice *choice, lh_generation_piece *piece, lh_error *error) {
    assert(lh_choice_has_piece(choice) && choice->shown == 0);
    const lh_text_buffer *answer = text_left(choice);
    choice->emitted_bytes += choice->out.length;
    choice->shown = count_shown(choice);
    if (!lh_growing_array_reserve(&choice->shown_tokens, &choice->shown_capacity, choice->shown,
                                  sizeof *choice->shown_tokens))
        return no_memory(error);
    for (size_t i = 0; i < choice->shown; i++) {
        const lh_choice_token *pending = &choice->pending[i];
        choice->shown_tokens[i] = (lh_generation_token){
            lh_answer_store_get(&choice->answers, pending->answer), pending->text_offset};
    }
    *piece = (lh_generation_piece){.choice = choice->index,
                                   .text = text_of(answer),
                                   .length = answer->length,
                                   .thought = text_of(&choice->thought),
                                   .thought_length = choice->thought.length,
                                   .calls = choice->tool_calls.deltas,
                                   .call_count = choice->tool_calls.delta_count,
                                   .arguments = text_of(&choice->tool_calls.arguments),
                                   .has_called = choice->tool_calls.count > 0,
                                   .prompt = choice->prompt,
                                   .tokens = choice->shown_tokens,
                                   .token_count = choice->shown,
                                   .finished = choice->finished,
                                   .reason = choice->reason,
                                   .stop = stop_of(choice),
                                   .stop_token = choice->stop_token};
    choice->prompt = NULL;
    return LH_OK;
}

void lh_choice_drop(lh_choice *choice) {
    assert(choice->shown <= choice->pending_count);
    choice->out.length = choice->thought.length = choice->answer.length = choice->said.length = 0;
    lh_tool_call_parser_drop(&choice->tool_calls);
    choice->pending_count -= choice->shown;
    if (choice->pending_count)
        memmove(choice->pending, choice->pending + choice->shown,
                choice->pending_count * sizeof *choice->pending);
    else
        lh_answer_store_clear(&choice->answers);
    choice->shown = 0;
}
