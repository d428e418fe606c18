#include "tests/support/quant_block.h"

#include <string.h>

quant_scales quant_block_scales(lh_dtype dtype) {
    switch (dtype) {
    case LH_DTYPE_Q4_1:
    case LH_DTYPE_Q5_1:
    case LH_DTYPE_Q4_K:
    case LH_DTYPE_Q5_K:
        return (quant_scales){0, 2};
    case LH_DTYPE_Q2_K:
        return (quant_scales){80, 2};
    case LH_DTYPE_Q3_K:
        return (quant_scales){108, 1};
    case LH_DTYPE_Q6_K:
        return (quant_scales){208, 1};
    case LH_DTYPE_TQ1_0:
        return (quant_scales){52, 1};
    case LH_DTYPE_TQ2_0:
        return (quant_scales){64, 1};
    case LH_DTYPE_MXFP4:
    case LH_DTYPE_IQ1_M:
        return (quant_scales){0, 0};
    default:
        return (quant_scales){0, 1};
    }
}

void quant_block_set_scale(lh_dtype dtype, uint8_t *block, uint16_t scale) {
    quant_scales scales = quant_block_scales(dtype);
    for (uint32_t i = 0; i < scales.count; i++)
        memcpy(block + scales.begin + 2 * i, &scale, sizeof scale);
    /* Its exponent is biased by 127. */
    if (dtype == LH_DTYPE_MXFP4)
        block[0] = (uint8_t)(120 + block[0] % 4);
    /* Four bits of it are in each of the last four pairs of bytes. */
    for (uint32_t i = 0; i < 4 && dtype == LH_DTYPE_IQ1_M; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (scale >> 4 * i & 15) << 4);
}
