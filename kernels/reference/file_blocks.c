/* Taking GGML's blocks apart (ggml-common.h, `block_q4_0` and on, draws them). Four quants at a
 * time: a word holds those of a group in its bytes, and shifts and masks move them together. */
#include "kernels/reference/file_blocks.h"

#include "kernels/reference/codebooks.h"

#include <string.h>

#define NIBBLES 0x0f0f0f0fu
#define PAIRS   0x03030303u
#define BITS    0x01010101u

static uint32_t word_at(const uint8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static void read_scales(lh_file_block *block, const uint8_t *from, uint32_t count) {
    memcpy(block->scales, from, count * sizeof *block->scales);
}

/* 16 bytes, inputs 0 .. 15 in the low nibbles and the others in the high ones. */
static void read_nibbles(lh_file_block *block, const uint8_t *from) {
    for (uint32_t g = 0; g < 4; g++) {
        uint32_t word = word_at(from + 4 * g);
        block->groups[g] = word & NIBBLES;
        block->groups[g + 4] = word >> 4 & NIBBLES;
    }
}

/* One word, input k in its bit k, which is the quant's fifth. */
static void add_bit_field(lh_file_block *block, const uint8_t *from) {
    uint32_t field = word_at(from);
    for (uint32_t g = 0; g < 8; g++) /* the product puts bit j of a nibble at bit 8j */
        block->groups[g] |= ((field >> 4 * g & 15) * 0x00204081u & BITS) << 4;
}

/* 32 bytes, input k in byte k, bits from `shift` on; they become bits from `to` on. */
static void add_plane(lh_file_block *block, const uint8_t *from, uint32_t shift, uint32_t mask,
                      uint32_t to) {
    for (uint32_t g = 0; g < 8; g++)
        block->groups[g] |= (word_at(from + 4 * g) >> shift & mask) << to;
}

/* The 6-bit scale and minimum of block i of 8. */
static void read_scale_and_minimum(lh_file_block *block, const uint8_t *packed, uint32_t i) {
    if (i < 4) {
        block->subscales[0] = packed[i] & 63;
        block->subscales[1] = packed[i + 4] & 63;
    } else {
        block->subscales[0] = (uint8_t)((packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4);
        block->subscales[1] = (uint8_t)(packed[i + 4] >> 4 | (packed[i] >> 6) << 4);
    }
}

/* Blocks of 256, of which `i` of 8 is wanted. */

static void read_q2_k(lh_file_block *block, const uint8_t *from, uint32_t i) {
    memcpy(block->subscales, from + 2 * i, 2);
    add_plane(block, from + 16 + i / 4 * 32, i % 4 * 2, PAIRS, 0);
    read_scales(block, from + 80, 2);
}

static void read_q3_k(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *scales = from + 96;
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t s = 2 * i + half; /* of 16 */
        int low = scales[s % 8] >> (s / 8 * 4) & 15, high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
        block->subscales[half] = (uint8_t)(int8_t)((low | high << 4) - 32);
    }
    add_plane(block, from + 32 + i / 4 * 32, i % 4 * 2, PAIRS, 0);
    add_plane(block, from, i, BITS, 2);
    read_scales(block, from + 108, 1);
}

static void read_q4_k(lh_file_block *block, const uint8_t *from, uint32_t i) {
    read_scales(block, from, 2);
    read_scale_and_minimum(block, from + 4, i);
    add_plane(block, from + 16 + i / 2 * 32, i % 2 * 4, NIBBLES, 0);
}

static void read_q5_k(lh_file_block *block, const uint8_t *from, uint32_t i) {
    read_scales(block, from, 2);
    read_scale_and_minimum(block, from + 4, i);
    add_plane(block, from + 48 + i / 2 * 32, i % 2 * 4, NIBBLES, 0);
    add_plane(block, from + 16, i, BITS, 4);
}

static void read_q6_k(lh_file_block *block, const uint8_t *from, uint32_t i) {
    add_plane(block, from + i / 4 * 64 + i % 2 * 32, i % 4 / 2 * 4, NIBBLES, 0);
    add_plane(block, from + 128 + i / 4 * 32, i % 4 * 2, PAIRS, 4);
    memcpy(block->subscales, from + 192 + 2 * i, 2);
    read_scales(block, from + 208, 1);
}

static void read_iq4_xs(lh_file_block *block, const uint8_t *from, uint32_t i) {
    uint32_t low = from[4 + i / 2] >> i % 2 * 4 & 15, high = from[2 + i / 4] >> i % 4 * 2 & 3;
    read_scales(block, from, 1);
    block->subscales[0] = (uint8_t)(int8_t)((int)(low | high << 4) - 32);
    read_nibbles(block, from + 8 + 16 * i);
}

static uint32_t half_at(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8;
}

/* Four elements from 4 * `group` on: the magnitudes of `bits` each in `code`, above them the bits
 * `signs`. */
static void put_group(lh_file_block *block, uint32_t group, uint32_t code, uint32_t bits,
                      uint32_t signs) {
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t magnitude = code >> bits * j & ((1u << bits) - 1);
        block->groups[group] |= (magnitude | (signs >> j & 1) << bits) << 8 * j;
    }
}

/* Eight elements, from 8 * `number` on, of one code of 2 bits each. */
static void put_pairs(lh_file_block *block, uint32_t number, uint32_t code, uint32_t signs) {
    put_group(block, 2 * number, code, 2, signs);
    put_group(block, 2 * number + 1, code >> 8, 2, signs >> 4);
}

/* Seven signs, and an eighth that makes the number of ones even. */
static uint32_t with_parity(uint32_t signs) {
    signs &= 127;
    return signs | (uint32_t)__builtin_parity(signs) << 7;
}

/* Twice a scale, plus 1. */
static uint8_t odd_scale(uint32_t scale) {
    return (uint8_t)(2 * scale + 1);
}

static void read_iq3_xxs(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 2 + 8 * i;
    uint32_t signs_and_scale = word_at(from + 66 + 4 * i);
    for (uint32_t g = 0; g < 8; g++)
        put_group(block, g, lh_codebook_iq3_xxs[codes[g]], 3,
                  with_parity(signs_and_scale >> g / 2 * 7) >> g % 2 * 4);
    block->subscales[0] = odd_scale(signs_and_scale >> 28);
    read_scales(block, from, 1);
}

static void read_iq3_s(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 2 + 8 * i, *signs = from + 74 + 4 * i;
    uint32_t high = from[66 + i];
    for (uint32_t g = 0; g < 8; g++)
        put_group(block, g, lh_codebook_iq3_s[codes[g] | (high >> g & 1) << 8], 3,
                  (uint32_t)signs[g / 2] >> g % 2 * 4);
    block->subscales[0] = odd_scale(from[106 + i / 2] >> i % 2 * 4 & 15);
    read_scales(block, from, 1);
}

static void read_iq2_xxs(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 2 + 8 * i;
    uint32_t signs_and_scale = word_at(codes + 4);
    for (uint32_t n = 0; n < 4; n++)
        put_pairs(block, n, lh_codebook_iq2_xxs[codes[n]], with_parity(signs_and_scale >> 7 * n));
    block->subscales[0] = odd_scale(signs_and_scale >> 28);
    read_scales(block, from, 1);
}

static void read_odd_half_scales(lh_file_block *block, uint8_t scales) {
    block->subscales[0] = odd_scale(scales & 15);
    block->subscales[1] = odd_scale(scales >> 4);
}

static void read_iq2_xs(lh_file_block *block, const uint8_t *from, uint32_t i) {
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t both = half_at(from + 2 + 8 * i + 2 * n);
        put_pairs(block, n, lh_codebook_iq2_xs[both & 511], with_parity(both >> 9));
    }
    read_odd_half_scales(block, from[66 + i]);
    read_scales(block, from, 1);
}

static void read_iq2_s(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 2 + 4 * i, *signs = from + 34 + 4 * i;
    uint32_t high = from[66 + i];
    for (uint32_t n = 0; n < 4; n++)
        put_pairs(block, n, lh_codebook_iq2_s[codes[n] | (high >> 2 * n & 3) << 8], signs[n]);
    read_odd_half_scales(block, from[74 + i]);
    read_scales(block, from, 1);
}

static void read_iq1_s(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 2 + 4 * i;
    uint32_t high = half_at(from + 34 + 2 * i), is_less = high >> 15 ? 255 : 0;
    for (uint32_t n = 0; n < 4; n++)
        put_pairs(block, n, lh_codebook_iq1[codes[n] | (high >> 3 * n & 7) << 8], is_less);
    block->subscales[0] = odd_scale(high >> 12 & 7);
    read_scales(block, from, 1);
}

/* A quarter of d is in the highest bits of each of four groups of scales. */
static void read_iq1_m(lh_file_block *block, const uint8_t *from, uint32_t i) {
    const uint8_t *codes = from + 4 * i, *scales = from + 48;
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t high = (uint32_t)from[32 + 2 * i + n / 2] >> n % 2 * 4;
        put_pairs(block, n, lh_codebook_iq1[codes[n] | (high & 7) << 8], high & 8 ? 255 : 0);
    }
    for (uint32_t half = 0; half < 2; half++)
        block->subscales[half] =
            odd_scale(half_at(scales + i / 2 * 2) >> (i % 2 * 2 + half) * 3 & 7);
    for (uint32_t n = 0; n < 4; n++)
        block->scales[0] |= (uint16_t)(half_at(scales + 2 * n) >> 12 << 4 * n);
}

static void read_tq2_0(lh_file_block *block, const uint8_t *from, uint32_t i) {
    add_plane(block, from + i / 4 * 32, i % 4 * 2, PAIRS, 0);
    read_scales(block, from + 64, 1);
}

/* Digit `n` of five in base 3, the first one the most significant of a fraction of 256. */
static uint32_t ternary_digit(uint8_t byte, uint32_t n) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * powers[n]) * 3u >> 8;
}

/* 32 bytes have inputs 0 .. 159, their first digits those of 0 .. 31; 16 bytes have 160 .. 239; the
 * first four digits of 4 bytes 240 .. 255. */
static void read_tq1_0(lh_file_block *block, const uint8_t *from, uint32_t i) {
    static const struct {
        uint32_t begin, bytes;
    } parts[] = {{0, 32}, {160, 16}, {240, 4}};
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t input = 32 * i + k, part = input < 160 ? 0 : input < 240 ? 1 : 2;
        uint32_t within = input - parts[part].begin;
        const uint8_t *bytes = from + parts[part].begin / 5;
        uint32_t digit =
            ternary_digit(bytes[within % parts[part].bytes], within / parts[part].bytes);
        block->groups[k / 4] |= digit << k % 4 * 8;
    }
    read_scales(block, from + 52, 1);
}

void lh_file_block_read(lh_file_block *block, lh_dtype dtype, const uint8_t *from, uint32_t i) {
    *block = (lh_file_block){0};
    switch (dtype) {
    case LH_DTYPE_Q4_0:
    case LH_DTYPE_IQ4_NL:
        read_scales(block, from, 1);
        read_nibbles(block, from + 2);
        break;
    case LH_DTYPE_MXFP4:
        block->subscales[0] = from[0];
        read_nibbles(block, from + 1);
        break;
    case LH_DTYPE_Q4_1:
        read_scales(block, from, 2);
        read_nibbles(block, from + 4);
        break;
    case LH_DTYPE_Q5_0:
        read_scales(block, from, 1);
        read_nibbles(block, from + 6);
        add_bit_field(block, from + 2);
        break;
    case LH_DTYPE_Q5_1:
        read_scales(block, from, 2);
        read_nibbles(block, from + 8);
        add_bit_field(block, from + 4);
        break;
    case LH_DTYPE_Q8_0:
        read_scales(block, from, 1);
        memcpy(block->groups, from + 2, 32);
        break;
    case LH_DTYPE_Q2_K:
        read_q2_k(block, from, i);
        break;
    case LH_DTYPE_Q3_K:
        read_q3_k(block, from, i);
        break;
    case LH_DTYPE_Q4_K:
        read_q4_k(block, from, i);
        break;
    case LH_DTYPE_Q5_K:
        read_q5_k(block, from, i);
        break;
    case LH_DTYPE_Q6_K:
        read_q6_k(block, from, i);
        break;
    case LH_DTYPE_IQ4_XS:
        read_iq4_xs(block, from, i);
        break;
    case LH_DTYPE_IQ3_XXS:
        read_iq3_xxs(block, from, i);
        break;
    case LH_DTYPE_IQ3_S:
        read_iq3_s(block, from, i);
        break;
    case LH_DTYPE_IQ2_XXS:
        read_iq2_xxs(block, from, i);
        break;
    case LH_DTYPE_IQ2_XS:
        read_iq2_xs(block, from, i);
        break;
    case LH_DTYPE_IQ2_S:
        read_iq2_s(block, from, i);
        break;
    case LH_DTYPE_IQ1_S:
        read_iq1_s(block, from, i);
        break;
    case LH_DTYPE_IQ1_M:
        read_iq1_m(block, from, i);
        break;
    case LH_DTYPE_TQ1_0:
        read_tq1_0(block, from, i);
        break;
    case LH_DTYPE_TQ2_0:
        read_tq2_0(block, from, i);
        break;
    case LH_DTYPE_F32:
    case LH_DTYPE_F16:
    case LH_DTYPE_BF16:
        break; /* no blocks */
    }
}
