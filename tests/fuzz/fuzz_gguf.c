/* GGUF: hostile bytes behind a sound magic and version, or a sound model with some bytes changed
 * (the first byte decides), and then everything that a caller may ask of what was parsed. The
 * second byte makes an allocation fail. */
#include "common/gguf/gguf.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"

#include <stdlib.h>
#include <string.h>

static volatile uint64_t sink; /* so that reads of what was parsed are not left out */

static void touch(lh_text text) {
    for (size_t i = 0; i < text.length; i++)
        sink += (uint8_t)text.bytes[i];
}

static void read_array(const lh_gguf *gguf, const char *key) {
    size_t count;
    if (lh_gguf_get_array(gguf, key, &count, NULL) != LH_OK)
        return;
    lh_text *texts = calloc(count + 1, sizeof *texts);
    int64_t *integers = calloc(count + 1, sizeof *integers);
    double *floats = calloc(count + 1, sizeof *floats);
    bool *flags = calloc(count + 1, sizeof *flags);
    if (!texts || !integers || !floats || !flags)
        abort();
    if (lh_gguf_array_text(gguf, key, texts, count, NULL) == LH_OK)
        for (size_t i = 0; i < count; i++)
            touch(texts[i]);
    (void)lh_gguf_array_i64(gguf, key, integers, count, NULL);
    (void)lh_gguf_array_f64(gguf, key, floats, count, NULL);
    (void)lh_gguf_array_bool(gguf, key, flags, count, NULL);
    free(flags);
    free(floats);
    free(integers);
    free(texts);
}

static void read_key(const lh_gguf *gguf, const char *key) {
    uint64_t integer;
    double number;
    bool flag;
    lh_text text;
    lh_error error;
    (void)lh_gguf_get_u64(gguf, key, &integer, &error);
    (void)lh_gguf_get_f64(gguf, key, &number, &error);
    (void)lh_gguf_get_bool(gguf, key, &flag, &error);
    if (lh_gguf_get_text(gguf, key, &text, &error) == LH_OK)
        touch(text);
    read_array(gguf, key);
}

static void read_all(const lh_gguf *gguf, uint64_t file_bytes) {
    static const char *const keys[] = {"a",
                                       "general.alignment",
                                       "general.architecture",
                                       "llama.block_count",
                                       "llama.rope.freq_base",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges",
                                       "tokenizer.ggml.add_bos_token",
                                       "tokenizer.chat_template"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        read_key(gguf, keys[i]);
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char name[65] = "";
        if (tensor->name.length > 64 || tensor->dimensions - 1 > 3 || tensor->offset > file_bytes ||
            tensor->bytes > file_bytes - tensor->offset ||
            tensor->offset < lh_gguf_data_offset(gguf))
            abort();
        memcpy(name, tensor->name.bytes, tensor->name.length);
        if (lh_gguf_tensor_find(gguf, name) != tensor)
            abort();
    }
}

static void parse(const uint8_t *bytes, size_t length, uint64_t file_bytes, size_t failing) {
    lh_gguf *gguf = NULL;
    lh_error error = {0};
    failing_malloc_arm(failing);
    lh_status status = lh_gguf_parse(bytes, length, file_bytes, &gguf, &error);
    (void)failing_malloc_disarm();
    if (status == LH_OK) {
        read_all(gguf, file_bytes);
        lh_gguf_destroy(gguf);
    } else if (error.status != status || !error.message[0]) {
        abort();
    }
}

/* Bytes behind "GGUF", version 3; the file goes on for 64 KiB after them. */
static void parse_raw(const uint8_t *data, size_t size, size_t failing) {
    uint8_t *bytes = malloc(8 + size);
    if (!bytes)
        abort();
    memcpy(bytes, "GGUF\3\0\0\0", 8);
    if (size)
        memcpy(bytes + 8, data, size);
    parse(bytes, 8 + size, 8 + size + (64 << 10), failing);
    free(bytes);
}

/* A small model with each three bytes of data as an offset and what to write there. */
static void parse_changed(const uint8_t *data, size_t size, size_t failing) {
    static uint8_t *model;
    static size_t length;
    if (!model) {
        tiny_llama tiny = tiny_llama_default();
        tiny.layers = 1;
        model = tiny_llama_bytes(&tiny, &length);
    }
    size_t front = length < 65536 ? length : 65536;
    uint8_t *bytes = malloc(front);
    if (!bytes)
        abort();
    memcpy(bytes, model, front);
    for (size_t i = 0; i + 3 <= size; i += 3)
        bytes[(data[i] | (size_t)data[i + 1] << 8) % front] = data[i + 2];
    parse(bytes, front, length, failing);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t failing = data[1] < 8 ? data[1] : 0;
    if (data[0] & 1)
        parse_changed(data + 2, size - 2, failing);
    else
        parse_raw(data + 2, size - 2, failing);
    return 0;
}
