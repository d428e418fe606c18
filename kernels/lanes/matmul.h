/* The walk of a matrix product over its output tiles and row tiles, which the instruction sets share; an
 * f32x16.h is included before this file. What a set brings is a table of row-tile functions per weight type.
 *
 * Weights are the outer loop: one tile of 16 outputs (some KiB) is read from memory once, stays in the first
 * cache, and meets the rows a few at a time. Rows are divided evenly, so that 9 rows are 5 and 4 and not 8
 * and 1. One or two rows take several output tiles at once, to have enough independent chains and streams
 * from memory. Meanwhile the first rows ask for the tile that comes next, block by block: the processor's own
 * prefetching does not look that far ahead, and a step of few rows would wait for memory at each tile, as long as
 * it computes with it. */
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
    const uint8_t *ahead;
    size_t ahead_bytes; /* of each block, to be asked for there with fetch_ahead */
} product;

/* With one row there is no time to hide anything in: memory is what it takes, and streams are enough. */
#define AHEAD_ROWS_MIN 2u
/* Row tiles over which the next tile's bytes are spread, at most. */
#define AHEAD_ROW_TILES_MAX 4u

LANES_INLINE void fetch_ahead(const product *p, uint32_t block) {
    const uint8_t *next = p->ahead + block * p->ahead_bytes;
    for (size_t at = 0; at < p->ahead_bytes; at += 64)
        __builtin_prefetch(next + at, 0, 3);
}

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

/* p.ahead_bytes: of all that comes next. */
static void multiply_rows(const product_kernel *kernel, product p, uint32_t rows, uint32_t tiles) {
    uint32_t row_tiles = (rows + kernel->rows_max - 1) / kernel->rows_max;
    uint32_t ahead_tiles = row_tiles < AHEAD_ROW_TILES_MAX ? row_tiles : AHEAD_ROW_TILES_MAX;
    p.ahead_bytes /= ahead_tiles * p.count;
    size_t x_bytes = p.scales != NULL ? sizeof(lh_q8_block) : sizeof(float);
    float *y = p.y;
    const char *x = p.x;
    for (uint32_t i = 0, row = 0; i < row_tiles; i++) {
        uint32_t count = (rows - row) / (row_tiles - i);
        p.y = y + row * p.y_stride;
        p.x = x + row * p.x_stride * x_bytes;
        (tiles > 1 ? kernel->wide : kernel->narrow)[count - 1](&p);
        p.ahead += p.ahead_bytes * p.count;
        p.ahead_bytes = i + 1 < ahead_tiles ? p.ahead_bytes : 0;
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
        output += tiles * LH_LANES;
        p.ahead = tile + tiles * layout.tile_bytes;
        p.ahead_bytes = output < out.end && x->rows >= AHEAD_ROWS_MIN ? tiles * layout.tile_bytes : 0;
        multiply_rows(kernel, p, x->rows, tiles);
    }
}

/* Functions NAME_1 .. NAME_8 for 1 .. 8 rows out of an inlined body(p, rows, tiles, type). */
#define PRODUCT(name, body, type, rows, tiles)                                                               \
    static void name(const product *p) {                                                                     \
        body(p, rows, tiles, type);                                                                          \
    }
