/* The walk of a matrix product over its output tiles and row tiles, which the instruction sets share; an
 * f32x16.h is included before this file. What a set brings is a table of row-tile functions per weight type.
 *
 * Weights are the outer loop: one tile of 16 outputs (some KiB) is read from memory once, stays in the first
 * cache, and meets the rows a few at a time. Rows are divided evenly, so that 9 rows are 5 and 4 and not 8
 * and 1. One or two rows take several output tiles at once, to have enough independent chains and streams
 * from memory. */
#pragma once

#include "kernels/lanes/functions.h"
#include "kernels/layout.h"

#include <assert.h>

/* One register tile: `rows` rows (known to the function) of x against one or more tiles of 16 outputs. */
typedef struct product {
    float *y; /* row 0, first output */
    size_t y_stride;
    const void *x;    /* row 0, first input of the span: lh_q8_block or float */
    size_t x_stride;  /* in elements of x */
    const uint8_t *w; /* quants or values at the first input of the span; the next tile is w + tile_bytes */
    const uint8_t *scales;
    size_t tile_bytes;
    uint32_t count;   /* inputs of the span, or blocks of 32 */
    uint32_t outputs; /* of the last tile: 1 .. 16 */
} product;

typedef void product_function(const product *p);

/* The functions for one weight type: by rows - 1; `wide` are those that take `wide_tiles` tiles of outputs at
 * once, NULL where there is none. */
#define PRODUCT_ROWS_MAX 8
typedef struct product_kernel {
    uint32_t rows_max; /* <= PRODUCT_ROWS_MAX */
    product_function *narrow[PRODUCT_ROWS_MAX];
    product_function *wide[PRODUCT_ROWS_MAX];
    uint32_t wide_tiles[PRODUCT_ROWS_MAX];
} product_kernel;

static void multiply_rows(const product_kernel *kernel, product p, uint32_t rows, uint32_t tiles) {
    uint32_t row_tiles = (rows + kernel->rows_max - 1) / kernel->rows_max;
    size_t x_bytes = p.scales != NULL ? sizeof(lh_q8_block) : sizeof(float);
    float *y = p.y;
    const char *x = p.x;
    for (uint32_t i = 0, row = 0; i < row_tiles; i++) {
        uint32_t count = (rows - row) / (row_tiles - i);
        p.y = y + row * p.y_stride;
        p.x = x + row * p.x_stride * x_bytes;
        (tiles > 1 ? kernel->wide : kernel->narrow)[count - 1](&p);
        row += count;
    }
}

static void multiply(const product_kernel *kernel, float *y, size_t y_stride, const lh_activations *x,
                     const lh_matrix *w, lh_span in, lh_span out) {
    assert(x->kind == lh_activation_kind_for(w->dtype) && x->width == w->inputs);
    assert(in.begin % LH_SPAN_COLUMNS == 0 && in.end <= w->inputs);
    assert(in.end % LH_SPAN_COLUMNS == 0 || in.end == w->inputs);
    assert(out.begin % LH_LANES == 0 && out.end <= w->outputs);
    assert(out.end % LH_LANES == 0 || out.end == w->outputs);
    if (x->rows == 0 || in.begin >= in.end)
        return;
    lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    product p = {.y_stride = y_stride, .tile_bytes = layout.tile_bytes};
    size_t w_offset, scales_offset = 0;
    if (x->kind == LH_ACTIVATION_Q8) {
        uint32_t block = in.begin / LH_BLOCK;
        p.x = lh_activations_block(x, 0, block);
        p.x_stride = x->width / LH_BLOCK;
        p.count = (in.end - in.begin) / LH_BLOCK;
        w_offset = (size_t)block * layout.quant_bytes;
        scales_offset = layout.scales_offset + (size_t)block * layout.scale_bytes;
    } else {
        p.x = lh_activations_value(x, 0, in.begin);
        p.x_stride = x->width;
        p.count = in.end - in.begin;
        w_offset = (size_t)in.begin * layout.column_bytes;
    }
    uint32_t wide = x->rows <= kernel->rows_max ? kernel->wide_tiles[x->rows - 1] : 0;
    for (uint32_t output = out.begin; output < out.end;) {
        const uint8_t *tile = lh_matrix_tile(w, &layout, output);
        uint32_t left = (out.end - output + LH_LANES - 1) / LH_LANES,
                 tiles = wide > 0 && left >= wide ? wide : 1;
        p.y = y + output;
        p.w = tile + w_offset;
        p.scales = x->kind == LH_ACTIVATION_Q8 ? tile + scales_offset : NULL;
        p.outputs = tiles == left ? (out.end - output - 1) % LH_LANES + 1 : LH_LANES;
        multiply_rows(kernel, p, x->rows, tiles);
        output += tiles * LH_LANES;
    }
}

/* Functions NAME_1 .. NAME_8 for 1 .. 8 rows out of an inlined body(p, rows, tiles, type). */
#define PRODUCT(name, body, type, rows, tiles)                                                               \
    static void name(const product *p) {                                                                     \
        body(p, rows, tiles, type);                                                                          \
    }
