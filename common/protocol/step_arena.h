/* Memory handed out piece by piece from one block that is large enough for all of them. Private to
 * common/protocol. Thread: one at a time. */
#pragma once

#include "common/base/little_endian.h"

#include <assert.h>

typedef struct lh_step_arena {
    uint8_t *bytes;
    size_t capacity, used;
} lh_step_arena;

/* 8-byte aligned, as the block is. */
static inline void *lh_step_arena_take(lh_step_arena *memory, size_t bytes) {
    void *piece = memory->bytes + memory->used;
    memory->used += (bytes + 7u) & ~(size_t)7u;
    assert(memory->used <= memory->capacity);
    return piece;
}

/* A list of the payload whose elements are as large in memory as on the wire. */
static inline void *lh_step_arena_copy(lh_step_arena *memory, lh_byte_reader *reader,
                                       size_t bytes) {
    void *piece = lh_step_arena_take(memory, bytes);
    lh_get_bytes(reader, piece, bytes);
    return piece;
}
