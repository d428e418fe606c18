/* Single weights out of GGML's blocks, element by element from their definition: what packing and
 * products are held to. tests/truth/test_dequantize.py holds this and lh_matrix_row to gguf's own
 * code. */
#pragma once

#include "common/base/dtype.h"

/* One weight is d * scale * q, or with a minimum d * scale * q + m * minimum. */
typedef struct file_quant {
    int q, scale, minimum;
    float d, m;
    int has_minimum;
} file_quant;

/* Element k of the row of blocks that begins at `row`; a quantized type. */
file_quant file_quant_at(lh_dtype dtype, const unsigned char *row, unsigned k);

/* A binary16 by arithmetic on its fields. */
float file_half(const unsigned char *bytes);
