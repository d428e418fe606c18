/* After `dequantize_blocks` of gguf's quants.py, one element at a time. */
#include "tests/kernels/support/file_quants.h"

#include "kernels/reference/codebooks.h"

#include <math.h>
#include <stdlib.h>

float file_half(const unsigned char *bytes) {
    int bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return (float)(bits & 0x8000 ? -magnitude : magnitude);
}

/* Element e of 32 in nibbles: the first 16 are the low ones. */
static int nibble(const unsigned char *bytes, unsigned e) {
    return e < 16 ? bytes[e] & 15 : bytes[e - 16] >> 4;
}

static int bit(const unsigned char *bytes, unsigned e) {
    return bytes[e / 8] >> e % 8 & 1;
}

/* IQ4's levels. */
static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

/* Types of 32 elements. */
static file_quant small_block(lh_dtype dtype, const unsigned char *block, unsigned e) {
    static const int doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    file_quant w = {.scale = 1, .minimum = 1, .d = file_half(block)};
    switch (dtype) {
    case LH_DTYPE_Q4_0:
        w.q = nibble(block + 2, e) - 8;
        break;
    case LH_DTYPE_Q5_0:
        w.q = nibble(block + 6, e) + 16 * bit(block + 2, e) - 16;
        break;
    case LH_DTYPE_Q8_0:
        w.q = (signed char)block[2 + e];
        break;
    case LH_DTYPE_MXFP4:
        w.d = ldexpf(1, block[0] - 128);
        w.q = doubled[nibble(block + 1, e)];
        break;
    case LH_DTYPE_IQ4_NL:
        w.q = values[nibble(block + 2, e)];
        break;
    case LH_DTYPE_Q4_1:
    case LH_DTYPE_Q5_1:
        w.has_minimum = 1;
        w.m = file_half(block + 2);
        w.q = dtype == LH_DTYPE_Q4_1 ? nibble(block + 4, e)
                                     : nibble(block + 8, e) + 16 * bit(block + 4, e);
        break;
    default:
        abort();
    }
    return w;
}

/* The 6-bit scale (which = 0) or minimum (1) of part s of 8, as Q4_K and Q5_K pack them. */
static int six_bits(const unsigned char *packed, unsigned s, unsigned which) {
    if (s < 4)
        return packed[4 * which + s] & 63;
    return (packed[4 + s] >> 4 * which & 15) + (packed[4 * which + s - 4] >> 6) * 16;
}

/* Element e of 256 of TQ1_0: 0, 1 or 2. */
static int trit(const unsigned char *block, unsigned e) {
    unsigned byte = e < 160 ? e % 32 : e < 240 ? 32 + e % 16 : 48 + e % 4;
    unsigned digit = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4, power = 1;
    while (digit-- > 0)
        power *= 3;
    return (int)(block[byte] * power % 256 * 3 / 256);
}

/* Of eight signs seven are given; the eighth makes their number even. */
static int sign(unsigned seven, unsigned e) {
    unsigned ones = 0;
    for (unsigned i = 0; i < 7; i++)
        ones += seven >> i & 1;
    return e % 8 < 7 ? (int)(seven >> e % 8 & 1) : (int)(ones & 1);
}

static unsigned two_bytes(const unsigned char *from) {
    return from[0] + 256u * from[1];
}

/* Types with codebooks: element e of 256, in part `part` of 32 and half of 16 `half`. */
static file_quant coded_block(lh_dtype dtype, const unsigned char *block, unsigned e) {
    static const int eighths[4] = {8, 25, 43, 0}, levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    unsigned part = e / 32, half = e / 16, eight = e / 8, code, scale, bits;
    const unsigned char *words;
    file_quant w = {.scale = 1, .minimum = 1, .d = file_half(block)};
    switch (dtype) {
    case LH_DTYPE_IQ3_XXS:
        words = block + 66 + 4 * part;
        bits = two_bytes(words) + 65536u * two_bytes(words + 2);
        w.d *= 0.25f * (float)(2 * (bits >> 28) + 1);
        w.q = levels[lh_codebook_iq3_xxs[block[2 + e / 4]] >> e % 4 * 3 & 7];
        w.q *= sign(bits >> eight % 4 * 7, e) ? -1 : 1;
        break;
    case LH_DTYPE_IQ3_S:
        code = block[2 + e / 4] + 256u * (block[66 + part] >> e % 32 / 4 & 1);
        w.d *= (float)(2 * (block[106 + part / 2] >> part % 2 * 4 & 15) + 1);
        w.q = 2 * (lh_codebook_iq3_s[code] >> e % 4 * 3 & 7) + 1;
        w.q *= block[74 + eight] >> e % 8 & 1 ? -1 : 1;
        break;
    case LH_DTYPE_IQ2_XXS:
        words = block + 6 + 8 * part;
        bits = two_bytes(words) + 65536u * two_bytes(words + 2);
        w.d *= 0.125f * (float)(2 * (bits >> 28) + 1);
        w.q = eighths[lh_codebook_iq2_xxs[block[2 + 8 * part + eight % 4]] >> e % 8 * 2 & 3];
        w.q *= sign(bits >> eight % 4 * 7, e) ? -1 : 1;
        break;
    case LH_DTYPE_IQ2_XS:
        code = two_bytes(block + 2 + 2 * eight);
        w.scale = 2 * (block[66 + part] >> half % 2 * 4 & 15) + 1;
        w.q = eighths[lh_codebook_iq2_xs[code % 512] >> e % 8 * 2 & 3] *
              (sign(code / 512, e) ? -1 : 1);
        w.d *= 0.125f;
        break;
    case LH_DTYPE_IQ2_S:
        code = block[2 + eight] + 256u * (block[66 + part] >> eight % 4 * 2 & 3);
        w.scale = 2 * (block[74 + part] >> half % 2 * 4 & 15) + 1;
        w.q = eighths[lh_codebook_iq2_s[code] >> e % 8 * 2 & 3] *
              (block[34 + eight] >> e % 8 & 1 ? -1 : 1);
        w.d *= 0.125f;
        break;
    case LH_DTYPE_IQ1_S:
        bits = two_bytes(block + 34 + 2 * part);
        code = block[2 + eight] + 256u * (bits >> eight % 4 * 3 & 7);
        w.d *= 0.125f * (float)(2 * (bits >> 12 & 7) + 1);
        w.q = 8 * ((lh_codebook_iq1[code] >> e % 8 * 2 & 3) - 1) + (bits & 0x8000 ? -1 : 1);
        break;
    case LH_DTYPE_IQ1_M:
        bits = block[32 + half] >> eight % 2 * 4 & 15;
        code = block[eight] + 256u * (bits & 7);
        scale = two_bytes(block + 48 + half / 4 * 2) >> half % 4 * 3 & 7;
        w.scale = (int)(2 * scale + 1);
        w.q = 8 * ((lh_codebook_iq1[code] >> e % 8 * 2 & 3) - 1) + (bits & 8 ? -1 : 1);
        w.d =
            0.125f *
            file_half((const unsigned char[]){(unsigned char)(block[49] >> 4 | (block[51] & 240)),
                                              (unsigned char)(block[53] >> 4 | (block[55] & 240))});
        break;
    default:
        abort();
    }
    return w;
}

/* Types of 256 elements. */
static file_quant large_block(lh_dtype dtype, const unsigned char *block, unsigned e) {
    unsigned part = e / 32, half = e / 16, k = e % 32;
    file_quant w = {.scale = 1, .minimum = 1};
    switch (dtype) {
    case LH_DTYPE_Q2_K:
        w.has_minimum = 1;
        w.d = file_half(block + 80);
        w.m = -file_half(block + 82);
        w.scale = block[half] & 15;
        w.minimum = block[half] >> 4;
        w.q = block[16 + e / 128 * 32 + k] >> part % 4 * 2 & 3;
        break;
    case LH_DTYPE_Q3_K:
        w.d = file_half(block + 108);
        w.scale = (block[96 + half % 8] >> half / 8 * 4 & 15) +
                  (block[104 + half % 4] >> half / 4 * 2 & 3) * 16 - 32;
        w.q = (block[32 + e / 128 * 32 + k] >> part % 4 * 2 & 3) - (block[k] >> part & 1 ? 0 : 4);
        break;
    case LH_DTYPE_Q4_K:
    case LH_DTYPE_Q5_K:
        w.has_minimum = 1;
        w.d = file_half(block) * (float)six_bits(block + 4, part, 0);
        w.m = -(file_half(block + 2) * (float)six_bits(block + 4, part, 1));
        w.q = block[(dtype == LH_DTYPE_Q4_K ? 16 : 48) + e / 64 * 32 + k] >> part % 2 * 4 & 15;
        if (dtype == LH_DTYPE_Q5_K)
            w.q += 16 * (block[16 + k] >> part & 1);
        break;
    case LH_DTYPE_Q6_K:
        w.d = file_half(block + 208);
        w.scale = (signed char)block[192 + half];
        w.q = (block[e / 128 * 64 + e % 64] >> e % 128 / 64 * 4 & 15) +
              16 * (block[128 + e / 128 * 32 + k] >> part % 4 * 2 & 3) - 32;
        break;
    case LH_DTYPE_IQ4_XS:
        w.d = file_half(block) * (float)((block[4 + part / 2] >> part % 2 * 4 & 15) +
                                         ((block[2 + part / 4] >> part % 4 * 2 & 3) * 16) - 32);
        w.q = values[nibble(block + 8 + part * 16, k)];
        break;
    case LH_DTYPE_TQ1_0:
        w.d = file_half(block + 52);
        w.q = trit(block, e) - 1;
        break;
    case LH_DTYPE_TQ2_0:
        w.d = file_half(block + 64);
        w.q = (block[e / 128 * 32 + k] >> part % 4 * 2 & 3) - 1;
        break;
    default:
        return coded_block(dtype, block, e);
    }
    return w;
}

file_quant file_quant_at(lh_dtype dtype, const unsigned char *row, unsigned k) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
    const unsigned char *block = row + (size_t)(k / info->block_elements) * info->block_bytes;
    return info->block_elements == 32 ? small_block(dtype, block, k % 32)
                                      : large_block(dtype, block, k % 256);
}
