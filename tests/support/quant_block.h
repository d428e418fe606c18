/* Blocks of quantized weights in GGML's layout with any quants and scales that are numbers. */
#pragma once

#include "common/base/dtype.h"

#include <stdint.h>

/* Where the binary16 scales of a block begin, and how many they are: none in MXFP4 and IQ1_M. */
typedef struct quant_scales {
    uint32_t begin, count;
} quant_scales;

quant_scales quant_block_scales(lh_dtype dtype);

/* `block` has random bits; after the call its scales are the binary16 `scale`, but for MXFP4's,
 * which is 2^-7 to 2^-4 by the bits that are there. */
void quant_block_set_scale(lh_dtype dtype, uint8_t *block, uint16_t scale);
