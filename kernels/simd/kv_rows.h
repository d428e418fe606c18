/* Rows of the KV pages on 16 lanes, in the numbers of each type; an f32x16.h and the reference are
 * included before this file. kernels/reference/kv_pages.c says in scalars what is done; floats are
 * stored there for all sets. */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/activations.h"
#include "kernels/simd/convert.h"

#include <string.h>

#define CACHE_LINE_BYTES 64u
/* Numbers of a row that are rounded at once. */
#define NUMBERS_AT_ONCE (BLOCKS_AT_ONCE * LH_BLOCK)

LANES_INLINE uint32_t blocks_of(uint32_t dim) {
    return (dim + LH_BLOCK - 1) / LH_BLOCK;
}

/* ---- Reading ---- */

/* Number d of 16 keys of `dim` numbers, as lh_kv_keys. */
LANES_INLINE f32x16 load_keys(const lh_kv_type type, const uint8_t *keys, uint32_t dim,
                              uint32_t d) {
    const uint8_t *line = keys + (size_t)d * LH_LANES * lh_kv_number_bytes(type);
    if (type == LH_KV_F32)
        return lanes_load((const float *)(const void *)line);
    if (type == LH_KV_F16)
        return lanes_widen_f16(line);
    const float *scales = (const float *)(const void *)(keys + (size_t)dim * LH_LANES);
    return lanes_mul(lanes_widen_int8((const int8_t *)line),
                     lanes_load(scales + d / LH_BLOCK * LH_LANES));
}

/* Numbers d .. d + 15 of a value, or the first `part` of them (0: all): memory beyond is not
 * touched. d is a multiple of 16. */
LANES_INLINE f32x16 load_values(const lh_kv_type type, const uint8_t *value, const float *scales,
                                uint32_t d, uint32_t part) {
    const uint8_t *numbers = value + (size_t)d * lh_kv_number_bytes(type);
    _Alignas(16) uint8_t rest[16 * sizeof(uint16_t)] = {0};
    if (type == LH_KV_F32) {
        const float *floats = (const float *)(const void *)numbers;
        return part != 0 ? lanes_load_part(floats, part) : lanes_load(floats);
    }
    if (part != 0)
        numbers = memcpy(rest, numbers, part * lh_kv_number_bytes(type));
    if (type == LH_KV_F16)
        return lanes_widen_f16(numbers);
    return lanes_mul(lanes_widen_int8((const int8_t *)numbers), lanes_set(scales[d / LH_BLOCK]));
}

/* ---- Storing ---- */

/* The next numbers of a row, rounded. */
typedef struct rounded_numbers {
    uint16_t halves[NUMBERS_AT_ONCE];
    lh_q8_block blocks[BLOCKS_AT_ONCE];
} rounded_numbers;

static void round_numbers(lh_kv_type type, rounded_numbers *rounded, const float *x,
                          uint32_t count) {
    if (type == LH_KV_F16) {
        kernel_f16_from_f32(rounded->halves, x, count);
        return;
    }
    const uint32_t whole = count / LH_BLOCK * LH_BLOCK;
    pack_quantized_row(rounded->blocks, 1, (lh_span){0, whole}, x, NULL, NULL);
    if (whole < count) {
        float rest[LH_BLOCK] = {0};
        memcpy(rest, x + whole, (count - whole) * sizeof *rest);
        pack_quantized_row(rounded->blocks + whole / LH_BLOCK, 1, (lh_span){0, LH_BLOCK}, rest,
                           NULL, NULL);
    }
}

/* Number i of the row goes to place i * step behind `row`, the scale of block b to scales[b *
 * step]; type F16 or Q8. */
static void store_row(lh_kv_type type, uint8_t *row, float *scales, size_t step, const float *x,
                      uint32_t dim) {
    rounded_numbers rounded;
    for (uint32_t done = 0, count; done < dim; done += count, x += count) {
        count = dim - done < NUMBERS_AT_ONCE ? dim - done : NUMBERS_AT_ONCE;
        round_numbers(type, &rounded, x, count);
        for (uint32_t i = 0; i < count && type == LH_KV_F16; i++)
            ((uint16_t *)(void *)row)[(done + i) * step] = rounded.halves[i];
        for (uint32_t i = 0; i < count && type == LH_KV_Q8; i++) {
            const lh_q8_block *block = &rounded.blocks[i / LH_BLOCK];
            ((int8_t *)row)[(done + i) * step] = block->q[i % LH_BLOCK];
            scales[(done + i) / LH_BLOCK * step] = block->d;
        }
    }
}

static void kernel_kv_store(const lh_kv_view *view, uint32_t first, uint32_t rows,
                            const float *keys, size_t key_stride, const float *values,
                            size_t value_stride) {
    const lh_kv_shape *shape = &view->shape;
    if (shape->type == LH_KV_F32) {
        lh_reference_kv_store(view, first, rows, keys, key_stride, values, value_stride);
        return;
    }
    for (uint32_t row = 0; row < rows; row++, keys += key_stride, values += value_stride)
        for (uint32_t head = 0; head < shape->kv_heads; head++) {
            uint32_t position = first + row, lane = position % LH_LANES;
            uint8_t *lines = lh_kv_keys(view, head, position);
            store_row(shape->type, lines + lane * lh_kv_number_bytes(shape->type),
                      lh_kv_key_scales(view, lines) + lane, LH_LANES,
                      keys + (size_t)head * shape->key_dim, shape->key_dim);
            store_row(shape->type, lh_kv_value(view, head, position),
                      lh_kv_value_scales(view, head, position), 1,
                      values + (size_t)head * shape->value_dim, shape->value_dim);
        }
}
