#include "tests/gateway/support/small_vocabulary.h"

#include "tests/support/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>

static char letters[256][4];

static void fill_letters(void) {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        uint32_t code = printable ? byte : next++;
        if (code < 0x80) {
            letters[byte][0] = (char)code;
        } else {
            letters[byte][0] = (char)(0xC0 | code >> 6);
            letters[byte][1] = (char)(0x80 | (code & 63));
        }
    }
}

void small_vocabulary_add(small_vocabulary *vocabulary, const char *text, int32_t type) {
    vocabulary->tokens[vocabulary->token_count++] = text;
    vocabulary->types[vocabulary->type_count++] = type;
}

void small_vocabulary_merge(small_vocabulary *vocabulary, const char *merge) {
    vocabulary->merges[vocabulary->merge_count++] = merge;
}

small_vocabulary small_vocabulary_of_bytes(void) {
    small_vocabulary vocabulary = {.model = "gpt2",
                                   .pre = "gpt-2",
                                   .bos = -1,
                                   .eos = -1,
                                   .eot = -1,
                                   .eom = -1,
                                   .unknown = -1,
                                   .add_bos = -1,
                                   .add_space = -1};
    fill_letters();
    for (size_t byte = 0; byte < 256; byte++)
        small_vocabulary_add(&vocabulary, letters[byte], 1);
    return vocabulary;
}

small_vocabulary small_vocabulary_rich(void) {
    static const struct {
        const char *text;
        int32_t type;
    } tokens[] = {{"he", 1},   {"ll", 1},   {"hell", 1},  {"hello", 1}, {"\u0120w", 1}, {"<s>", 3},
                  {"<s>x", 3}, {"[ud]", 4}, {"<unk>", 2}, {"<x>", 5},   {"  ", 4}};
    static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\u0120 w"};
    small_vocabulary vocabulary = small_vocabulary_of_bytes();
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        small_vocabulary_add(&vocabulary, tokens[i].text, tokens[i].type);
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++)
        small_vocabulary_merge(&vocabulary, merges[i]);
    return vocabulary;
}

small_vocabulary small_vocabulary_spm(void) {
    static char bytes[256][8];
    small_vocabulary vocabulary = {.model = "llama",
                                   .bos = -1,
                                   .eos = -1,
                                   .eot = -1,
                                   .eom = -1,
                                   .unknown = -1,
                                   .add_bos = -1,
                                   .add_space = -1,
                                   .without_merges = true};
    for (uint32_t byte = 0; byte < 256; byte++) {
        snprintf(bytes[byte], sizeof bytes[byte], "<0x%02X>", byte);
        small_vocabulary_add(&vocabulary, bytes[byte], 6);
    }
    small_vocabulary_add(&vocabulary, "<unk>", 2);
    small_vocabulary_add(&vocabulary, "<s>", 3);
    small_vocabulary_add(&vocabulary, "[ud]", 4);
    small_vocabulary_add(&vocabulary, "\u2581 \u2581", 4);
    vocabulary.score_count = vocabulary.token_count;
    return vocabulary;
}

void small_vocabulary_piece(small_vocabulary *vocabulary, const char *text, float score) {
    vocabulary->scores[vocabulary->score_count++] = score;
    small_vocabulary_add(vocabulary, text, 1);
}

static void write_id(gguf_writer *writer, const char *key, int64_t id) {
    if (id >= 0)
        gguf_writer_u32(writer, key, (uint32_t)id);
}

static uint8_t *write(const small_vocabulary *vocabulary, size_t *length) {
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "general.architecture", "llama");
    if (vocabulary->model)
        gguf_writer_text(writer, "tokenizer.ggml.model", vocabulary->model);
    if (vocabulary->pre)
        gguf_writer_text(writer, "tokenizer.ggml.pre", vocabulary->pre);
    if (!vocabulary->without_tokens)
        gguf_writer_text_array(writer, "tokenizer.ggml.tokens", vocabulary->tokens,
                               vocabulary->token_count);
    if (!vocabulary->without_merges)
        gguf_writer_text_array(writer, "tokenizer.ggml.merges", vocabulary->merges,
                               vocabulary->merge_count);
    if (vocabulary->type_count)
        gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", vocabulary->types,
                              vocabulary->type_count);
    if (vocabulary->score_count)
        gguf_writer_f32_array(writer, "tokenizer.ggml.scores", vocabulary->scores,
                              vocabulary->score_count);
    write_id(writer, "tokenizer.ggml.unknown_token_id", vocabulary->unknown);
    write_id(writer, "tokenizer.ggml.bos_token_id", vocabulary->bos);
    write_id(writer, "tokenizer.ggml.eos_token_id", vocabulary->eos);
    write_id(writer, "tokenizer.ggml.eot_token_id", vocabulary->eot);
    write_id(writer, "tokenizer.ggml.eom_token_id", vocabulary->eom);
    if (vocabulary->add_bos >= 0)
        gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", vocabulary->add_bos);
    if (vocabulary->add_space >= 0)
        gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix", vocabulary->add_space);
    uint8_t *bytes = gguf_writer_finish(writer, length);
    gguf_writer_destroy(writer);
    return bytes;
}

small_gguf small_vocabulary_open(const small_vocabulary *vocabulary) {
    size_t length;
    small_gguf opened;
    lh_error error;
    opened.bytes = write(vocabulary, &length);
    if (lh_gguf_parse(opened.bytes, length, length, &opened.gguf, &error)) {
        fprintf(stderr, "%s\n", error.message);
        abort();
    }
    return opened;
}

void small_gguf_close(small_gguf *opened) {
    lh_gguf_destroy(opened->gguf);
    free(opened->bytes);
}
