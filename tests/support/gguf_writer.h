/* Builds GGUF files for tests, in memory: metadata of any type, tensors of any type in our table
 * filled from a seeded generator, and raw bytes where a test wants something wrong. Aborts when out
 * of memory: a test has no use for less. */
#pragma once

#include "common/base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The format's numbers of value types. */
enum {
    GGUF_TYPE_U8,
    GGUF_TYPE_I8,
    GGUF_TYPE_U16,
    GGUF_TYPE_I16,
    GGUF_TYPE_U32,
    GGUF_TYPE_I32,
    GGUF_TYPE_F32,
    GGUF_TYPE_BOOL,
    GGUF_TYPE_TEXT,
    GGUF_TYPE_ARRAY,
    GGUF_TYPE_U64,
    GGUF_TYPE_I64,
    GGUF_TYPE_F64
};

typedef struct gguf_writer gguf_writer;

/* The same seed and calls give the same file. Version 3, alignment 32. */
gguf_writer *gguf_writer_create(uint64_t seed);
void gguf_writer_destroy(gguf_writer *writer);
void gguf_writer_set_version(gguf_writer *writer, uint32_t version);
/* Writes general.alignment, too. */
void gguf_writer_set_alignment(gguf_writer *writer, uint32_t alignment);

/* Metadata, in the order of the calls. */
void gguf_writer_u8(gguf_writer *writer, const char *key, uint8_t value);
void gguf_writer_i8(gguf_writer *writer, const char *key, int8_t value);
void gguf_writer_u16(gguf_writer *writer, const char *key, uint16_t value);
void gguf_writer_i16(gguf_writer *writer, const char *key, int16_t value);
void gguf_writer_u32(gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_i32(gguf_writer *writer, const char *key, int32_t value);
void gguf_writer_u64(gguf_writer *writer, const char *key, uint64_t value);
void gguf_writer_i64(gguf_writer *writer, const char *key, int64_t value);
void gguf_writer_f32(gguf_writer *writer, const char *key, float value);
void gguf_writer_f64(gguf_writer *writer, const char *key, double value);
void gguf_writer_bool(gguf_writer *writer, const char *key, bool value);
void gguf_writer_text(gguf_writer *writer, const char *key, const char *value);
void gguf_writer_text_array(gguf_writer *writer, const char *key, const char *const *values,
                            size_t count);
void gguf_writer_i32_array(gguf_writer *writer, const char *key, const int32_t *values,
                           size_t count);
void gguf_writer_f32_array(gguf_writer *writer, const char *key, const float *values, size_t count);
void gguf_writer_bool_array(gguf_writer *writer, const char *key, const bool *values, size_t count);
/* A value of any type number and any bytes, key of any bytes: for what a sound writer would not
 * write. */
void gguf_writer_raw(gguf_writer *writer, const void *key, size_t key_length, uint32_t type,
                     const void *value, size_t value_length);
/* An array: element type and count as told, the bytes as they are. */
void gguf_writer_raw_array(gguf_writer *writer, const char *key, uint32_t element_type,
                           uint64_t count, const void *values, size_t length);

/* Tensors, in the order of the calls; data follow each other at the alignment.
 * Random values are in [-range, range], close to uniform, on the grid of the type; those of types
 * other than floats, Q4_0, Q4_1 and Q8_0 are of about that size, and of any distribution. */
void gguf_writer_tensor(gguf_writer *writer, const char *name, lh_dtype type, uint32_t dimensions,
                        const uint64_t *shape, float range);
/* shape[0] = inputs (the row length), shape[1] = outputs. */
void gguf_writer_matrix(gguf_writer *writer, const char *name, lh_dtype type, uint64_t inputs,
                        uint64_t outputs, float range);
/* F32 with every element 1 + random in [-range, range]: a norm's gain. */
void gguf_writer_gain(gguf_writer *writer, const char *name, uint64_t width, float range);
/* Given bytes and any type number. */
void gguf_writer_tensor_bytes(gguf_writer *writer, const char *name, uint32_t type,
                              uint32_t dimensions, const uint64_t *shape, const void *bytes,
                              size_t length);
/* The next tensor's offset field is this instead of the right one. */
void gguf_writer_set_next_offset(gguf_writer *writer, uint64_t offset);

/* The file: malloc'd, the caller frees. */
uint8_t *gguf_writer_finish(gguf_writer *writer, size_t *length);
/* The same, written to a file. */
void gguf_writer_save(gguf_writer *writer, const char *path);

/* splitmix64: the generator of all this, for tests that want numbers too. */
uint64_t test_random(uint64_t *state);
/* Uniform in [-range, range]. */
float test_random_float(uint64_t *state, float range);
/* binary32 to binary16, round to nearest even. */
uint16_t test_f16_from_f32(float value);
