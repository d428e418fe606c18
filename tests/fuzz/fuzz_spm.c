/* SentencePiece's tokenizer with a vocabulary out of the input: its lines up to an empty one are
 * pieces, each with a score in its first byte; the rest is a text. What it gives must be what the
 * definition gives, and the bytes of the text; a vocabulary that is refused must say why. The first
 * byte makes files odd and allocations fail. */
#include "common/base/utf8.h"
#include "gateway/text/tokenizer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES      256
#define PIECES_MAX 64
#define PIECE_MAX  16
#define TEXT_MAX   96

static void require(bool holds) {
    if (!holds)
        abort();
}

typedef struct file {
    const char *tokens[BYTES + PIECES_MAX];
    float scores[BYTES + PIECES_MAX];
    int32_t types[BYTES + PIECES_MAX];
    size_t count;
    char pieces[PIECES_MAX][PIECE_MAX + 1];
} file;

static void fill_bytes(file *own) {
    static char names[BYTES][8];
    for (uint32_t byte = 0; byte < BYTES; byte++) {
        snprintf(names[byte], sizeof names[byte], "<0x%02X>", byte);
        own->tokens[byte] = names[byte];
        own->types[byte] = 6;
        own->scores[byte] = 0;
    }
    own->count = BYTES;
}

/* Reads the pieces; what follows them begins at the offset returned. */
static size_t read_pieces(file *own, const char *text, size_t length) {
    size_t at = 0;
    while (at < length && text[at] != '\n') {
        const char *end = memchr(text + at, '\n', length - at);
        size_t size = (end ? (size_t)(end - text) : length) - at;
        size_t piece = own->count - BYTES;
        if (piece < PIECES_MAX && size > 1 && size - 1 <= PIECE_MAX &&
            !memchr(text + at, 0, size)) {
            memcpy(own->pieces[piece], text + at + 1, size - 1);
            own->pieces[piece][size - 1] = '\0';
            own->tokens[own->count] = own->pieces[piece];
            own->scores[own->count] = -(float)((uint8_t)text[at] % 32);
            own->types[own->count++] = 1;
        }
        at += size + (end ? 1 : 0);
    }
    return at < length ? at + 1 : length;
}

static uint8_t *write_file(const file *own, uint8_t odd, size_t *length) {
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "tokenizer.ggml.model", "llama");
    gguf_writer_text_array(writer, "tokenizer.ggml.tokens", own->tokens, own->count);
    if (odd != 1)
        gguf_writer_f32_array(writer, "tokenizer.ggml.scores", own->scores,
                              own->count - (odd == 2));
    if (odd != 3)
        gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", own->types, own->count);
    if (odd == 4)
        gguf_writer_u32(writer, "tokenizer.ggml.unknown_token_id", 1U << 20);
    gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix", false);
    uint8_t *bytes = gguf_writer_finish(writer, length);
    gguf_writer_destroy(writer);
    return bytes;
}

static bool contains_space_mark(const char *text, size_t length) {
    return length > 0 && memmem(text, length, "\xE2\x96\x81", 3);
}

/* The piece of these bytes, or -1. None has U+2581 in it. */
static int64_t find(const file *own, const char *bytes, size_t length) {
    for (size_t token = BYTES; token < own->count; token++)
        if (strlen(own->tokens[token]) == length && memcmp(own->tokens[token], bytes, length) == 0)
            return (int64_t)token;
    return -1;
}

/* begins[count + 1]: of each symbol, and the end. */
static size_t join_slowly(const file *own, const char *text, size_t *begins, size_t count) {
    for (;;) {
        size_t best = count;
        float best_score = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            int64_t token = find(own, text + begins[i], begins[i + 2] - begins[i]);
            if (token >= 0 && (best == count || own->scores[token] > best_score)) {
                best = i;
                best_score = own->scores[token];
            }
        }
        if (best == count)
            return count;
        memmove(&begins[best + 1], &begins[best + 2], (count - best - 1) * sizeof *begins);
        count--;
    }
}

static void check_text(const file *own, const lh_tokenizer *tokenizer, const char *text,
                       size_t length) {
    lh_tokens tokens = {0};
    require(lh_tokenizer_encode(tokenizer, text, length, false, &tokens, NULL) == LH_OK);
    size_t begins[TEXT_MAX + 1], count = 0, at = 0;
    for (size_t i = 0; i < length; i++)
        if (((uint8_t)text[i] & 0xC0) != 0x80)
            begins[count++] = i;
    begins[count] = length;
    count = join_slowly(own, text, begins, count);
    for (size_t i = 0; i < count; i++) {
        int64_t token = find(own, text + begins[i], begins[i + 1] - begins[i]);
        for (size_t byte = begins[i]; token < 0 && byte < begins[i + 1]; byte++)
            require(at < tokens.count && tokens.ids[at++] == (uint8_t)text[byte]);
        require(token < 0 || (at < tokens.count && tokens.ids[at++] == token));
    }
    require(at == tokens.count);
    free(tokens.ids);
}

static lh_tokenizer *create(const lh_gguf *gguf, size_t failing) {
    lh_tokenizer *tokenizer = NULL;
    lh_error error = {0};
    failing_malloc_arm(failing);
    lh_status status = lh_tokenizer_create(gguf, &tokenizer, &error);
    bool failed = failing_malloc_disarm();
    require(status == LH_OK || (error.status == status && error.message[0] && !tokenizer));
    require(!failed || status == LH_ERR_NO_MEMORY);
    return tokenizer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    static file own;
    fill_bytes(&own);
    const char *text = (const char *)data + 1;
    size_t begin = read_pieces(&own, text, size - 1), length = size - 1 - begin, file_length;
    bool marks = contains_space_mark(text, size - 1);
    uint8_t *bytes = write_file(&own, data[0] & 7, &file_length);
    lh_gguf *gguf;
    require(lh_gguf_parse(bytes, file_length, file_length, &gguf, NULL) == LH_OK);
    lh_tokenizer *tokenizer = create(gguf, data[0] >> 3);
    lh_gguf_destroy(gguf);
    free(bytes);
    text += begin;
    if (length > TEXT_MAX)
        length = TEXT_MAX;
    length = length ? lh_utf8_valid_prefix(text, length) : 0;
    if (tokenizer && !marks)
        check_text(&own, tokenizer, text, length);
    lh_tokenizer_destroy(tokenizer);
    return 0;
}
