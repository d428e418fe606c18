/* Which tokens of a text stay the same when it goes on?
 *
 * A tokenizer that cuts text into words first: those of all words but the last ones, whose end more
 * text might move. The tokenizer tells.
 *
 * SentencePiece's has no words. But pieces that were joined are never parted again, so where a
 * token ends in the result, nothing was ever joined across: the text in front of it was divided as
 * if it stood alone. In what the text becomes, either a token ends where it ends now, or one lies
 * across, that begins at some byte q of it and has more behind it. So the tokens are those of the
 * whole text, or of its first q bytes, and then others. What all these begin with is certain; and
 * the trie tells which q there can be. */
#include "gateway/constrain/forced_text.h"

#include "common/base/text_buffer.h"
#include "common/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* What the places leave: one byte, one token, or no such thing. */
typedef struct only_one {
    bool is_byte, is_token;
    uint32_t value;
} only_one;

static only_one find_only(const lh_automaton *automaton, const lh_places *places) {
    only_one found = {0}, none = {0};
    if (places->may_end)
        return none;
    for (size_t i = 0; i < places->count; i++) {
        const lh_automaton_state *state = &automaton->states[places->items[i].state];
        bool is_token = state->kind == LH_STATE_TOKEN;
        uint32_t choices = is_token ? 1 : state->count;
        for (uint32_t k = 0; k < choices; k++) {
            const lh_automaton_edge *edge = &automaton->edges[state->first + k];
            uint32_t value = is_token ? state->value : edge->first;
            bool is_first = !found.is_byte && !found.is_token;
            if (!is_token && edge->first != edge->last)
                return none;
            if (!is_first && (found.is_token != is_token || found.value != value))
                return none;
            found = (only_one){!is_token, is_token, value};
        }
    }
    return found;
}

bool lh_forced_text_begins(const lh_automaton *automaton, const lh_places *places) {
    only_one only = find_only(automaton, places);
    return only.is_byte || only.is_token;
}

/* What a closure may look at for one text: some ms. What is forced behind that is found once the
 * sequence is there. */
#define FORCED_WORK_MAX (1u << 17)

/* Appends the bytes that must follow, as far as there is only one. */
static lh_status read_on(const lh_forced_text *text, lh_text_buffer *bytes, lh_error *error) {
    lh_places from = {0};
    lh_status status = LH_OK;
    size_t work = 0;
    only_one only = find_only(text->automaton, text->places);
    while (only.is_byte && bytes->length < LH_FORCED_BYTES_MAX && work < FORCED_WORK_MAX &&
           !status) {
        char byte = (char)only.value;
        lh_places read = from;
        from = *text->places;
        status = lh_closure_step(text->closure, text->pool, &from, (uint8_t)byte, &read, error);
        *text->places = read;
        work += lh_closure_work(text->closure);
        *text->work += lh_closure_work(text->closure);
        if (!status)
            status = lh_text_buffer_append(bytes, &byte, 1, error);
        only = find_only(text->automaton, text->places);
    }
    lh_places_reset(&from);
    return status;
}

/* Keeps as many tokens as `other` begins with, too. */
static void keep_shared(lh_tokens *tokens, const lh_tokens *other) {
    size_t shared = 0;
    while (shared < tokens->count && shared < other->count &&
           tokens->ids[shared] == other->ids[shared])
        shared++;
    tokens->count = shared;
}

static bool begins_character(const lh_text_buffer *bytes, size_t at) {
    return at == bytes->length || ((uint8_t)bytes->bytes[at] & 0xC0) != 0x80;
}

/* Without words: the tokens that do not depend on where the token lies that crosses the end. */
static lh_status keep_certain(const lh_forced_text *text, const lh_text_buffer *bytes,
                              lh_tokens *tokens, lh_error *error) {
    const lh_tokenizer *tokenizer = lh_constraint_vocabulary_tokenizer(text->vocabulary);
    const lh_token_trie *trie = lh_constraint_vocabulary_trie(text->vocabulary);
    size_t first = bytes->length > trie->depth_max ? bytes->length - trie->depth_max : 0;
    lh_tokens other = {0};
    lh_status status = LH_OK;
    for (size_t q = first; q < bytes->length && tokens->count > 0 && !status; q++) {
        if (!begins_character(bytes, q) ||
            !lh_token_trie_goes_on(trie, bytes->bytes + q, bytes->length - q))
            continue;
        other.count = 0;
        status = lh_tokenizer_encode_inside(tokenizer, bytes->bytes, q, false, &other, error);
        keep_shared(tokens, &other);
    }
    free(other.ids);
    return status;
}

/* Moves the tokens over as long as they are the text, byte by byte: a tokenizer may drop what it
 * does not know. Gives the bytes of those. */
static size_t move_true(const lh_tokenizer *tokenizer, const lh_text_buffer *bytes,
                        const lh_tokens *from, lh_tokens *to, lh_status *status, lh_error *error) {
    size_t at = 0;
    for (size_t i = 0; i < from->count && !*status; i++) {
        const char *own;
        size_t length;
        if (lh_tokenizer_token_bytes(tokenizer, from->ids[i], &own, &length) || length == 0 ||
            length > bytes->length - at || memcmp(own, bytes->bytes + at, length) != 0)
            break;
        *status = lh_tokens_push(to, from->ids[i], error);
        at += length;
    }
    return at;
}

/* Appends the tokens of the bytes: all of them, or with is_open those that are certain. *is_whole:
 * all bytes are in them. */
static lh_status divide(const lh_forced_text *text, lh_text_buffer *bytes, bool is_open,
                        lh_tokens *tokens, bool *is_whole, lh_error *error) {
    const lh_tokenizer *tokenizer = lh_constraint_vocabulary_tokenizer(text->vocabulary);
    lh_tokens own = {0};
    lh_status status = LH_OK;
    *is_whole = bytes->length == 0;
    if (*is_whole)
        return LH_OK;
    size_t valid = lh_utf8_valid_prefix(bytes->bytes, bytes->length);
    if (valid < bytes->length && !is_open)
        return LH_OK;
    bytes->length = valid; /* a character that is begun is not text yet */
    status = lh_tokenizer_encode_inside(tokenizer, bytes->bytes, valid, is_open, &own, error);
    if (!status && is_open && !lh_tokenizer_has_words(tokenizer))
        status = keep_certain(text, bytes, &own, error);
    *is_whole = move_true(tokenizer, bytes, &own, tokens, &status, error) == bytes->length;
    free(own.ids);
    return status;
}

/* One text after the other, with tokens that the grammar names between them. */
static lh_status divide_all(const lh_forced_text *text, lh_text_buffer *bytes, lh_tokens *tokens,
                            uint32_t max, lh_error *error) {
    lh_places read = {0};
    lh_status status = LH_OK;
    bool goes_on = true;
    while (goes_on && !status && tokens->count < max) {
        bytes->length = 0;
        if ((status = read_on(text, bytes, error)))
            break;
        only_one only = find_only(text->automaton, text->places);
        bool is_open = !only.is_token && text->places->count > 0;
        status = divide(text, bytes, is_open, tokens, &goes_on, error);
        goes_on = goes_on && only.is_token;
        if (status || !goes_on)
            break;
        status = lh_tokens_push(tokens, only.value, error);
        if (!status)
            status = lh_closure_step_token(text->closure, text->pool, text->places, only.value,
                                           &read, error);
        lh_places swapped = *text->places;
        *text->places = read;
        read = swapped;
    }
    lh_places_reset(&read);
    return status;
}

lh_status lh_forced_text_tokens(const lh_forced_text *text, uint32_t *tokens, uint32_t max,
                                uint32_t *count, lh_error *error) {
    lh_text_buffer bytes = {0};
    lh_tokens found = {0};
    lh_status status = divide_all(text, &bytes, &found, max, error);
    *count = status ? 0 : (uint32_t)(found.count < max ? found.count : max);
    if (*count > 0)
        memcpy(tokens, found.ids, *count * sizeof *tokens);
    free(found.ids);
    lh_text_buffer_reset(&bytes);
    return status;
}
