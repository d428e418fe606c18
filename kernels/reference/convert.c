/* IEEE binary16 <-> binary32. */
#include "kernels/reference/reference.h"

#include <string.h>

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float lh_reference_widen_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu,
             mantissa = half & 0x3ffu;
    if (exponent == 0) /* zero, subnormal: a multiple of 2^-24 */
        return float_of_bits(bits_of_float((float)mantissa * 0x1p-24f) | sign);
    if (exponent == 0x1f) /* infinity, NaN */
        return float_of_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0));
    return float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t lh_reference_round_f16(float value) {
    uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) /* NaN */
        half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    /* 65520: halfway to the next power of two, which is infinity */
    else if (magnitude >= 0x477ff000u)
        half = 0x7c00u;
    else if (magnitude < 0x38800000u) /* below 2^-14: adding 0.5 rounds to multiples of 2^-24 */
        half = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
    else
        half = ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - ((127u - 15u) << 10);
    return (uint16_t)(bits >> 16 & 0x8000u) | (uint16_t)half;
}

void lh_reference_f32_from_f16(float *y, const uint16_t *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)x + i * sizeof half, sizeof half);
        float value = lh_reference_widen_f16(half);
        memcpy((char *)y + i * sizeof value, &value, sizeof value);
    }
}

void lh_reference_f16_from_f32(uint16_t *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)x + i * sizeof value, sizeof value);
        uint16_t half = lh_reference_round_f16(value);
        memcpy((char *)y + i * sizeof half, &half, sizeof half);
    }
}
