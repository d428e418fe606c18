/* Blocks of quantized weights as GGML's files have them. */
#pragma once

#include "common/base/dtype.h"

#include <stdint.h>

/* 32 consecutive weights of a row, taken apart. */
typedef struct lh_file_block {
    /* byte j of word g: the quant of input 4g + j, low and high bits together, unsigned (Q8_0: its
     * int8) */
    uint32_t groups[8];
    uint8_t subscales[2]; /* K types, IQ4_XS and MXFP4: see kernels/layout.h */
    uint16_t scales[2];   /* binary16 d, and m or dmin: of the whole block of the type */
} lh_file_block;

/* Block `i` of 32 of the type's block that begins at `from` (any alignment); a quantized type. */
void lh_file_block_read(lh_file_block *block, lh_dtype dtype, const uint8_t *from, uint32_t i);
