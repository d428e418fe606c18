/* Marks are looked for in what is held back, which is never more than a header. */
#include "gateway/text/channels.h"

#include <stdint.h>
#include <string.h>

/* A header that is longer is none: its text is the answer. Those of the format have up to 100 bytes
 * and a function's name. */
#define HEADER_BYTES_MAX 1024u

#define CHANNEL "<|channel|>"
#define START   "<|start|>"
#define MESSAGE "<|message|>"
#define TO      " to="

static const char *const marks[] = {
    START, CHANNEL, MESSAGE, "<|constrain|>", LH_CHANNELS_THOUGHT_CLOSE, "<|call|>", "<|return|>"};
#define MARKS (sizeof marks / sizeof marks[0])
/* The first ones begin a header; from these on they stand inside of one, and end messages. */
enum { INSIDE_HEADERS = 2, AT_ENDS = 4 };

/* ---- Marks in a text ---- */

/* SIZE_MAX: nowhere. */
static size_t find(const char *text, size_t length, const char *mark) {
    const char *found = length > 0 ? memmem(text, length, mark, strlen(mark)) : NULL;
    return found ? (size_t)(found - text) : SIZE_MAX;
}

/* Whether the text begins with the mark, or is a part of it that has come so far. */
static bool may_begin_with(const char *text, size_t length, const char *mark) {
    size_t shorter = length < strlen(mark) ? length : strlen(mark);
    return memcmp(text, mark, shorter) == 0;
}

static bool begins_with(const char *text, size_t length, const char *mark) {
    return length >= strlen(mark) && may_begin_with(text, length, mark);
}

bool lh_channels_is_mark(const char *name, size_t length) {
    for (size_t i = 0; i < MARKS; i++)
        if (strlen(marks[i]) == length && memcmp(marks[i], name, length) == 0)
            return true;
    return false;
}

/* Where the first mark is, whole or begun at the end of the text; *which: MARKS where it is not
 * whole, or there is none (then length is returned). */
static size_t find_mark(const char *text, size_t length, size_t *which) {
    const char *at = text, *end = text + length;
    for (; (at = memchr(at, '<', (size_t)(end - at))); at++)
        for (size_t i = 0; i < MARKS; i++)
            if (may_begin_with(at, (size_t)(end - at), marks[i])) {
                *which = begins_with(at, (size_t)(end - at), marks[i]) ? i : MARKS;
                return (size_t)(at - text);
            }
    *which = MARKS;
    return length;
}

/* ---- The splitter ---- */

void lh_channel_splitter_init(lh_channel_splitter *splitter, bool is_open) {
    *splitter = (lh_channel_splitter){.stage = is_open ? LH_CHANNEL_THOUGHT : LH_CHANNEL_BEGIN};
}

void lh_channel_splitter_reset(lh_channel_splitter *splitter) {
    lh_text_buffer_reset(&splitter->held);
}

static void drop(lh_text_buffer *held, size_t length) {
    held->length -= length;
    if (held->length > 0)
        memmove(held->bytes, held->bytes + length, held->length);
}

/* Where the text comes from and goes to. */
typedef struct lh_channel_parts {
    lh_channel_splitter *splitter;
    lh_text_buffer *thought, *answer;
    lh_error *error;
} lh_channel_parts;

/* So much of what is held, as text of the stage. */
static lh_status give(const lh_channel_parts *parts, size_t length) {
    lh_channel_splitter *splitter = parts->splitter;
    bool is_thought = splitter->stage == LH_CHANNEL_THOUGHT;
    bool *has = is_thought ? &splitter->has_thought : &splitter->has_answer;
    lh_text_buffer *to = is_thought ? parts->thought : parts->answer;
    lh_status status = LH_OK;
    if (length == 0)
        return LH_OK;
    if (splitter->begins && *has)
        status = lh_text_buffer_append(to, "\n\n", 2, parts->error);
    if (status == LH_OK)
        status = lh_text_buffer_append(to, splitter->held.bytes, length, parts->error);
    splitter->begins = false;
    *has = true;
    drop(&splitter->held, length);
    return status;
}

/* LH_AGAIN: more is needed to know. */
static lh_status begin(lh_channel_splitter *splitter) {
    static const char *const beginnings[] = {CHANNEL, START, TO};
    const lh_text_buffer *held = &splitter->held;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (begins_with(held->bytes, held->length, beginnings[i])) {
            splitter->stage = LH_CHANNEL_HEADER;
            return LH_OK;
        }
        if (may_begin_with(held->bytes, held->length, beginnings[i]))
            return LH_AGAIN;
    }
    splitter->stage = LH_CHANNEL_ANSWER;
    return LH_OK;
}

static bool is_thought(const char *header, size_t length) {
    size_t channel = find(header, length, CHANNEL);
    if (channel == SIZE_MAX)
        return false;
    channel += strlen(CHANNEL);
    return begins_with(header + channel, length - channel, "analysis");
}

/* LH_AGAIN: it is not complete. */
static lh_status read_header(const lh_channel_parts *parts) {
    lh_channel_splitter *splitter = parts->splitter;
    lh_text_buffer *held = &splitter->held;
    size_t end = find(held->bytes, held->length, MESSAGE);
    if (end == SIZE_MAX && held->length <= HEADER_BYTES_MAX)
        return LH_AGAIN;
    splitter->begins = true;
    splitter->stage = LH_CHANNEL_ANSWER;
    if (end == SIZE_MAX)
        return give(parts, held->length);
    if (find(held->bytes, end, TO) != SIZE_MAX)
        return give(parts, end + strlen(MESSAGE));
    if (is_thought(held->bytes, end))
        splitter->stage = LH_CHANNEL_THOUGHT;
    drop(held, end + strlen(MESSAGE));
    return LH_OK;
}

/* Text up to a mark that ends the message, or begins another one. Marks of headers are no text. */
static lh_status read_message(const lh_channel_parts *parts) {
    lh_channel_splitter *splitter = parts->splitter;
    lh_text_buffer *held = &splitter->held;
    size_t which, length = find_mark(held->bytes, held->length, &which);
    lh_status status = give(parts, length);
    if (status != LH_OK || which == MARKS)
        return status == LH_OK ? LH_AGAIN : status;
    if (which >= INSIDE_HEADERS)
        drop(held, strlen(marks[which]));
    if (which < INSIDE_HEADERS || which >= AT_ENDS)
        splitter->stage = LH_CHANNEL_HEADER;
    return LH_OK;
}

/* LH_AGAIN: it wants more text. */
static lh_status advance(const lh_channel_parts *parts) {
    if (parts->splitter->held.length == 0)
        return LH_AGAIN;
    switch (parts->splitter->stage) {
    case LH_CHANNEL_BEGIN:
        return begin(parts->splitter);
    case LH_CHANNEL_HEADER:
        return read_header(parts);
    case LH_CHANNEL_THOUGHT:
    case LH_CHANNEL_ANSWER:
        break;
    }
    return read_message(parts);
}

lh_status lh_channel_splitter_push(lh_channel_splitter *splitter, const char *text, size_t length,
                                   lh_text_buffer *thought, lh_text_buffer *answer,
                                   lh_error *error) {
    const lh_channel_parts parts = {splitter, thought, answer, error};
    if (length == 0)
        return LH_OK;
    lh_status status = lh_text_buffer_append(&splitter->held, text, length, error);
    while (status == LH_OK)
        status = advance(&parts);
    return status == LH_AGAIN ? LH_OK : status;
}

lh_status lh_channel_splitter_finish(lh_channel_splitter *splitter, lh_text_buffer *thought,
                                     lh_text_buffer *answer, lh_error *error) {
    const lh_channel_parts parts = {splitter, thought, answer, error};
    lh_status status = LH_OK;
    if (splitter->stage != LH_CHANNEL_HEADER)
        status = give(&parts, splitter->held.length);
    splitter->held.length = 0;
    return status;
}
