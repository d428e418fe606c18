/* Packing of activations on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/activations.c says in scalars what is done. */
#pragma once

#include "kernels/kernels.h"
#include "kernels/layout.h"

#include <assert.h>
#include <float.h>

/* Blocks of a row that are taken at once, so that none waits for the one before it: first the
 * greatest magnitudes of all, then what they make of the floats. */
#define BLOCKS_AT_ONCE 32u

/* Some blocks of a row on their way. */
typedef struct floats_of_blocks {
    const float *x; /* or `weighed` */
    _Alignas(64) float weighed[BLOCKS_AT_ONCE * LH_BLOCK];
    float amax[BLOCKS_AT_ONCE];
    float inverse[BLOCKS_AT_ONCE]; /* 0: the block becomes zeros, whatever it holds */
} floats_of_blocks;

/* The greatest magnitudes of `count` blocks of x * gain; squares[16] += x^2. gain and squares may
 * be NULL. */
static void measure_blocks(floats_of_blocks *f, const float *x, const float *gain, float *squares,
                           uint32_t count) {
    f32x16 sum = squares ? lanes_load(squares) : lanes_set(0);
    f->x = gain ? f->weighed : x;
    for (uint32_t b = 0, c = 0; b < count; b++, c += LH_BLOCK) {
        f32x16 low = lanes_load(x + c), high = lanes_load(x + c + 16);
        sum = lanes_fma(high, high, lanes_fma(low, low, sum));
        if (gain) {
            low = lanes_mul(low, lanes_load(gain + c));
            high = lanes_mul(high, lanes_load(gain + c + 16));
            lanes_store(f->weighed + c, low);
            lanes_store(f->weighed + c + 16, high);
        }
        f->amax[b] = lanes_greatest_magnitude(low, high);
    }
    if (squares)
        lanes_store(squares, sum);
    for (uint32_t b = 0; b < count; b++) {
        float inverse = 127.0f / f->amax[b];
        f->inverse[b] = inverse > 0 && inverse <= FLT_MAX ? inverse : 0;
    }
}

/* The blocks that were measured; each is `step` after the one before. */
static void quantize_blocks(lh_q8_block *block, uint32_t step, const floats_of_blocks *f,
                            uint32_t count) {
    const float *x = f->x;
    for (uint32_t b = 0; b < count; b++, block += step, x += LH_BLOCK) {
        f32x16 low = lanes_load(x), high = lanes_load(x + 16), factor = lanes_set(f->inverse[b]);
        if (f->inverse[b] == 0) /* 0 times infinity is no zero */
            low = high = factor;
        block->d = f->amax[b] / 127.0f;
        lanes_round_to_int8(block->q, lanes_mul(low, factor), lanes_mul(high, factor));
        lanes_pair_sums(block->pairs, block->bias, block->q, -32, -128);
        block->sum = (float)(block->bias[2] / -128);
    }
}

/* What the blocks leave of the floats, which are these then. */
static void take_rest(floats_of_blocks *f, const lh_q8_block *block, uint32_t step,
                      uint32_t count) {
    for (uint32_t b = 0; b < count; b++, block += step)
        for (uint32_t i = 0; i < LH_BLOCK; i += 16) {
            f32x16 x = lanes_load(f->x + b * LH_BLOCK + i), q = lanes_widen_int8(block->q + i);
            lanes_store(f->weighed + b * LH_BLOCK + i, lanes_fma(lanes_set(-block->d), q, x));
        }
    measure_blocks(f, f->weighed, NULL, NULL, count);
}

static void pack_quantized_row(lh_q8_block *block, uint32_t parts, lh_span columns, const float *x,
                               const float *gain, float *squares) {
    floats_of_blocks f;
    uint32_t count;
    for (uint32_t c = columns.begin; c < columns.end;
         c += count * LH_BLOCK, block += count * parts) {
        count = (columns.end - c) / LH_BLOCK < BLOCKS_AT_ONCE ? (columns.end - c) / LH_BLOCK
                                                              : BLOCKS_AT_ONCE;
        measure_blocks(&f, x + c, gain ? gain + c : NULL, squares, count);
        quantize_blocks(block, parts, &f, count);
        if (parts == 2) {
            take_rest(&f, block, parts, count);
            quantize_blocks(block + 1, parts, &f, count);
        }
    }
}

static void add_squares(float *lanes, lh_span columns, const float *x) {
    f32x16 sum = lanes_load(lanes);
    uint32_t c = columns.begin;
    for (; c + 16 <= columns.end; c += 16) {
        f32x16 v = lanes_load(x + c);
        sum = lanes_fma(v, v, sum);
    }
    f32x16 rest = lanes_load_part(x + c, columns.end - c);
    lanes_store(lanes, lanes_fma(rest, rest, sum));
}

/* Column c of the row goes to values[c]. */
static void pack_float_row(float *values, lh_span columns, const float *x, const float *gain,
                           float *squares) {
    if (squares)
        add_squares(squares, columns, x);
    for (uint32_t c = columns.begin; c < columns.end; c += 16) {
        uint32_t count = columns.end - c < 16 ? columns.end - c : 16;
        f32x16 v = lanes_load_part(x + c, count);
        if (gain)
            v = lanes_mul(v, lanes_load_part(gain + c, count));
        lanes_store_part(values + c, v, count);
    }
}

static void kernel_pack_activations(const lh_activations *packed, lh_span columns, const float *x,
                                    size_t stride, const float *gain, float *squares) {
    assert(columns.begin % LH_SPAN_COLUMNS == 0 && columns.end <= packed->width);
    assert(columns.end % LH_SPAN_COLUMNS == 0 || columns.end == packed->width);
    for (uint32_t row = 0; row < packed->rows; row++, x += stride) {
        if (packed->kind != LH_ACTIVATION_F32)
            pack_quantized_row(lh_activations_block(packed, row, columns.begin / LH_BLOCK),
                               lh_activations_parts(packed->kind), columns, x, gain, squares);
        else
            pack_float_row(lh_activations_value(packed, row, 0), columns, x, gain, squares);
        squares = !squares ? NULL : squares + LH_LANES;
    }
}
