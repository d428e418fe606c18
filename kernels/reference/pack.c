/* Weights: from GGML's rows to tiles of 16 outputs (drawn in kernels/layout.h), and one row back. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t lh_matrix_bytes(lh_dtype dtype, uint32_t outputs, uint32_t inputs) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
    if (info == NULL || inputs % info->block_elements != 0)
        return 0;
    size_t tiles = ((size_t)outputs + LH_LANES - 1) / LH_LANES, bytes;
    if (__builtin_mul_overflow(tiles, lh_tile_layout_for(dtype, inputs).tile_bytes, &bytes))
        return 0;
    return bytes;
}

/* One row of a quantized type into lane `lane` of its tile. A block in GGML is d, (m,) and the quants. */
static void pack_quantized_lane(uint8_t *tile, const lh_tile_layout *layout, const uint8_t *row,
                                uint32_t blocks, uint32_t lane) {
    uint32_t quants = layout->quant_bytes / LH_LANES, scales = layout->scale_bytes / LH_LANES;
    for (uint32_t b = 0; b < blocks; b++, row += scales + quants) {
        uint8_t *to = tile + (size_t)b * layout->quant_bytes + 4 * lane;
        for (uint32_t i = 0; i < quants; i += 4)
            memcpy(to + (size_t)i * LH_LANES, row + scales + i, 4);
        to = tile + layout->scales_offset + (size_t)b * layout->scale_bytes + 2 * lane;
        for (uint32_t i = 0; i < scales; i += 2)
            memcpy(to + (size_t)i * LH_LANES, row + i, 2);
    }
}

static void pack_float_lane(uint8_t *tile, const uint8_t *row, uint32_t inputs, uint32_t lane, size_t size) {
    for (uint32_t k = 0; k < inputs; k++)
        memcpy(tile + ((size_t)k * LH_LANES + lane) * size, row + k * size, size);
}

void lh_matrix_pack(const lh_matrix *matrix, const void *source, lh_span rows) {
    assert(rows.begin % LH_LANES == 0 && rows.end <= matrix->outputs);
    assert(rows.end % LH_LANES == 0 || rows.end == matrix->outputs);
    lh_tile_layout layout = lh_tile_layout_for(matrix->dtype, matrix->inputs);
    size_t row_bytes = lh_dtype_bytes(lh_dtype_lookup((uint32_t)matrix->dtype), matrix->inputs);
    for (uint32_t output = rows.begin; output < rows.end; output++) {
        uint8_t *tile = (uint8_t *)matrix->data + output / LH_LANES * layout.tile_bytes;
        uint32_t lane = output % LH_LANES;
        const uint8_t *row = (const uint8_t *)source + output * row_bytes;
        if (lane == 0)
            memset(tile, 0, layout.tile_bytes);
        if (layout.column_bytes > 0)
            pack_float_lane(tile, row, matrix->inputs, lane, layout.column_bytes / LH_LANES);
        else
            pack_quantized_lane(tile, &layout, row, matrix->inputs / LH_BLOCK, lane);
    }
}

static uint16_t half_at(const uint8_t *halves, size_t index) {
    uint16_t half;
    memcpy(&half, halves + 2 * index, sizeof half);
    return half;
}

static float float_at(lh_dtype dtype, const uint8_t *elements, size_t index) {
    uint32_t bits;
    float value;
    if (dtype == LH_DTYPE_F16)
        return lh_reference_widen_f16(half_at(elements, index));
    if (dtype == LH_DTYPE_BF16)
        bits = (uint32_t)half_at(elements, index) << 16;
    else
        memcpy(&bits, elements + 4 * index, sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

void lh_reference_weights(float *weights, const lh_matrix *w, uint32_t output, lh_span inputs) {
    lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    const uint8_t *tile = lh_matrix_tile(w, &layout, output);
    for (uint32_t k = inputs.begin; k < inputs.end; k++)
        weights[k - inputs.begin] = float_at(w->dtype, tile, (size_t)k * LH_LANES + output % LH_LANES);
}

void lh_reference_quants(lh_reference_block *block, const lh_matrix *w, uint32_t output, uint32_t index) {
    lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    const uint8_t *tile = lh_matrix_tile(w, &layout, output);
    const uint8_t *quants = tile + (size_t)index * layout.quant_bytes;
    const uint8_t *scales = tile + layout.scales_offset + (size_t)index * layout.scale_bytes;
    uint32_t lane = output % LH_LANES;
    block->d = lh_reference_widen_f16(half_at(scales, lane));
    block->m = w->dtype == LH_DTYPE_Q4_1 ? lh_reference_widen_f16(half_at(scales, LH_LANES + lane)) : 0;
    for (uint32_t k = 0; k < LH_BLOCK; k++) {
        uint32_t of_group = k % (layout.quant_bytes / LH_LANES);
        uint8_t byte = quants[(of_group / 4 * LH_LANES + lane) * 4 + of_group % 4];
        if (w->dtype == LH_DTYPE_Q8_0)
            block->q[k] = (int8_t)byte;
        else
            block->q[k] = (k < LH_BLOCK / 2 ? byte & 15 : byte >> 4) - (w->dtype == LH_DTYPE_Q4_0 ? 8 : 0);
    }
}

void lh_matrix_row(const lh_matrix *matrix, uint32_t row, float *y) {
    assert(row < matrix->outputs);
    if (lh_activation_kind_for(matrix->dtype) == LH_ACTIVATION_F32) {
        lh_reference_weights(y, matrix, row, (lh_span){0, matrix->inputs});
        return;
    }
    for (uint32_t b = 0; b < matrix->inputs / LH_BLOCK; b++, y += LH_BLOCK) {
        lh_reference_block block;
        lh_reference_quants(&block, matrix, row, b);
        for (uint32_t k = 0; k < LH_BLOCK; k++)
            y[k] = matrix->dtype == LH_DTYPE_Q4_1 ? fmaf(block.d, (float)block.q[k], block.m)
                                                  : block.d * (float)block.q[k];
    }
}
