#include "tests/gateway/support/model_vocabulary.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/mapped_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_vocabulary {
    lh_mapped_file *file;
    lh_gguf *gguf;
};

model_vocabulary *model_vocabulary_open(const char *variable) {
    const char *path = getenv(variable);
    if (!path || !*path) {
        printf("skipped: %s is not set\n", variable);
        return NULL;
    }
    model_vocabulary *model = calloc(1, sizeof *model);
    lh_error error;
    if (lh_mapped_file_open(path, &model->file, &error)) {
        printf("skipped: %s: %s\n", variable, error.message);
        free(model);
        return NULL;
    }
    size_t size = lh_mapped_file_size(model->file);
    if (lh_gguf_parse(lh_mapped_file_bytes(model->file), size, size, &model->gguf, &error)) {
        fprintf(stderr, "%s: %s\n", path, error.message);
        abort();
    }
    return model;
}

void model_vocabulary_close(model_vocabulary *model) {
    lh_gguf_destroy(model->gguf);
    lh_mapped_file_close(model->file);
    free(model);
}

const lh_gguf *model_vocabulary_gguf(const model_vocabulary *model) {
    return model->gguf;
}

/* The array of texts, each terminated, with room for `extra` more. */
static char **read_texts(const lh_gguf *gguf, const char *key, size_t extra, size_t *count) {
    if (lh_gguf_get_array(gguf, key, count, NULL))
        abort();
    lh_text *texts = calloc(*count, sizeof *texts);
    char **out = calloc(*count + extra, sizeof *out);
    if (!texts || !out || lh_gguf_array_text(gguf, key, texts, *count, NULL))
        abort();
    for (size_t i = 0; i < *count; i++)
        out[i] = strndup(texts[i].bytes, texts[i].length);
    free(texts);
    return out;
}

static void free_texts(char **texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

static void write_types(gguf_writer *writer, const lh_gguf *gguf, size_t count, size_t extra) {
    int64_t *types = calloc(count, sizeof *types);
    int32_t *narrow = calloc(count + extra, sizeof *narrow);
    if (!types || !narrow ||
        lh_gguf_array_i64(gguf, "tokenizer.ggml.token_type", types, count, NULL))
        abort();
    for (size_t i = 0; i < count + extra; i++)
        narrow[i] = i < count ? (int32_t)types[i] : 3;
    gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", narrow, count + extra);
    free(narrow);
    free(types);
}

static void write_id(gguf_writer *writer, const char *key, const char *name, char **tokens,
                     size_t count) {
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(tokens[i], name) == 0) {
            gguf_writer_u32(writer, key, (uint32_t)i);
            return;
        }
}

static uint8_t *write_vocabulary(const lh_gguf *gguf, const model_vocabulary_options *options,
                                 size_t *length) {
    size_t tokens_count, merges_count, extra = options->extra_count;
    char **tokens = read_texts(gguf, "tokenizer.ggml.tokens", extra, &tokens_count);
    char **merges = read_texts(gguf, "tokenizer.ggml.merges", 0, &merges_count);
    for (size_t i = 0; i < extra; i++)
        tokens[tokens_count + i] = strdup(options->extra[i]);
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "general.architecture", "llama");
    gguf_writer_text(writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_text(writer, "tokenizer.ggml.pre", options->pre);
    gguf_writer_text_array(writer, "tokenizer.ggml.tokens", (const char *const *)tokens,
                           tokens_count + extra);
    gguf_writer_text_array(writer, "tokenizer.ggml.merges", (const char *const *)merges,
                           merges_count);
    write_types(writer, gguf, tokens_count, extra);
    write_id(writer, "tokenizer.ggml.bos_token_id", options->bos, tokens, tokens_count + extra);
    write_id(writer, "tokenizer.ggml.eos_token_id", options->eos, tokens, tokens_count + extra);
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", options->add_bos);
    uint8_t *bytes = gguf_writer_finish(writer, length);
    gguf_writer_destroy(writer);
    free_texts(tokens, tokens_count + extra);
    free_texts(merges, merges_count);
    return bytes;
}

lh_tokenizer *model_vocabulary_tokenizer(const model_vocabulary *model,
                                         model_vocabulary_options options) {
    size_t length;
    uint8_t *bytes = write_vocabulary(model->gguf, &options, &length);
    lh_gguf *gguf;
    lh_tokenizer *tokenizer;
    lh_error error;
    if (lh_gguf_parse(bytes, length, length, &gguf, &error) ||
        lh_tokenizer_create(gguf, &tokenizer, &error)) {
        fprintf(stderr, "tokenizer %s: %s\n", options.pre, error.message);
        abort();
    }
    lh_gguf_destroy(gguf);
    free(bytes);
    return tokenizer;
}
