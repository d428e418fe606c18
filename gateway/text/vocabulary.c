/* All texts lie in one block, one after the other; a hash table of ids with open addressing leads
 * back. */
#include "gateway/text/vocabulary.h"

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "gateway/text/byte_alphabet.h"
#include "gateway/text/end_tokens.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Far above any model's (the largest have 256 Ki), far below what would overflow a table. */
#define TOKENS_MAX (1U << 24)

struct lh_vocabulary {
    lh_spelling spelling;
    uint32_t count;
    uint8_t *types;  /* [count] */
    size_t *starts;  /* [count + 1]: of each text in `texts`; its NUL is the last byte */
    char *texts;     /* decoded bytes of normal and byte tokens, the file's text of others */
    uint32_t *slots; /* [slot_mask + 1]: id + 1, 0 for an empty slot */
    size_t slot_mask;
};

/* FNV-1a */
static size_t slot_of(const lh_vocabulary *vocabulary, const char *bytes, size_t length) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001B3U;
    return (size_t)(hash ^ hash >> 32) & vocabulary->slot_mask;
}

lh_text lh_vocabulary_name(const lh_vocabulary *vocabulary, uint32_t token) {
    assert(token < vocabulary->count);
    size_t start = vocabulary->starts[token];
    return (lh_text){vocabulary->texts + start, vocabulary->starts[token + 1] - start - 1};
}

lh_text lh_vocabulary_bytes(const lh_vocabulary *vocabulary, uint32_t token) {
    lh_token_type type = lh_vocabulary_type(vocabulary, token);
    if (type == LH_TOKEN_CONTROL || type == LH_TOKEN_UNKNOWN || type == LH_TOKEN_UNUSED)
        return (lh_text){"", 0};
    return lh_vocabulary_name(vocabulary, token);
}

uint32_t lh_vocabulary_count(const lh_vocabulary *vocabulary) {
    return vocabulary->count;
}

lh_token_type lh_vocabulary_type(const lh_vocabulary *vocabulary, uint32_t token) {
    assert(token < vocabulary->count);
    return (lh_token_type)vocabulary->types[token];
}

int64_t lh_vocabulary_find(const lh_vocabulary *vocabulary, const char *bytes, size_t length) {
    size_t slot = slot_of(vocabulary, bytes, length);
    for (; vocabulary->slots[slot]; slot = (slot + 1) & vocabulary->slot_mask) {
        lh_text text = lh_vocabulary_name(vocabulary, vocabulary->slots[slot] - 1);
        if (text.length == length && memcmp(text.bytes, bytes, length) == 0)
            return (int64_t)vocabulary->slots[slot] - 1;
    }
    return -1;
}

static lh_status insert(lh_vocabulary *vocabulary, uint32_t token, lh_error *error) {
    lh_text text = lh_vocabulary_name(vocabulary, token);
    int64_t twin = lh_vocabulary_find(vocabulary, text.bytes, text.length);
    if (twin >= 0)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tokenizer.ggml.tokens[%u] is the same as tokens[%lld]", token,
                       (long long)twin);
    size_t slot = slot_of(vocabulary, text.bytes, text.length);
    while (vocabulary->slots[slot])
        slot = (slot + 1) & vocabulary->slot_mask;
    vocabulary->slots[slot] = token + 1;
    return LH_OK;
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* "<0x0A>" is the name of a byte token. */
static lh_status decode_byte_token(lh_text text, char *bytes, size_t *count, lh_error *error) {
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || hex_digit(text.bytes[3]) < 0 ||
        hex_digit(text.bytes[4]) < 0 || text.bytes[5] != '>')
        return lh_fail(error, LH_ERR_MALFORMED, "is no name of a byte");
    bytes[0] = (char)(hex_digit(text.bytes[3]) * 16 + hex_digit(text.bytes[4]));
    *count = 1;
    return LH_OK;
}

static lh_status decode_sentencepiece(lh_text text, char *bytes, size_t *count, lh_error *error) {
    static const char space[] = "\xE2\x96\x81"; /* U+2581 */
    if (lh_utf8_valid_prefix(text.bytes, text.length) < text.length)
        return lh_fail(error, LH_ERR_MALFORMED, "is not UTF-8");
    *count = 0;
    for (size_t i = 0; i < text.length; i++) {
        bool is_space = text.length - i >= sizeof space - 1 &&
                        memcmp(text.bytes + i, space, sizeof space - 1) == 0;
        bytes[(*count)++] = is_space ? ' ' : text.bytes[i];
        i += is_space ? sizeof space - 2 : 0;
    }
    return LH_OK;
}

/* Converters of SentencePiece models wrote the spaces of user-defined tokens either way. */
static lh_status decode_token(lh_spelling spelling, lh_token_type type, lh_text text, char *bytes,
                              size_t *count, lh_error *error) {
    if (type == LH_TOKEN_BYTE)
        return decode_byte_token(text, bytes, count, error);
    if (spelling == LH_SPELLING_SENTENCEPIECE &&
        (type == LH_TOKEN_NORMAL || type == LH_TOKEN_USER_DEFINED))
        return decode_sentencepiece(text, bytes, count, error);
    if (type == LH_TOKEN_NORMAL)
        return lh_byte_alphabet_decode(text.bytes, text.length, bytes, count, error);
    memcpy(bytes, text.bytes, text.length);
    *count = text.length;
    return LH_OK;
}

static lh_status fill_texts(lh_vocabulary *vocabulary, const lh_text *texts, lh_error *error) {
    size_t at = 0;
    for (uint32_t token = 0; token < vocabulary->count; token++) {
        lh_error cause;
        lh_token_type type = lh_vocabulary_type(vocabulary, token);
        size_t count;
        lh_status status = decode_token(vocabulary->spelling, type, texts[token],
                                        vocabulary->texts + at, &count, &cause);
        if (status)
            return lh_fail(error, status, "tokenizer.ggml.tokens[%u] %s", token, cause.message);
        vocabulary->starts[token] = at;
        at += count;
        vocabulary->texts[at++] = '\0';
        vocabulary->starts[token + 1] = at;
        if (type == LH_TOKEN_NORMAL && count > 0 && (status = insert(vocabulary, token, error)))
            return status;
    }
    return LH_OK;
}

/* Of a file without types: all are normal, but for SentencePiece's bytes, by their names. */
static void guess_types(lh_vocabulary *vocabulary, const lh_text *texts) {
    bool has_bytes = vocabulary->spelling == LH_SPELLING_SENTENCEPIECE;
    char byte;
    size_t count;
    for (uint32_t token = 0; token < vocabulary->count; token++)
        vocabulary->types[token] =
            has_bytes && decode_byte_token(texts[token], &byte, &count, NULL) == LH_OK
                ? LH_TOKEN_BYTE
                : LH_TOKEN_NORMAL;
}

static lh_status read_types(lh_vocabulary *vocabulary, const lh_gguf *gguf, const lh_text *texts,
                            lh_error *error) {
    static const char key[] = "tokenizer.ggml.token_type";
    size_t count;
    lh_status status = lh_gguf_get_array(gguf, key, &count, error);
    if (status == LH_ERR_NOT_FOUND) {
        lh_log(LH_LOG_WARN, "tokenizer", "the file has no %s: they are guessed", key);
        guess_types(vocabulary, texts);
        return LH_OK;
    }
    if (status)
        return status;
    if (count != vocabulary->count)
        return lh_fail(error, LH_ERR_MALFORMED, "%s has %zu entries, tokenizer.ggml.tokens has %u",
                       key, count, vocabulary->count);
    int64_t *types = calloc(count, sizeof *types);
    if (!types)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu token types", count);
    status = lh_gguf_array_i64(gguf, key, types, count, error);
    for (size_t i = 0; i < count && !status; i++)
        if (types[i] < LH_TOKEN_NORMAL || types[i] > LH_TOKEN_BYTE)
            status = lh_fail(error, LH_ERR_MALFORMED, "%s[%zu] is %lld, which is no type of token",
                             key, i, (long long)types[i]);
        else
            vocabulary->types[i] = (uint8_t)types[i];
    free(types);
    return status;
}

#define ENDS 3

/* What the file's own ids say ends a turn or a text; UINT64_MAX: nothing. */
static void read_ends(const lh_gguf *gguf, uint64_t ends[ENDS]) {
    static const char *const keys[ENDS] = {"tokenizer.ggml.eos_token_id",
                                           "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < ENDS; i++)
        if (lh_gguf_get_u64(gguf, keys[i], &ends[i], NULL))
            ends[i] = UINT64_MAX;
}

/* tokenizer.ggml.merges, read when the first token asks for them. */
typedef struct merge_texts {
    const lh_gguf *gguf;
    lh_text *texts; /* [count]; NULL: not read */
    size_t count;
    bool is_read;
} merge_texts;

/* What is wrong with them is said by who merges by them (bpe.c). */
static lh_status read_merges(merge_texts *merges, lh_error *error) {
    static const char key[] = "tokenizer.ggml.merges";
    merges->is_read = true;
    if (lh_gguf_get_array(merges->gguf, key, &merges->count, NULL) || merges->count == 0)
        return LH_OK;
    merges->texts = calloc(merges->count, sizeof *merges->texts);
    if (!merges->texts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu merges", merges->count);
    if (lh_gguf_array_text(merges->gguf, key, merges->texts, merges->count, NULL))
        merges->count = 0;
    return LH_OK;
}

/* "LEFT RIGHT" of which the token is the result: then text may become it. Qwen's have "</s>" so. */
static bool is_merged(const merge_texts *merges, lh_text token) {
    for (size_t i = 0; i < merges->count; i++) {
        lh_text merge = merges->texts[i];
        const char *space =
            merge.length == token.length + 1 ? memchr(merge.bytes, ' ', merge.length) : NULL;
        size_t left = space ? (size_t)(space - merge.bytes) : 0;
        if (space && memcmp(merge.bytes, token.bytes, left) == 0 &&
            memcmp(space + 1, token.bytes + left, token.length - left) == 0)
            return true;
    }
    return false;
}

/* Converters have written marks as if they were text: then no template would find them, and answers
 * would show them. */
static lh_status mend_types(lh_vocabulary *vocabulary, const lh_gguf *gguf, const lh_text *texts,
                            lh_error *error) {
    lh_text chat_template = {"", 0};
    merge_texts merges = {.gguf = gguf};
    lh_status status = LH_OK;
    uint64_t ends[ENDS];
    read_ends(gguf, ends);
    (void)lh_gguf_get_text(gguf, "tokenizer.chat_template", &chat_template, NULL);
    for (uint32_t token = 0; token < vocabulary->count && !status; token++) {
        bool is_end = token == ends[0] || token == ends[1] || token == ends[2];
        if (vocabulary->types[token] != LH_TOKEN_NORMAL ||
            (!is_end && !lh_end_token_is_mark(texts[token], chat_template)))
            continue;
        if (!merges.is_read)
            status = read_merges(&merges, error);
        if (status || is_merged(&merges, texts[token]))
            continue;
        lh_log(LH_LOG_WARN, "tokenizer",
               "the file has a mark as a normal token, taken as control token=%u text=\"%.*s\"",
               token, (int)(texts[token].length < 64 ? texts[token].length : 64),
               texts[token].bytes);
        vocabulary->types[token] = LH_TOKEN_CONTROL;
    }
    free(merges.texts);
    return status;
}

static lh_status read_tokens(lh_vocabulary *vocabulary, const lh_gguf *gguf, lh_error *error) {
    lh_text *texts = calloc(vocabulary->count, sizeof *texts);
    if (!texts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u tokens", vocabulary->count);
    lh_status status =
        lh_gguf_array_text(gguf, "tokenizer.ggml.tokens", texts, vocabulary->count, error);
    if (!status)
        status = read_types(vocabulary, gguf, texts, error);
    if (!status)
        status = mend_types(vocabulary, gguf, texts, error);
    if (status)
        goto done;
    size_t bytes = 0;
    for (uint32_t token = 0; token < vocabulary->count; token++)
        bytes += texts[token].length + 1;
    vocabulary->texts = malloc(bytes);
    if (!vocabulary->texts)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu bytes of tokens", bytes);
    else
        status = fill_texts(vocabulary, texts, error);
done:
    free(texts);
    return status;
}

static lh_status allocate(lh_vocabulary *vocabulary, lh_error *error) {
    size_t slots = 2;
    while (slots < (size_t)vocabulary->count * 2)
        slots *= 2;
    vocabulary->slot_mask = slots - 1;
    vocabulary->types = calloc(vocabulary->count, sizeof *vocabulary->types);
    vocabulary->starts = calloc((size_t)vocabulary->count + 1, sizeof *vocabulary->starts);
    vocabulary->slots = calloc(slots, sizeof *vocabulary->slots);
    if (!vocabulary->types || !vocabulary->starts || !vocabulary->slots)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a vocabulary of %u tokens",
                       vocabulary->count);
    return LH_OK;
}

lh_status lh_vocabulary_create(const lh_gguf *gguf, lh_spelling spelling,
                               lh_vocabulary **vocabulary, lh_error *error) {
    size_t count;
    lh_status status = lh_gguf_get_array(gguf, "tokenizer.ggml.tokens", &count, error);
    if (status)
        return status == LH_ERR_NOT_FOUND
                   ? lh_fail(error, LH_ERR_MALFORMED, "the file has no tokenizer.ggml.tokens")
                   : status;
    if (count == 0)
        return lh_fail(error, LH_ERR_MALFORMED, "tokenizer.ggml.tokens is empty");
    if (count > TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "tokenizer.ggml.tokens has %zu entries, more than %u",
                       count, TOKENS_MAX);
    lh_vocabulary *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a vocabulary");
    made->spelling = spelling;
    made->count = (uint32_t)count;
    if ((status = allocate(made, error)) || (status = read_tokens(made, gguf, error))) {
        lh_vocabulary_destroy(made);
        return status;
    }
    *vocabulary = made;
    return LH_OK;
}

void lh_vocabulary_destroy(lh_vocabulary *vocabulary) {
    if (!vocabulary)
        return;
    free(vocabulary->slots);
    free(vocabulary->texts);
    free(vocabulary->starts);
    free(vocabulary->types);
    free(vocabulary);
}
