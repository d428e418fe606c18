/* What a product of any kind is given. */
#pragma once

#include "kernels/cuda/quants.cuh"

struct lh_product_arguments {
    float *y;
    size_t y_stride;
    const void *x;
    uint32_t rows, width, parts; /* parts: int8 blocks for each 32 inputs of x; 0: floats */
    lh_weights w;
    lh_span in, out;
    bool continues;
};

/* The int8 blocks of x from block b of row `row` on. */
__device__ inline const lh_q8_block *lh_x_block(const lh_product_arguments &a, uint32_t row,
                                                uint32_t b) {
    return (const lh_q8_block *)a.x + ((size_t)row * (a.width / LH_BLOCK) + b) * a.parts;
}

/* One product each; defined in the file of the kernel. Rows and spans are not empty. */
int lh_float_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
/* Few rows: up to LH_FEW_ROWS. */
#define LH_FEW_ROWS 4u
int lh_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
int lh_tile_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
