/* Packing of activations on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/activations.c says in scalars what is done. */
#pragma once

#include "kernels/lanes/functions.h"
#include "kernels/layout.h"

#include <assert.h>
#include <float.h>

LANES_INLINE void quantize_block(lh_q8_block *block, f32x16 a, f32x16 b) {
    float amax = lanes_greatest_magnitude(a, b), inverse = 127.0f / amax;
    bool usable = inverse > 0 && inverse <= FLT_MAX;
    f32x16 factor = lanes_set(usable ? inverse : 0);
    if (!usable) /* 0 times infinity is no zero */
        a = b = lanes_set(0);
    block->d = amax / 127.0f;
    lanes_round_to_int8(block->q, lanes_mul(a, factor), lanes_mul(b, factor));
    lanes_pair_sums(block->pairs, block->bias, block->q, -32, -128);
    block->sum = (float)(block->bias[2] / -128);
}

/* What a block leaves of v[16], of which it has q. */
LANES_INLINE f32x16 rest_of(f32x16 v, float d, const int8_t *q) {
    return lanes_fma(lanes_set(-d), lanes_widen_int8(q), v);
}

static void pack_quantized_row(lh_q8_block *block, uint32_t parts, lh_span columns, const float *x,
                               const float *gain) {
    for (uint32_t c = columns.begin; c < columns.end; c += LH_BLOCK, block += parts) {
        f32x16 a = lanes_load(x + c), b = lanes_load(x + c + 16);
        if (gain != NULL) {
            a = lanes_mul(a, lanes_load(gain + c));
            b = lanes_mul(b, lanes_load(gain + c + 16));
        }
        quantize_block(block, a, b);
        if (parts == 2)
            quantize_block(block + 1, rest_of(a, block->d, block->q), rest_of(b, block->d, block->q + 16));
    }
}

/* Column c of the row goes to values[c]. */
static void pack_float_row(float *values, lh_span columns, const float *x, const float *gain) {
    for (uint32_t c = columns.begin; c < columns.end; c += 16) {
        uint32_t count = columns.end - c < 16 ? columns.end - c : 16;
        f32x16 v = lanes_load_part(x + c, count);
        if (gain != NULL)
            v = lanes_mul(v, lanes_load_part(gain + c, count));
        lanes_store_part(values + c, v, count);
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

void LANES_FUNCTION(pack_activations)(const lh_activations *packed, lh_span columns, const float *x,
                                      size_t stride, const float *gain, float *squares) {
    assert(columns.begin % LH_SPAN_COLUMNS == 0 && columns.end <= packed->width);
    assert(columns.end % LH_SPAN_COLUMNS == 0 || columns.end == packed->width);
    for (uint32_t row = 0; row < packed->rows; row++, x += stride) {
        if (packed->kind != LH_ACTIVATION_F32)
            pack_quantized_row(lh_activations_block(packed, row, columns.begin / LH_BLOCK),
                               lh_activations_parts(packed->kind), columns, x, gain);
        else
            pack_float_row(lh_activations_value(packed, row, 0), columns, x, gain);
        if (squares != NULL)
            add_squares(squares + (size_t)row * LH_LANES, columns, x);
    }
}
