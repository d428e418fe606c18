/* Blocks of quantized weights, which lie as on the CPU (kernels/layout.h): int8 words of them,
 * their scales, and the term that a block adds to an output.
 *
 * Types that lie alike share a form, so that what differs is data: the levels that indices stand
 * for, and a power of two that d is multiplied by. */
#pragma once

#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/layout.h"
}

/* The columns of the table of layout.h. */
template <lh_dtype FORM> struct lh_form_table;
#define X(type, low, high, above, scale_count, shared_by, subscale_count)                          \
    template <> struct lh_form_table<type> {                                                       \
        static constexpr uint32_t LOW = low, HIGH = high, OFFSET = above, SCALES = scale_count,    \
                                  SHARING = shared_by, SUBSCALES = subscale_count;                 \
    };
LH_QUANT_TABLE(X)
#undef X

template <lh_dtype FORM> struct lh_form : lh_form_table<FORM> {
    using table = lh_form_table<FORM>;
    static constexpr lh_dtype TYPE = FORM;
    /* Quants are indices of levels. */
    static constexpr bool HAS_LEVELS = FORM == LH_DTYPE_IQ4_NL || FORM == LH_DTYPE_MXFP4 ||
                                       FORM == LH_DTYPE_IQ4_XS || FORM == LH_DTYPE_IQ2_XXS ||
                                       FORM == LH_DTYPE_IQ2_XS;
    static constexpr bool HAS_MINIMUM = table::SCALES == 2;
    /* Q4_K, Q5_K: 6-bit scale and minimum of a block; Q2_K: half bytes for those of each half. */
    static constexpr bool HAS_BLOCK_MINIMUM = FORM == LH_DTYPE_Q4_K || FORM == LH_DTYPE_Q5_K;
    static constexpr bool HAS_HALF_BYTES = FORM == LH_DTYPE_Q2_K;
    static constexpr bool HAS_BLOCK_SCALE = table::SUBSCALES == 1 && table::SCALES == 1;
    static constexpr bool HAS_HALF_SCALES =
        table::SUBSCALES == 2 && !HAS_BLOCK_MINIMUM && !HAS_HALF_BYTES;
    /* The halves of a block are multiplied apart. */
    static constexpr bool HAS_HALVES = HAS_HALF_SCALES || HAS_HALF_BYTES;
    static constexpr uint32_t QUANT_BYTES = LH_BLOCK / 8 * (table::LOW + table::HIGH) * LH_LANES,
                              SUBSCALE_BYTES = table::SUBSCALES * LH_LANES,
                              SCALE_BYTES = 2 * table::SCALES * LH_LANES;
};

/* A packed matrix as kernels see it. */
struct lh_weights {
    const uint8_t *data;
    size_t tile_bytes, subscales_offset, scales_offset;
    uint32_t levels[4]; /* 16 int8 */
    float unit;         /* of d */
};

static inline lh_weights lh_weights_of(const lh_matrix *w) {
    const lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    lh_weights weights = {(const uint8_t *)w->data, layout.tile_bytes, layout.subscales_offset,
                          layout.scales_offset,     {0, 0, 0, 0},      lh_scale_unit(w->dtype)};
    const int8_t *levels = lh_quant_values(w->dtype);
    for (uint32_t i = 0; levels && i < 16; i++)
        weights.levels[i / 4] |= (uint32_t)(uint8_t)levels[i] << 8 * (i % 4);
    return weights;
}

/* call(lh_form<...>()) with the form of a quantized type. */
template <typename F> int lh_with_form(lh_dtype dtype, F call) {
    switch (dtype) {
    case LH_DTYPE_Q4_0:
        return call(lh_form<LH_DTYPE_Q4_0>());
    case LH_DTYPE_Q4_1:
        return call(lh_form<LH_DTYPE_Q4_1>());
    case LH_DTYPE_Q5_0:
        return call(lh_form<LH_DTYPE_Q5_0>());
    case LH_DTYPE_Q5_1:
        return call(lh_form<LH_DTYPE_Q5_1>());
    case LH_DTYPE_Q8_0:
        return call(lh_form<LH_DTYPE_Q8_0>());
    case LH_DTYPE_Q2_K:
        return call(lh_form<LH_DTYPE_Q2_K>());
    case LH_DTYPE_Q3_K:
        return call(lh_form<LH_DTYPE_Q3_K>());
    case LH_DTYPE_Q4_K:
        return call(lh_form<LH_DTYPE_Q4_K>());
    case LH_DTYPE_Q5_K:
        return call(lh_form<LH_DTYPE_Q5_K>());
    case LH_DTYPE_Q6_K:
        return call(lh_form<LH_DTYPE_Q6_K>());
    case LH_DTYPE_IQ4_NL:
        return call(lh_form<LH_DTYPE_IQ4_NL>());
    case LH_DTYPE_MXFP4:
        return call(lh_form<LH_DTYPE_MXFP4>());
    case LH_DTYPE_IQ4_XS:
    case LH_DTYPE_IQ3_S:
    case LH_DTYPE_IQ3_XXS:
        return call(lh_form<LH_DTYPE_IQ4_XS>());
    case LH_DTYPE_IQ2_XXS:
    case LH_DTYPE_IQ1_S:
        return call(lh_form<LH_DTYPE_IQ2_XXS>());
    case LH_DTYPE_IQ2_XS:
    case LH_DTYPE_IQ2_S:
    case LH_DTYPE_IQ1_M:
        return call(lh_form<LH_DTYPE_IQ2_XS>());
    case LH_DTYPE_TQ1_0:
    case LH_DTYPE_TQ2_0:
        return call(lh_form<LH_DTYPE_TQ2_0>());
    case LH_DTYPE_F32:
    case LH_DTYPE_F16:
    case LH_DTYPE_BF16:
        break;
    }
    return -1;
}

/* The words of a lane that hold the low and the high bits of group g. */
template <typename F> __device__ constexpr uint32_t lh_low_word(uint32_t g) {
    return F::LOW == 8 ? g : F::LOW == 4 ? g % 4 : g / 4;
}
template <typename F> __device__ constexpr uint32_t lh_high_word(uint32_t g) {
    return F::HIGH == 2 ? g / 4 : 0;
}

/* Levels of four indices, which are bytes below 16, or below 8 where the form has 3 bits. */
template <typename F>
__device__ inline uint32_t lh_look_up(uint32_t indices, const uint32_t levels[4]) {
    const uint32_t places = indices & 0x07070707u;
    const uint32_t selector = __byte_perm(places | places >> 4, 0, 0x4420);
    const uint32_t lower = __byte_perm(levels[0], levels[1], selector);
    if (F::LOW + F::HIGH < 4)
        return lower;
    const uint32_t upper = __byte_perm(levels[2], levels[3], selector);
    const uint32_t is_upper = (indices >> 3 & 0x01010101u) * 0xffu;
    return (upper & is_upper) | (lower & ~is_upper);
}

/* The quants of group g as four int8, from the words that hold their low and high bits. */
template <typename F>
__device__ inline uint32_t lh_quant_word(uint32_t low, uint32_t high, uint32_t g,
                                         const uint32_t levels[4]) {
    uint32_t word = low;
    if (F::LOW == 4)
        word = low >> 4 * (g / 4) & 0x0f0f0f0fu;
    if (F::LOW == 2)
        word = low >> 2 * (g % 4) & 0x03030303u;
    if (F::HIGH == 2)
        word |= (high >> 2 * (g % 4) & 0x03030303u) << F::LOW;
    if (F::HIGH == 1)
        word |= (high >> g & 0x01010101u) << F::LOW;
    if (F::HAS_LEVELS)
        return lh_look_up<F>(word, levels);
    /* byte by byte: the upper bit lends what may be missing */
    if (F::OFFSET > 0)
        return ((word | 0x80808080u) - F::OFFSET * 0x01010101u) ^ 0x80808080u;
    return word;
}

/* What lies in a tile of 16 outputs for block b. */
template <typename F>
__device__ inline const uint8_t *lh_block_quants(const uint8_t *tile, uint32_t b) {
    return tile + (size_t)b * F::QUANT_BYTES;
}
template <typename F>
__device__ inline const uint8_t *lh_block_subscales(const lh_weights &w, const uint8_t *tile,
                                                    uint32_t b) {
    return tile + w.subscales_offset + (size_t)b * F::SUBSCALE_BYTES;
}
template <typename F>
__device__ inline const uint8_t *lh_block_scales(const lh_weights &w, const uint8_t *tile,
                                                 uint32_t b) {
    return tile + w.scales_offset + (size_t)(b / F::SHARING) * F::SCALE_BYTES;
}

/* The scales of a block of one output, with the words of `matmul` in kernels.h. */
struct lh_block_scale {
    float d, m;
    int scale[2], minimum[2];
};

/* From d and m (or dmin) as binary16 and the subscales, as they are stored; those that the form
 * lacks are not looked at. */
template <typename F>
__device__ inline lh_block_scale lh_scale_of(uint16_t d, uint16_t m, uint32_t first,
                                             uint32_t second, float unit) {
    lh_block_scale s = {F::SCALES > 0 ? lh_widen_f16(d) : 0.0f,
                        F::HAS_MINIMUM ? lh_widen_f16(m) : 0.0f,
                        {1, 1},
                        {1, 1}};
    if (F::HAS_HALF_BYTES) {
        s.m = -s.m;
        s.scale[0] = (int)(first & 15);
        s.scale[1] = (int)(second & 15);
        s.minimum[0] = (int)(first >> 4);
        s.minimum[1] = (int)(second >> 4);
    } else if (F::HAS_BLOCK_MINIMUM) {
        s.d *= (float)first;
        s.m = -(s.m * (float)second);
    } else if (F::HAS_BLOCK_SCALE) {
        s.d *= unit * (float)(int8_t)first;
    } else if (F::HAS_HALF_SCALES) {
        s.d *= unit;
        s.scale[0] = (int8_t)first;
        s.scale[1] = (int8_t)second;
    } else if (F::SCALES == 0) {
        s.d = __uint_as_float(first < 2 ? LH_E8M0_SMALL_BITS << first
                                        : (first - 1u) << LH_E8M0_BITS_SHIFT);
    }
    return s;
}

/* What a block adds to an output y, which becomes fma(term.x, term.y, y): from the dot products of
 * the halves, the scale of the activations, and the sums of their halves. */
template <typename F>
__device__ inline float2 lh_block_term(const lh_block_scale &w, int first, int second, float dx,
                                       int first_sum, int second_sum) {
    const int i = F::HAS_HALVES ? w.scale[0] * first + w.scale[1] * second : first + second;
    if (!F::HAS_MINIMUM)
        return make_float2((float)i, w.d * dx);
    const int j = F::HAS_HALF_BYTES ? w.minimum[0] * first_sum + w.minimum[1] * second_sum
                                    : first_sum + second_sum;
    return make_float2(lh_fma((float)i, w.d, (float)j * w.m), dx);
}

/* The sum of a half of a block of activations, which keeps -128 times that. */
__device__ inline int lh_half_sum(const lh_q8_block *x, uint32_t half) {
    return -(x->bias[half] >> 7);
}
