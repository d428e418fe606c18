/* A growing buffer for each of the file's three parts: metadata, tensor list, data. */
#include "tests/support/gguf_writer.h"

#include "tests/support/quant_block.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer {
    uint8_t *bytes;
    size_t length, capacity;
} buffer;

struct gguf_writer {
    uint64_t random;
    uint32_t version, alignment;
    uint64_t entry_count, tensor_count;
    buffer entries, tensors, data;
    bool has_next_offset;
    uint64_t next_offset;
};

static uint8_t *grow(buffer *b, size_t length) {
    if (b->length + length > b->capacity) {
        b->capacity = 2 * (b->length + length);
        b->bytes = realloc(b->bytes, b->capacity);
        assert(b->bytes);
    }
    b->length += length;
    return b->bytes + b->length - length;
}

static void append(buffer *b, const void *bytes, size_t length) {
    if (length)
        memcpy(grow(b, length), bytes, length);
}

static void append_u32(buffer *b, uint32_t value) {
    append(b, &value, sizeof value);
}

static void append_u64(buffer *b, uint64_t value) {
    append(b, &value, sizeof value);
}

static void append_text(buffer *b, const void *text, size_t length) {
    append_u64(b, length);
    append(b, text, length);
}

static void pad(buffer *b, size_t alignment) {
    size_t rest = b->length % alignment;
    if (rest)
        memset(grow(b, alignment - rest), 0, alignment - rest);
}

gguf_writer *gguf_writer_create(uint64_t seed) {
    gguf_writer *writer = calloc(1, sizeof *writer);
    assert(writer);
    writer->random = seed;
    writer->version = 3;
    writer->alignment = 32;
    return writer;
}

void gguf_writer_destroy(gguf_writer *writer) {
    free(writer->entries.bytes);
    free(writer->tensors.bytes);
    free(writer->data.bytes);
    free(writer);
}

void gguf_writer_set_version(gguf_writer *writer, uint32_t version) {
    writer->version = version;
}

void gguf_writer_set_alignment(gguf_writer *writer, uint32_t alignment) {
    writer->alignment = alignment;
    gguf_writer_u32(writer, "general.alignment", alignment);
}

/* ---- Metadata ---- */

void gguf_writer_raw(gguf_writer *writer, const void *key, size_t key_length, uint32_t type,
                     const void *value, size_t value_length) {
    append_text(&writer->entries, key, key_length);
    append_u32(&writer->entries, type);
    append(&writer->entries, value, value_length);
    writer->entry_count++;
}

#define SCALAR(name, type, number)                                                                 \
    void gguf_writer_##name(gguf_writer *writer, const char *key, type value) {                    \
        gguf_writer_raw(writer, key, strlen(key), number, &value, sizeof value);                   \
    }
SCALAR(u8, uint8_t, GGUF_TYPE_U8)
SCALAR(i8, int8_t, GGUF_TYPE_I8)
SCALAR(u16, uint16_t, GGUF_TYPE_U16)
SCALAR(i16, int16_t, GGUF_TYPE_I16)
SCALAR(u32, uint32_t, GGUF_TYPE_U32)
SCALAR(i32, int32_t, GGUF_TYPE_I32)
SCALAR(u64, uint64_t, GGUF_TYPE_U64)
SCALAR(i64, int64_t, GGUF_TYPE_I64)
SCALAR(f32, float, GGUF_TYPE_F32)
SCALAR(f64, double, GGUF_TYPE_F64)
SCALAR(bool, bool, GGUF_TYPE_BOOL)

void gguf_writer_text(gguf_writer *writer, const char *key, const char *value) {
    gguf_writer_raw(writer, key, strlen(key), GGUF_TYPE_TEXT, NULL, 0);
    append_text(&writer->entries, value, strlen(value));
}

void gguf_writer_raw_array(gguf_writer *writer, const char *key, uint32_t element_type,
                           uint64_t count, const void *values, size_t length) {
    gguf_writer_raw(writer, key, strlen(key), GGUF_TYPE_ARRAY, NULL, 0);
    append_u32(&writer->entries, element_type);
    append_u64(&writer->entries, count);
    append(&writer->entries, values, length);
}

void gguf_writer_text_array(gguf_writer *writer, const char *key, const char *const *values,
                            size_t count) {
    gguf_writer_raw_array(writer, key, GGUF_TYPE_TEXT, count, NULL, 0);
    for (size_t i = 0; i < count; i++)
        append_text(&writer->entries, values[i], strlen(values[i]));
}

void gguf_writer_i32_array(gguf_writer *writer, const char *key, const int32_t *values,
                           size_t count) {
    gguf_writer_raw_array(writer, key, GGUF_TYPE_I32, count, values, count * sizeof *values);
}

void gguf_writer_f32_array(gguf_writer *writer, const char *key, const float *values,
                           size_t count) {
    gguf_writer_raw_array(writer, key, GGUF_TYPE_F32, count, values, count * sizeof *values);
}

void gguf_writer_bool_array(gguf_writer *writer, const char *key, const bool *values,
                            size_t count) {
    gguf_writer_raw_array(writer, key, GGUF_TYPE_BOOL, count, values, count * sizeof *values);
}

/* ---- Random values in each type's layout ---- */

uint64_t test_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float test_random_float(uint64_t *state, float range) {
    return ((float)(test_random(state) >> 40) * 0x1p-23f - 1.0f) * range;
}

uint16_t test_f16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* from 65520 on: infinity */
        return (uint16_t)(sign | 0x7c00);
    uint32_t mantissa = magnitude, shift = 13;
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal */
        shift = 126 - (magnitude >> 23);
        if (shift > 24)
            return (uint16_t)sign;
        mantissa = (magnitude & 0x7fffff) | 0x800000;
    } else {
        mantissa -= 112u << 23;
    }
    uint32_t half = 1u << (shift - 1), rest = mantissa & (2 * half - 1);
    mantissa >>= shift;
    mantissa += rest > half || (rest == half && (mantissa & 1));
    return (uint16_t)(sign | mantissa);
}

static uint16_t bf16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* One element of a float type. */
static void fill_float(lh_dtype type, uint8_t *out, float value) {
    uint16_t half = type == LH_DTYPE_F16 ? test_f16_from_f32(value) : bf16_from_f32(value);
    if (type == LH_DTYPE_F32)
        memcpy(out, &value, sizeof value);
    else
        memcpy(out, &half, sizeof half);
}

static void fill_nibbles(uint64_t *random, uint8_t *out) {
    for (size_t i = 0; i < 16; i++)
        out[i] = (uint8_t)(test_random(random) >> 32);
}

/* One block; the scales differ from block to block by up to a factor of two. */
static void fill_block(lh_dtype type, uint64_t *random, uint8_t *out, float range) {
    range *= 0.75f + test_random_float(random, 0.25f);
    uint16_t scale, minimum = test_f16_from_f32(-range);
    switch (type) {
    case LH_DTYPE_Q4_0: /* d, 16 bytes of q; d * (q - 8) */
        scale = test_f16_from_f32(range / 8);
        memcpy(out, &scale, 2);
        fill_nibbles(random, out + 2);
        return;
    case LH_DTYPE_Q4_1: /* d, m, 16 bytes of q; d * q + m */
        scale = test_f16_from_f32(2 * range / 15);
        memcpy(out, &scale, 2);
        memcpy(out + 2, &minimum, 2);
        fill_nibbles(random, out + 4);
        return;
    case LH_DTYPE_Q8_0: /* d, 32 bytes of q; d * q */
        scale = test_f16_from_f32(range / 127);
        memcpy(out, &scale, 2);
        for (size_t i = 0; i < 32; i++)
            out[2 + i] = (uint8_t)(int8_t)((int)(test_random(random) % 255) - 127);
        return;
    default: /* within the range, or not: nobody asks that of the others */
        for (size_t i = 0; i < lh_dtype_lookup((uint32_t)type)->block_bytes; i++)
            out[i] = (uint8_t)(test_random(random) >> 32);
        quant_block_set_scale(type, out, test_f16_from_f32(range / 64));
    }
}

static void fill(gguf_writer *writer, lh_dtype type, uint8_t *out, size_t blocks, float centre,
                 float range) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)type);
    for (size_t i = 0; i < blocks; i++, out += info->block_bytes)
        if (info->block_elements == 1)
            fill_float(type, out, centre + test_random_float(&writer->random, range));
        else
            fill_block(type, &writer->random, out, range);
}

/* ---- Tensors ---- */

static void list_tensor(gguf_writer *writer, const char *name, uint32_t type, uint32_t dimensions,
                        const uint64_t *shape) {
    append_text(&writer->tensors, name, strlen(name));
    append_u32(&writer->tensors, dimensions);
    append(&writer->tensors, shape, dimensions * sizeof *shape);
    append_u32(&writer->tensors, type);
    pad(&writer->data, writer->alignment);
    append_u64(&writer->tensors,
               writer->has_next_offset ? writer->next_offset : writer->data.length);
    writer->has_next_offset = false;
    writer->tensor_count++;
}

static void write_random(gguf_writer *writer, const char *name, lh_dtype type, uint32_t dimensions,
                         const uint64_t *shape, float centre, float range) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)type);
    uint64_t blocks = 1;
    assert(info && dimensions > 0 && shape[0] % info->block_elements == 0);
    for (uint32_t i = 0; i < dimensions; i++)
        blocks *= i ? shape[i] : shape[0] / info->block_elements;
    list_tensor(writer, name, (uint32_t)type, dimensions, shape);
    fill(writer, type, grow(&writer->data, blocks * info->block_bytes), blocks, centre, range);
}

void gguf_writer_tensor(gguf_writer *writer, const char *name, lh_dtype type, uint32_t dimensions,
                        const uint64_t *shape, float range) {
    write_random(writer, name, type, dimensions, shape, 0, range);
}

void gguf_writer_matrix(gguf_writer *writer, const char *name, lh_dtype type, uint64_t inputs,
                        uint64_t outputs, float range) {
    write_random(writer, name, type, 2, (const uint64_t[]){inputs, outputs}, 0, range);
}

void gguf_writer_gain(gguf_writer *writer, const char *name, uint64_t width, float range) {
    write_random(writer, name, LH_DTYPE_F32, 1, &width, 1, range);
}

void gguf_writer_tensor_bytes(gguf_writer *writer, const char *name, uint32_t type,
                              uint32_t dimensions, const uint64_t *shape, const void *bytes,
                              size_t length) {
    list_tensor(writer, name, type, dimensions, shape);
    append(&writer->data, bytes, length);
}

void gguf_writer_set_next_offset(gguf_writer *writer, uint64_t offset) {
    writer->has_next_offset = true;
    writer->next_offset = offset;
}

uint8_t *gguf_writer_finish(gguf_writer *writer, size_t *length) {
    buffer file = {0};
    append(&file, "GGUF", 4);
    append_u32(&file, writer->version);
    append_u64(&file, writer->tensor_count);
    append_u64(&file, writer->entry_count);
    append(&file, writer->entries.bytes, writer->entries.length);
    append(&file, writer->tensors.bytes, writer->tensors.length);
    if (writer->alignment)
        pad(&file, writer->alignment);
    append(&file, writer->data.bytes, writer->data.length);
    *length = file.length;
    return file.bytes;
}

void gguf_writer_save(gguf_writer *writer, const char *path) {
    size_t length;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
        perror(path);
        abort();
    }
    free(bytes);
}
