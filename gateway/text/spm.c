/* The whole text would be one word, and a queue of its pairs as large. But most places in a text
 * are never joined: few tokens have a space inside, in some models no two digits are in one token.
 * So creation notes which two bytes meet inside a token, where the second begins a character; a
 * text is cut wherever two others meet, and each cut piece is a word of its own:
 *
 *     the quick fox 42   ->   the| quick| fox| |4|2     (no token has "e ", "k ", "x ", " 4", "42")
 *
 * No pair across a cut could ever be joined, and pairs on different sides do not touch, so the
 * tokens are those of the whole text. */
#include "gateway/text/spm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 256

static const char escaped_space[] = "\xE2\x96\x81"; /* U+2581 */

struct lh_spm {
    const lh_vocabulary *vocabulary;
    uint32_t *ranks; /* [tokens]: lower is joined earlier */
    uint8_t meets[BYTES][BYTES / 8];
    size_t longest; /* normal token */
    bool adds_space;
    bool has_bytes;
    uint32_t byte_tokens[BYTES];
    uint32_t unknown; /* where there are no byte tokens */
};

/* Scores as integers in the opposite order: binary32 of one sign is ordered like its bits. Finite
 * scores never give LH_MERGE_NEVER. */
static uint32_t rank_of_score(float score) {
    uint32_t bits;
    score += 0.0F; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits >> 31 ? ~bits : bits | 1U << 31;
    return ~ascending;
}

static lh_status rank_tokens(lh_spm *spm, const double *scores, lh_error *error) {
    for (uint32_t token = 0; token < lh_vocabulary_count(spm->vocabulary); token++) {
        if (!isfinite(scores[token]))
            return lh_fail(error, LH_ERR_MALFORMED, "tokenizer.ggml.scores[%u] is no finite number",
                           token);
        spm->ranks[token] = rank_of_score((float)scores[token]);
    }
    return LH_OK;
}

static lh_status read_scores(lh_spm *spm, const lh_gguf *gguf, lh_error *error) {
    static const char key[] = "tokenizer.ggml.scores";
    size_t count, tokens = lh_vocabulary_count(spm->vocabulary);
    lh_status status = lh_gguf_get_array(gguf, key, &count, error);
    if (status)
        return status == LH_ERR_NOT_FOUND
                   ? lh_fail(error, LH_ERR_MALFORMED, "the file has no %s", key)
                   : status;
    if (count != tokens)
        return lh_fail(error, LH_ERR_MALFORMED, "%s has %zu entries, tokenizer.ggml.tokens has %zu",
                       key, count, tokens);
    double *scores = calloc(count, sizeof *scores);
    spm->ranks = calloc(count, sizeof *spm->ranks);
    if (!scores || !spm->ranks)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu scores", count);
    else if (!(status = lh_gguf_array_f64(gguf, key, scores, count, error)))
        status = rank_tokens(spm, scores, error);
    free(scores);
    return status;
}

static bool begins_character(char byte) {
    return ((uint8_t)byte & 0xC0) != 0x80;
}

/* Whether `after`, the first byte of a character, stands behind `before` in any token. */
static bool meet(const lh_spm *spm, char before, char after) {
    return spm->meets[(uint8_t)before][(uint8_t)after / 8] >> (uint8_t)after % 8 & 1;
}

static lh_status read_tokens(lh_spm *spm, lh_error *error) {
    for (uint32_t token = 0; token < lh_vocabulary_count(spm->vocabulary); token++) {
        if (lh_vocabulary_type(spm->vocabulary, token) != LH_TOKEN_NORMAL)
            continue;
        lh_text text = lh_vocabulary_bytes(spm->vocabulary, token);
        if (text.length > LH_SPM_TOKEN_BYTES_MAX)
            return lh_fail(error, LH_ERR_LIMIT,
                           "tokenizer.ggml.tokens[%u] has %zu bytes, more than %d", token,
                           text.length, LH_SPM_TOKEN_BYTES_MAX);
        if (text.length > spm->longest)
            spm->longest = text.length;
        for (size_t i = 1; i < text.length; i++)
            if (begins_character(text.bytes[i]))
                spm->meets[(uint8_t)text.bytes[i - 1]][(uint8_t)text.bytes[i] / 8] |=
                    (uint8_t)(1U << (uint8_t)text.bytes[i] % 8);
    }
    return LH_OK;
}

/* All of the byte tokens, or none. */
static lh_status read_byte_tokens(lh_spm *spm, lh_error *error) {
    bool found[BYTES] = {false};
    uint32_t count = 0, missing = 0;
    for (uint32_t token = 0; token < lh_vocabulary_count(spm->vocabulary); token++) {
        if (lh_vocabulary_type(spm->vocabulary, token) != LH_TOKEN_BYTE)
            continue;
        uint8_t byte = (uint8_t)*lh_vocabulary_bytes(spm->vocabulary, token).bytes;
        if (found[byte])
            return lh_fail(error, LH_ERR_MALFORMED,
                           "tokenizer.ggml.tokens[%u] is the same as tokens[%u]", token,
                           spm->byte_tokens[byte]);
        found[byte] = true;
        spm->byte_tokens[byte] = token;
        count++;
    }
    while (missing < BYTES && found[missing])
        missing++;
    if (count > 0 && missing < BYTES)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tokenizer.ggml.tokens has %u of the 256 byte tokens; <0x%02X> is not there",
                       count, missing);
    spm->has_bytes = count > 0;
    return LH_OK;
}

/* The id that the file names, or its first token of that type. */
static lh_status read_unknown(lh_spm *spm, const lh_gguf *gguf, lh_error *error) {
    static const char key[] = "tokenizer.ggml.unknown_token_id";
    uint32_t count = lh_vocabulary_count(spm->vocabulary);
    uint64_t named;
    lh_status status = lh_gguf_get_u64(gguf, key, &named, error);
    if (status && status != LH_ERR_NOT_FOUND)
        return status;
    if (!status && named >= count)
        return lh_fail(error, LH_ERR_MALFORMED, "%s is %llu, the vocabulary has %u tokens", key,
                       (unsigned long long)named, count);
    spm->unknown = status ? 0 : (uint32_t)named;
    if (status)
        while (spm->unknown < count &&
               lh_vocabulary_type(spm->vocabulary, spm->unknown) != LH_TOKEN_UNKNOWN)
            spm->unknown++;
    if (spm->unknown == count && !spm->has_bytes)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tokenizer.ggml.tokens has neither byte tokens (<0x00> to <0xFF>) nor an "
                       "unknown token");
    return LH_OK;
}

static lh_status read_adds_space(lh_spm *spm, const lh_gguf *gguf, lh_error *error) {
    spm->adds_space = true;
    lh_status status =
        lh_gguf_get_bool(gguf, "tokenizer.ggml.add_space_prefix", &spm->adds_space, error);
    return status == LH_ERR_NOT_FOUND ? LH_OK : status;
}

lh_status lh_spm_create(const lh_gguf *gguf, const lh_vocabulary *vocabulary, lh_spm **spm,
                        lh_error *error) {
    lh_spm *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a tokenizer");
    made->vocabulary = vocabulary;
    lh_status status;
    if ((status = read_scores(made, gguf, error)) || (status = read_tokens(made, error)) ||
        (status = read_byte_tokens(made, error)) || (status = read_unknown(made, gguf, error)) ||
        (status = read_adds_space(made, gguf, error))) {
        lh_spm_destroy(made);
        return status;
    }
    *spm = made;
    return LH_OK;
}

void lh_spm_destroy(lh_spm *spm) {
    if (!spm)
        return;
    free(spm->ranks);
    free(spm);
}

void lh_spm_work_reset(lh_spm_work *work) {
    lh_merge_list_reset(&work->list);
    lh_text_buffer_reset(&work->text);
}

/* One piece of the text, between two cuts. A symbol's position is its first byte's. */
typedef struct piece {
    const lh_spm *spm;
    const char *text;
    size_t length;
} piece;

static uint32_t pair_rank(const void *source, const lh_merge_list *list, uint32_t position,
                          uint32_t *joined) {
    const piece *own = source;
    uint32_t right = list->symbols[position].next, after = list->symbols[right].next;
    size_t length = (after == LH_MERGE_NOWHERE ? own->length : after) - position;
    if (length > own->spm->longest)
        return LH_MERGE_NEVER;
    int64_t token = lh_vocabulary_find(own->spm->vocabulary, own->text + position, length);
    if (token < 0)
        return LH_MERGE_NEVER;
    *joined = (uint32_t)token;
    return own->spm->ranks[token];
}

static size_t character_length(const char *text, size_t length) {
    size_t at = 1;
    while (at < length && !begins_character(text[at]))
        at++;
    return at;
}

/* What stands for characters that are no token: their bytes, or one unknown token for a row of
 * them. */
static lh_status push_unknown(const lh_spm *spm, const char *text, size_t length, size_t row_begin,
                              lh_tokens *tokens, lh_error *error) {
    if (!spm->has_bytes) {
        bool in_row = tokens->count > row_begin && tokens->ids[tokens->count - 1] == spm->unknown;
        return in_row ? LH_OK : lh_tokens_push(tokens, spm->unknown, error);
    }
    lh_status status = LH_OK;
    for (size_t i = 0; i < length && !status; i++)
        status = lh_tokens_push(tokens, spm->byte_tokens[(uint8_t)text[i]], error);
    return status;
}

/* Symbols that were never joined are single characters, and may be no token. */
static lh_status push_symbols(const piece *own, const lh_merge_list *list, size_t row_begin,
                              lh_tokens *tokens, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t at = 0, next; at != LH_MERGE_NOWHERE && !status; at = next) {
        next = list->symbols[at].next;
        size_t length = (next == LH_MERGE_NOWHERE ? own->length : next) - at;
        int64_t token = list->symbols[at].token == LH_MERGE_NOWHERE
                            ? lh_vocabulary_find(own->spm->vocabulary, own->text + at, length)
                            : list->symbols[at].token;
        status = token >= 0
                     ? lh_tokens_push(tokens, (uint32_t)token, error)
                     : push_unknown(own->spm, own->text + at, length, row_begin, tokens, error);
    }
    return status;
}

static void split_characters(const piece *own, lh_merge_list *list) {
    uint32_t previous = LH_MERGE_NOWHERE;
    assert(own->length > 0 && own->length <= list->capacity);
    for (size_t at = 0, next; at < own->length; at = next) {
        next = at + character_length(own->text + at, own->length - at);
        list->symbols[at] = (lh_merge_symbol){
            .token = LH_MERGE_NOWHERE,
            .previous = previous,
            .next = next < own->length ? (uint32_t)next : LH_MERGE_NOWHERE,
        };
        previous = (uint32_t)at;
    }
}

static lh_status encode_piece(const piece *own, lh_merge_list *list, size_t row_begin,
                              lh_tokens *tokens, lh_error *error) {
    lh_status status = lh_merge_list_reserve(list, own->length, error);
    if (status)
        return status;
    split_characters(own, list);
    lh_merge_list_run(list, pair_rank, own);
    return push_symbols(own, list, row_begin, tokens, error);
}

static size_t piece_length(const lh_spm *spm, const char *text, size_t length) {
    size_t at = 1;
    while (at < length && (!begins_character(text[at]) || meet(spm, text[at - 1], text[at])))
        at++;
    return at;
}

/* The text with a space in front, where one is to be, and spaces for U+2581. */
static lh_status unescape(lh_text_buffer *out, const char *text, size_t length, bool space,
                          lh_error *error) {
    lh_status status = space ? lh_text_buffer_append(out, " ", 1, error) : LH_OK;
    while (length > 0 && !status) {
        const char *mark = memmem(text, length, escaped_space, sizeof escaped_space - 1);
        size_t plain = mark ? (size_t)(mark - text) : length;
        status = lh_text_buffer_append(out, text, plain, error);
        if (mark && !status)
            status = lh_text_buffer_append(out, " ", 1, error);
        size_t used = plain + (mark ? sizeof escaped_space - 1 : 0);
        text += used;
        length -= used;
    }
    return status;
}

lh_status lh_spm_encode(const lh_spm *spm, lh_spm_work *work, const char *text, size_t length,
                        bool begins, lh_tokens *tokens, lh_error *error) {
    bool space = spm->adds_space && begins && length > 0;
    lh_status status = LH_OK;
    if (space || (length > 0 && memmem(text, length, escaped_space, sizeof escaped_space - 1))) {
        work->text.length = 0;
        status = unescape(&work->text, text, length, space, error);
        text = work->text.bytes;
        length = work->text.length;
    }
    size_t row_begin = tokens->count;
    for (size_t at = 0, size; at < length && !status; at += size) {
        size = piece_length(spm, text + at, length - at);
        status =
            encode_piece(&(piece){spm, text + at, size}, &work->list, row_begin, tokens, error);
    }
    return status;
}
