/* Weights: from GGML's rows to tiles of 16 outputs (drawn in kernels/layout.h), and one
 * row back. */
#include "kernels/layout.h"
#include "kernels/reference/file_blocks.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t lh_matrix_bytes(lh_dtype dtype, uint32_t outputs, uint32_t inputs) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
    if (!info || inputs % info->block_elements != 0)
        return 0;
    size_t tiles = ((size_t)outputs + LH_LANES - 1) / LH_LANES, bytes;
    if (__builtin_mul_overflow(tiles, lh_tile_layout_for(dtype, inputs).tile_bytes, &bytes))
        return 0;
    return bytes;
}

#define NIBBLES 0x0f0f0f0fu
#define PAIRS   0x03030303u
#define BITS    0x01010101u

/* Where word `index` of lane `lane` lies in a part of a block's quants. */
static size_t word_offset(uint32_t index, uint32_t lane) {
    return ((size_t)index * LH_LANES + lane) * sizeof(uint32_t);
}

static void store_word(uint8_t *part, uint32_t index, uint32_t lane, uint32_t word) {
    memcpy(part + word_offset(index, lane), &word, sizeof word);
}

static uint32_t load_word(const uint8_t *part, uint32_t index, uint32_t lane) {
    uint32_t word;
    memcpy(&word, part + word_offset(index, lane), sizeof word);
    return word;
}

/* Bits `from` and the next of all quants, into two planes. */
static void store_pairs(uint8_t *part, uint32_t lane, const uint32_t groups[8], uint32_t from) {
    for (uint32_t plane = 0; plane < 2; plane++) {
        uint32_t word = 0;
        for (uint32_t g = 0; g < 4; g++)
            word |= (groups[4 * plane + g] >> from & PAIRS) << 2 * g;
        store_word(part, plane, lane, word);
    }
}

static void store_bits(uint8_t *part, uint32_t lane, const uint32_t groups[8], uint32_t from) {
    uint32_t word = 0;
    for (uint32_t g = 0; g < 8; g++)
        word |= (groups[g] >> from & BITS) << g;
    store_word(part, 0, lane, word);
}

static void store_quants(uint8_t *quants, uint32_t lane, const lh_quant_form *form,
                         const uint32_t groups[8]) {
    if (form->low_bits == 8)
        for (uint32_t g = 0; g < 8; g++)
            store_word(quants, g, lane, groups[g]);
    else if (form->low_bits == 4)
        for (uint32_t g = 0; g < 4; g++)
            store_word(quants, g, lane, (groups[g] & NIBBLES) | (groups[g + 4] & NIBBLES) << 4);
    else
        store_pairs(quants, lane, groups, 0);
    uint8_t *high = quants + (size_t)LH_BLOCK / 8 * form->low_bits * LH_LANES;
    if (form->high_bits == 2)
        store_pairs(high, lane, groups, form->low_bits);
    else if (form->high_bits == 1)
        store_bits(high, lane, groups, form->low_bits);
}

/* The quants of group g, low and high bits together. */
static uint32_t load_quants(const uint8_t *quants, uint32_t lane, const lh_quant_form *form,
                            uint32_t g) {
    const uint8_t *high = quants + (size_t)LH_BLOCK / 8 * form->low_bits * LH_LANES;
    uint32_t word;
    if (form->low_bits == 8)
        word = load_word(quants, g, lane);
    else if (form->low_bits == 4)
        word = load_word(quants, g % 4, lane) >> g / 4 * 4 & NIBBLES;
    else
        word = load_word(quants, g / 4, lane) >> g % 4 * 2 & PAIRS;
    if (form->high_bits == 2)
        word |= (load_word(high, g / 4, lane) >> g % 4 * 2 & PAIRS) << form->low_bits;
    else if (form->high_bits == 1)
        word |= (load_word(high, 0, lane) >> g & BITS) << form->low_bits;
    return word;
}

/* One row of a quantized type into lane `lane` of its tile. */
static void pack_quantized_lane(uint8_t *tile, const lh_matrix *matrix,
                                const lh_tile_layout *layout, const uint8_t *row, uint32_t lane) {
    const lh_quant_form form = lh_quant_form_for(matrix->dtype);
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)matrix->dtype);
    uint8_t *quants = tile, *subscales = tile + layout->subscales_offset,
            *scales = tile + layout->scales_offset;
    lh_file_block block;
    for (uint32_t input = 0; input < matrix->inputs; input += info->block_elements) {
        for (uint32_t i = 0; i < form.sharing; i++) {
            lh_file_block_read(&block, matrix->dtype, row, i);
            store_quants(quants, lane, &form, block.groups);
            for (uint32_t s = 0; s < form.subscales; s++)
                subscales[s * LH_LANES + lane] = block.subscales[s];
            quants += layout->quant_bytes;
            subscales += layout->subscale_bytes;
        }
        for (uint32_t s = 0; s < form.scales; s++)
            memcpy(scales + 2 * ((size_t)s * LH_LANES + lane), &block.scales[s], 2);
        scales += layout->scale_bytes;
        row += info->block_bytes;
    }
}

static void pack_float_lane(uint8_t *tile, const uint8_t *row, uint32_t inputs, uint32_t lane,
                            size_t size) {
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
        const uint8_t *row = (const uint8_t *)source + (output - rows.begin) * row_bytes;
        if (lane == 0)
            memset(tile, 0, layout.tile_bytes);
        if (layout.column_bytes > 0)
            pack_float_lane(tile, row, matrix->inputs, lane, layout.column_bytes / LH_LANES);
        else
            pack_quantized_lane(tile, matrix, &layout, row, lane);
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
        weights[k - inputs.begin] =
            float_at(w->dtype, tile, (size_t)k * LH_LANES + output % LH_LANES);
}

/* MXFP4's d. */
static float power_of_two(uint8_t e) {
    uint32_t bits = e < 2 ? LH_E8M0_SMALL_BITS << e : (e - 1u) << LH_E8M0_BITS_SHIFT;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* scale[], minimum[] and their parts of d and m, which come as the file has them. */
static void apply_scales(lh_reference_block *block, lh_dtype dtype, const uint8_t bytes[2]) {
    for (uint32_t half = 0; half < 2; half++) {
        block->scale[half] = dtype == LH_DTYPE_Q2_K      ? bytes[half] & 15
                             : lh_has_half_scales(dtype) ? (int8_t)bytes[half]
                                                         : 1;
        block->minimum[half] = dtype == LH_DTYPE_Q2_K ? bytes[half] >> 4 : lh_has_minimum(dtype);
    }
    if (dtype == LH_DTYPE_Q2_K) {
        block->m = -block->m;
    } else if (dtype == LH_DTYPE_Q4_K || dtype == LH_DTYPE_Q5_K) {
        block->d *= (float)bytes[0];
        block->m = -(block->m * (float)bytes[1]);
    } else if (lh_has_block_scale(dtype)) {
        block->d *= lh_scale_unit(dtype) * (float)(int8_t)bytes[0];
    } else if (lh_has_half_scales(dtype)) {
        block->d *= lh_scale_unit(dtype);
    } else if (dtype == LH_DTYPE_MXFP4) {
        block->d = power_of_two(bytes[0]);
    }
}

void lh_reference_quants(lh_reference_block *block, const lh_matrix *w, uint32_t output,
                         uint32_t index) {
    const int8_t *values = lh_quant_values(w->dtype);
    lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    lh_quant_form form = lh_quant_form_for(w->dtype);
    const uint8_t *tile = lh_matrix_tile(w, &layout, output);
    const uint8_t *quants = tile + (size_t)index * layout.quant_bytes;
    const uint8_t *subscales =
        tile + layout.subscales_offset + (size_t)index * layout.subscale_bytes;
    const uint8_t *scales =
        tile + layout.scales_offset + (size_t)(index / form.sharing) * layout.scale_bytes;
    uint32_t lane = output % LH_LANES;
    uint8_t bytes[2] = {0};
    for (uint32_t i = 0; i < form.subscales; i++)
        bytes[i] = subscales[i * LH_LANES + lane];
    block->d = form.scales > 0 ? lh_reference_widen_f16(half_at(scales, lane)) : 0;
    block->m = form.scales == 2 ? lh_reference_widen_f16(half_at(scales, LH_LANES + lane)) : 0;
    apply_scales(block, w->dtype, bytes);
    for (uint32_t k = 0; k < LH_BLOCK; k++) {
        uint8_t byte = (uint8_t)(load_quants(quants, lane, &form, k / 4) >> k % 4 * 8);
        block->q[k] = values                      ? values[byte]
                      : w->dtype == LH_DTYPE_Q8_0 ? (int8_t)byte
                                                  : byte - (int32_t)form.offset;
    }
}

void lh_matrix_row(const lh_matrix *matrix, uint32_t row, float *y) {
    assert(row < matrix->outputs);
    if (lh_quant_form_for(matrix->dtype).low_bits == 0) {
        lh_reference_weights(y, matrix, row, (lh_span){0, matrix->inputs});
        return;
    }
    bool has_minimum = lh_has_minimum(matrix->dtype);
    for (uint32_t b = 0; b < matrix->inputs / LH_BLOCK; b++, y += LH_BLOCK) {
        lh_reference_block block;
        lh_reference_quants(&block, matrix, row, b);
        for (uint32_t k = 0; k < LH_BLOCK; k++) {
            uint32_t half = k / (LH_BLOCK / 2);
            float d = block.d * (float)block.scale[half], q = (float)block.q[k];
            y[k] = has_minimum ? fmaf(d, q, block.m * (float)block.minimum[half]) : d * q;
        }
    }
}
