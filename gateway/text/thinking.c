/* Marks are looked for in what is held back, which is never more than a mark and white space. */
#include "gateway/text/thinking.h"

#include <stdint.h>
#include <string.h>

/* As the models of the field write them: Qwen3, DeepSeek R1, SmolLM3 and their kin; Magistral;
 * Command R; Seed OSS; gpt-oss. */
static const lh_thinking_marks known[] = {
    {"<think>", "</think>", false},
    {"[THINK]", "[/THINK]", false},
    {"<|START_THINKING|>", "<|END_THINKING|>", false},
    {"<seed:think>", "</seed:think>", false},
    {LH_CHANNELS_THOUGHT_OPEN, LH_CHANNELS_THOUGHT_CLOSE, true},
};

/* ---- Marks in a text ---- */

/* SIZE_MAX: nowhere. */
static size_t find(const char *text, size_t length, const char *mark) {
    const char *found = length > 0 ? memmem(text, length, mark, strlen(mark)) : NULL;
    return found ? (size_t)(found - text) : SIZE_MAX;
}

static bool is_blank(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* How long it is without the white space at its end. */
static size_t trimmed(const char *text, size_t length) {
    while (length > 0 && is_blank(text[length - 1]))
        length--;
    return length;
}

static size_t count_blank(const char *text, size_t length) {
    size_t count = 0;
    while (count < length && is_blank(text[count]))
        count++;
    return count;
}

const lh_thinking_marks *lh_thinking_marks_find(const char *chat_template, size_t length) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (find(chat_template, length, known[i].are_channels ? known[i].open : known[i].close) !=
            SIZE_MAX)
            return &known[i];
    return NULL;
}

static bool is_same(const char *mark, const char *name, size_t length) {
    return strlen(mark) == length && memcmp(mark, name, length) == 0;
}

bool lh_thinking_is_mark(const lh_thinking_marks *marks, const char *name, size_t length) {
    if (!marks)
        return false;
    return marks->are_channels
               ? lh_channels_is_mark(name, length)
               : is_same(marks->open, name, length) || is_same(marks->close, name, length);
}

bool lh_thinking_is_opened(const lh_thinking_marks *marks, const char *text, size_t length) {
    size_t end = trimmed(text, length), mark = marks ? strlen(marks->open) : 0;
    return marks && end >= mark && memcmp(text + end - mark, marks->open, mark) == 0;
}

bool lh_thinking_is_open(const lh_thinking_marks *marks, const char *text, size_t length) {
    bool is_open = false;
    size_t found;
    if (!marks)
        return false;
    while ((found = find(text, length, is_open ? marks->close : marks->open)) != SIZE_MAX) {
        text += found;
        length -= found;
        is_open = !is_open;
    }
    return is_open;
}

/* ---- The splitter ---- */

void lh_thinking_splitter_init(lh_thinking_splitter *splitter, const lh_thinking_marks *marks,
                               bool is_open) {
    *splitter = (lh_thinking_splitter){.marks = marks,
                                       .stage = !marks    ? LH_THINKING_ANSWER
                                                : is_open ? LH_THINKING_THOUGHT
                                                          : LH_THINKING_BEGIN};
    lh_channel_splitter_init(&splitter->channels, is_open);
}

static bool has_channels(const lh_thinking_splitter *splitter) {
    return splitter->marks && splitter->marks->are_channels;
}

bool lh_thinking_splitter_is_inside(const lh_thinking_splitter *splitter) {
    return has_channels(splitter) ? splitter->channels.stage == LH_CHANNEL_THOUGHT
                                  : splitter->stage == LH_THINKING_THOUGHT;
}

void lh_thinking_splitter_reset(lh_thinking_splitter *splitter) {
    lh_text_buffer_reset(&splitter->held);
    lh_channel_splitter_reset(&splitter->channels);
}

static void drop(lh_text_buffer *held, size_t length) {
    held->length -= length;
    if (held->length > 0)
        memmove(held->bytes, held->bytes + length, held->length);
}

/* Gives so much of what is held to the one who gets it. */
static lh_status give(lh_text_buffer *held, size_t length, lh_text_buffer *to, lh_error *error) {
    lh_status status = length ? lh_text_buffer_append(to, held->bytes, length, error) : LH_OK;
    drop(held, length);
    return status;
}

/* The beginning: either the mark, or it was the answer from its first byte. LH_AGAIN: more is
 * needed to know. */
static lh_status begin(lh_thinking_splitter *splitter) {
    const lh_text_buffer *held = &splitter->held;
    size_t blank = count_blank(held->bytes, held->length), mark = strlen(splitter->marks->open);
    size_t length = held->length - blank < mark ? held->length - blank : mark;
    if (memcmp(held->bytes + blank, splitter->marks->open, length) != 0) {
        splitter->stage = LH_THINKING_ANSWER;
        return LH_OK;
    }
    if (length < mark)
        return LH_AGAIN;
    drop(&splitter->held, blank + mark);
    splitter->stage = LH_THINKING_THOUGHT;
    return LH_OK;
}

/* How much of the text is no part of a closing mark that has begun, nor white space before one. */
static size_t certain(const char *text, size_t length, const char *close) {
    size_t mark = strlen(close), part = length < mark ? length : mark - 1;
    while (part > 0 && memcmp(text + length - part, close, part) != 0)
        part--;
    return trimmed(text, length - part);
}

static lh_status think(lh_thinking_splitter *splitter, lh_text_buffer *thought, lh_error *error) {
    lh_text_buffer *held = &splitter->held;
    if (!splitter->has_thought)
        drop(held, count_blank(held->bytes, held->length));
    size_t end = find(held->bytes, held->length, splitter->marks->close);
    bool is_over = end != SIZE_MAX;
    size_t length = is_over ? trimmed(held->bytes, end)
                            : certain(held->bytes, held->length, splitter->marks->close);
    splitter->has_thought = splitter->has_thought || length > 0;
    lh_status status = give(held, length, thought, error);
    if (status != LH_OK || !is_over)
        return status == LH_OK ? LH_AGAIN : status;
    drop(held, end - length + strlen(splitter->marks->close));
    splitter->stage = LH_THINKING_TURN;
    return LH_OK;
}

static lh_status turn(lh_thinking_splitter *splitter) {
    drop(&splitter->held, count_blank(splitter->held.bytes, splitter->held.length));
    if (splitter->held.length == 0)
        return LH_AGAIN;
    splitter->stage = LH_THINKING_ANSWER;
    return LH_OK;
}

/* LH_AGAIN: it wants more text. */
static lh_status advance(lh_thinking_splitter *splitter, lh_text_buffer *thought,
                         lh_text_buffer *answer, lh_error *error) {
    lh_text_buffer *held = &splitter->held;
    if (held->length == 0)
        return LH_AGAIN;
    switch (splitter->stage) {
    case LH_THINKING_BEGIN:
        return begin(splitter);
    case LH_THINKING_THOUGHT:
        return think(splitter, thought, error);
    case LH_THINKING_TURN:
        return turn(splitter);
    case LH_THINKING_ANSWER:
        break;
    }
    return give(held, held->length, answer, error);
}

lh_status lh_thinking_splitter_push(lh_thinking_splitter *splitter, const char *text, size_t length,
                                    lh_text_buffer *thought, lh_text_buffer *answer,
                                    lh_error *error) {
    if (length == 0)
        return LH_OK;
    if (has_channels(splitter))
        return lh_channel_splitter_push(&splitter->channels, text, length, thought, answer, error);
    if (splitter->stage == LH_THINKING_ANSWER)
        return lh_text_buffer_append(answer, text, length, error);
    lh_status status = lh_text_buffer_append(&splitter->held, text, length, error);
    while (status == LH_OK)
        status = advance(splitter, thought, answer, error);
    return status == LH_AGAIN ? LH_OK : status;
}

lh_status lh_thinking_splitter_finish(lh_thinking_splitter *splitter, lh_text_buffer *thought,
                                      lh_text_buffer *answer, lh_error *error) {
    if (has_channels(splitter))
        return lh_channel_splitter_finish(&splitter->channels, thought, answer, error);
    lh_text_buffer *held = &splitter->held;
    bool is_thought = splitter->stage == LH_THINKING_THOUGHT;
    size_t length = is_thought ? trimmed(held->bytes, held->length) : held->length;
    lh_status status = give(held, length, is_thought ? thought : answer, error);
    held->length = 0;
    return status;
}
