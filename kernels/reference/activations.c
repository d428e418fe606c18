/* Activations: packed as a product takes them, with the sum of squares that the deferred norm
 * needs. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

lh_activation_kind lh_activation_kind_for(lh_dtype dtype, lh_activation_kind quantized) {
    return lh_quant_form_for(dtype).low_bits > 0 ? quantized : LH_ACTIVATION_F32;
}

bool lh_activation_kind_parse(const char *name, lh_activation_kind *quantized) {
    bool is_q16 = strcmp(name, "q16") == 0;
    if (!is_q16 && strcmp(name, "q8") != 0)
        return false;
    *quantized = is_q16 ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8;
    return true;
}

size_t lh_activations_bytes(lh_activation_kind kind, uint32_t rows, uint32_t width) {
    bool floats = kind == LH_ACTIVATION_F32;
    size_t block = lh_activations_parts(kind) * sizeof(lh_q8_block);
    size_t row = floats ? width * sizeof(float) : width / LH_BLOCK * block, bytes;
    if ((!floats && width % LH_BLOCK != 0) || __builtin_mul_overflow(row, rows, &bytes))
        return 0;
    return bytes;
}

/* The greatest magnitude of a block, by its bits: a NaN is greater than all, so it is not lost. */
static float block_amax(const float v[LH_BLOCK]) {
    uint32_t greatest = 0;
    for (uint32_t k = 0; k < LH_BLOCK; k++) {
        uint32_t bits;
        memcpy(&bits, &v[k], sizeof bits);
        bits &= 0x7fffffffu;
        greatest = bits > greatest ? bits : greatest;
    }
    float amax;
    memcpy(&amax, &greatest, sizeof amax);
    return amax;
}

void lh_reference_quantize(lh_q8_block *block, const float v[LH_BLOCK]) {
    float amax = block_amax(v), inverse = 127.0f / amax;
    bool usable = inverse > 0 && inverse <= FLT_MAX;
    int sums[4] = {0};
    for (uint32_t k = 0; k < LH_BLOCK; k++) {
        int q = usable ? (int)nearbyintf(v[k] * inverse) : 0;
        block->q[k] = (int8_t)q;
        sums[k / (LH_BLOCK / 2) * 2 + k % 4 / 2] += q;
    }
    block->d = amax / 127.0f;
    lh_q8_block_set_sums(block, sums);
}

static void pack_block(const lh_activations *packed, uint32_t row, uint32_t column, const float *x,
                       const float *gain) {
    float v[LH_BLOCK];
    for (uint32_t k = 0; k < LH_BLOCK; k++)
        v[k] = gain ? x[column + k] * gain[column + k] : x[column + k];
    lh_q8_block *block = lh_activations_block(packed, row, column / LH_BLOCK);
    lh_reference_quantize(block, v);
    if (packed->kind != LH_ACTIVATION_Q16)
        return;
    for (uint32_t k = 0; k < LH_BLOCK; k++)
        v[k] = fmaf(-block->d, block->q[k], v[k]);
    lh_reference_quantize(block + 1, v);
}

void lh_reference_pack_activations(const lh_activations *packed, lh_span columns, const float *x,
                                   size_t stride, const float *gain, float *squares) {
    assert(columns.begin % LH_SPAN_COLUMNS == 0 && columns.end <= packed->width);
    assert(columns.end % LH_SPAN_COLUMNS == 0 || columns.end == packed->width);
    for (uint32_t row = 0; row < packed->rows; row++, x += stride) {
        if (packed->kind != LH_ACTIVATION_F32)
            for (uint32_t c = columns.begin; c < columns.end; c += LH_BLOCK)
                pack_block(packed, row, c, x, gain);
        else
            for (uint32_t c = columns.begin; c < columns.end; c++)
                *lh_activations_value(packed, row, c) = gain ? x[c] * gain[c] : x[c];
        if (squares)
            for (uint32_t c = columns.begin; c < columns.end; c++) {
                float *lane = &squares[row * LH_LANES + c % LH_LANES];
                *lane = fmaf(x[c], x[c], *lane);
            }
    }
}

void lh_reference_rms_scale(float *scale, const float *squares, uint32_t rows, uint32_t width,
                            float epsilon) {
    for (uint32_t row = 0; row < rows; row++) {
        float mean = lh_reference_lane_sum(squares + row * LH_LANES) / (float)width;
        scale[row] = 1.0f / sqrtf(mean + epsilon);
    }
}
