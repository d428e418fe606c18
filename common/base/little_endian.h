/* A cursor over bytes for little-endian numbers: a writer that never passes its end and a reader
 * that never passes its own. Both note the first failure and go on harmlessly, so that a codec
 * checks once at its end. Thread: the cursor's owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are copied as they lie in memory");

typedef struct lh_byte_writer {
    uint8_t *bytes;
    size_t capacity, length;
    bool failed; /* something did not fit */
} lh_byte_writer;

typedef struct lh_byte_reader {
    const uint8_t *bytes;
    size_t length, offset;
    bool failed; /* something was cut */
} lh_byte_reader;

static inline void lh_put_bytes(lh_byte_writer *writer, const void *bytes, size_t length) {
    if (writer->failed || length > writer->capacity - writer->length) {
        writer->failed = true;
        return;
    }
    if (length > 0)
        memcpy(writer->bytes + writer->length, bytes, length);
    writer->length += length;
}

static inline void lh_put_u32(lh_byte_writer *writer, uint32_t value) {
    lh_put_bytes(writer, &value, sizeof(value));
}

static inline void lh_put_u64(lh_byte_writer *writer, uint64_t value) {
    lh_put_bytes(writer, &value, sizeof(value));
}

static inline void lh_put_f32(lh_byte_writer *writer, float value) {
    lh_put_bytes(writer, &value, sizeof(value));
}

/* Zeros `value` when fewer than `length` bytes are left. */
static inline void lh_get_bytes(lh_byte_reader *reader, void *value, size_t length) {
    if (reader->failed || length > reader->length - reader->offset) {
        reader->failed = true;
        memset(value, 0, length);
        return;
    }
    if (length > 0)
        memcpy(value, reader->bytes + reader->offset, length);
    reader->offset += length;
}

static inline uint32_t lh_get_u32(lh_byte_reader *reader) {
    uint32_t value;
    lh_get_bytes(reader, &value, sizeof(value));
    return value;
}

static inline uint64_t lh_get_u64(lh_byte_reader *reader) {
    uint64_t value;
    lh_get_bytes(reader, &value, sizeof(value));
    return value;
}

static inline float lh_get_f32(lh_byte_reader *reader) {
    float value;
    lh_get_bytes(reader, &value, sizeof(value));
    return value;
}

static inline size_t lh_bytes_left(const lh_byte_reader *reader) {
    return reader->failed ? 0 : reader->length - reader->offset;
}
