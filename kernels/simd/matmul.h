/* The walk of a matrix product over its output tiles and row tiles, which the instruction sets
 * share; an f32x16.h is included before this file. What a set brings is a table of row-tile
 * functions per weight type.
 *
 * Weights are the outer loop: one tile of 16 outputs (some KiB) is read from memory once, stays in
 * the first cache, and meets the rows a few at a time. Rows are divided evenly, so that 9 rows are
 * 5 and 4 and not 8 and 1. Few rows take several output tiles at once, to have enough independent
 * chains and streams from memory. Meanwhile they ask for what comes next (fetch_ahead): the
 * processor's own prefetching does not look that far ahead, and a step of few rows would wait for
 * memory as long as it computes.
 *
 * So many rows as the second cache holds pass over all tiles, then the next ones: else each tile
 * would bring all of x from farther away.
 *
 * Where taking weights apart is dear, many rows meet those that were taken apart once: a panel of a
 * few blocks of a tile, its quants in bytes and its scales ready, stays in the first cache while
 * all rows pass. */
#pragma once

#include "kernels/instruction_sets.h"
#include "kernels/layout.h"

#include <assert.h>
#include <string.h>

/* One register tile: `rows` rows (known to the function) of x against one or more tiles of 16
 * outputs. */
typedef struct product {
    float *y; /* row 0, first output */
    size_t y_stride;
    const void *x;   /* row 0, first input of the span: lh_q8_block or float */
    size_t x_stride; /* in elements of x */
    uint32_t parts;  /* blocks of x for each of w: lh_activations_parts */
    /* quants or values at the first input of the span, the next tile is w + tile_bytes; or a
     * panel */
    const uint8_t *w;
    const uint8_t *subscales; /* of the first block; K types */
    const uint8_t *scales;    /* those that the first block shares; NULL for floats */
    size_t tile_bytes;
    uint32_t first;       /* block among those that share `scales` */
    uint32_t count;       /* inputs of the span, or blocks of 32 */
    uint32_t outputs;     /* of the last tile: 1 .. 16 */
    const uint8_t *ahead; /* where one tile's fetch_ahead asks for so many bytes of each block */
    size_t ahead_bytes;
    /* where the sums of a panel start: y, or zeros, which are the same for all rows */
    const float *start;
    size_t start_stride;
} product;

/* Row tiles over which the next tile's bytes are spread, at most. */
#define AHEAD_ROW_TILES_MAX 4u
/* How far ahead several streams are asked for. Measured with one row on Zen 4, weights in memory:
 * Q5_0 16 GB/s without, 24, 28 and 23 with 1, 2 and 6 KiB; Q4_K 20 and 24, 26, 21. Where a quant is
 * a byte there is less to do for each block: Q8_0 26 and 30, 26, 23. */
#define AHEAD_BYTES      2048u
#define AHEAD_BYTES_Q8_0 1024u

/* The scales that so many blocks later are needed, a line when its first block is near: they lie
 * behind a tile's quants, and where a tile is short the processor's own prefetching is late. Zen 4,
 * one row, weights in memory: products of 2048 by 768 and 768 by 2048 of Q4_0 5 % faster. */
#define AHEAD_SCALE_BLOCKS 8u

LANES_INLINE void fetch_scales_ahead(const product *p, uint32_t block, const int tiles,
                                     const lh_quant_form form) {
    if (form.scales == 0)
        return;
    const uint32_t scale_bytes = 32 * form.scales, line_blocks = 64 / scale_bytes * form.sharing,
                   first = form.sharing > 1 ? p->first : 0;
    if ((first + block + AHEAD_SCALE_BLOCKS) % line_blocks)
        return;
    const uint32_t then = block + AHEAD_SCALE_BLOCKS;
    const uint8_t *next = then < p->count
                              ? p->scales + (first + then) / form.sharing * scale_bytes
                              : p->scales + (size_t)tiles * p->tile_bytes +
                                    (first + then - p->count) / form.sharing * scale_bytes;
    for (int t = 0; t < tiles; t++)
        __builtin_prefetch(next + (size_t)t * p->tile_bytes, 0, 2);
}

/* What comes after block `block` of `quant_bytes`. One tile that the rows pass over: the next tile.
 * Several, for few rows: of each what is some blocks ahead, at its end the tile that takes its
 * place. Into the second cache only, which is what makes it pay: the first has too few places for
 * lines that are under way (8 rows from memory, Zen 4: 10 % faster). */
LANES_INLINE void fetch_ahead(const product *p, uint32_t block, const int tiles,
                              const size_t quant_bytes) {
    if (tiles == 1) {
        const uint8_t *next = p->ahead + block * p->ahead_bytes;
        for (size_t at = 0; at < p->ahead_bytes; at += 64)
            __builtin_prefetch(next + at, 0, 2);
        return;
    }
    const size_t distance = quant_bytes == LH_BLOCK * LH_LANES ? AHEAD_BYTES_Q8_0 : AHEAD_BYTES;
    const uint32_t then = block + (uint32_t)(distance / quant_bytes);
    const uint8_t *next = p->w + then * quant_bytes;
    if (then >= p->count)
        next = p->w + (size_t)tiles * p->tile_bytes + (then - p->count) * quant_bytes;
    for (int t = 0; t < tiles; t++, next += p->tile_bytes)
        for (size_t at = 0; at < quant_bytes; at += 64)
            __builtin_prefetch(next + at, 0, 2);
}

typedef void product_function(const product *p);

/* Blocks of one tile taken apart: 8 groups of bytes each, and vectors of 16 floats or words that
 * their set defines. More blocks are fewer visits of y, fewer leave the first cache (32 KiB) to the
 * rows: 24 measured best of 8 to 64. */
#define PANEL_BLOCKS 24u
#define PANEL_SCALES 6u
typedef struct quant_panel {
    _Alignas(64) uint8_t quants[PANEL_BLOCKS][LH_BLOCK * LH_LANES];
    float scales[PANEL_BLOCKS][PANEL_SCALES][LH_LANES];
} quant_panel;

/* Takes the p->count (at most PANEL_BLOCKS) blocks of one tile apart. */
typedef void unpack_function(quant_panel *panel, const product *p);

/* The functions for one weight type: by rows - 1; `wide` are those that take `wide_tiles` tiles of
 * outputs at once, NULL where there is none. */
#define PRODUCT_ROWS_MAX 8
typedef struct product_kernel {
    uint32_t rows_max; /* <= PRODUCT_ROWS_MAX */
    product_function *narrow[PRODUCT_ROWS_MAX];
    product_function *wide[PRODUCT_ROWS_MAX];
    uint32_t wide_tiles[PRODUCT_ROWS_MAX];
    unpack_function *unpack;             /* NULL: no panels */
    product_function *const *from_panel; /* by rows - 1, up to rows_max */
    uint32_t panel_rows_min;
} product_kernel;

/* What the next register tile goes on with, or writes: rows lie apart, which the processor does not
 * foresee. */
static void ask_for_outputs(const float *y, size_t y_stride, uint32_t rows) {
    for (uint32_t row = 0; row < rows; row++)
        __builtin_prefetch(y + row * y_stride, 1);
}

/* `functions` by rows - 1. p.ahead_bytes: of all that comes next. */
static void multiply_rows(product_function *const *functions, uint32_t rows_max, product p,
                          uint32_t rows) {
    uint32_t row_tiles = (rows + rows_max - 1) / rows_max;
    uint32_t ahead_tiles = row_tiles < AHEAD_ROW_TILES_MAX ? row_tiles : AHEAD_ROW_TILES_MAX;
    p.ahead_bytes /= ahead_tiles * p.count;
    size_t x_bytes = p.scales ? sizeof(lh_q8_block) : sizeof(float);
    float *y = p.y;
    const float *start = p.start;
    const char *x = p.x;
    for (uint32_t i = 0, row = 0; i < row_tiles; i++) {
        uint32_t count = (rows - row) / (row_tiles - i);
        p.y = y + row * p.y_stride;
        p.x = x + row * p.x_stride * x_bytes;
        p.start = start + row * p.start_stride;
        if (i + 1 < row_tiles)
            ask_for_outputs(y + (row + count) * p.y_stride, p.y_stride, count);
        functions[count - 1](&p);
        p.ahead += p.ahead_bytes * p.count;
        p.ahead_bytes = i + 1 < ahead_tiles ? p.ahead_bytes : 0;
        row += count;
    }
}

/* All rows with one tile, panel by panel. p.ahead: what comes after the tile, or its own begin
 * where nothing does. */
static void multiply_panels(const product_kernel *kernel, product p, const lh_tile_layout *layout,
                            uint32_t rows) {
    quant_panel panel;
    for (uint32_t b = 0; b < p.count; b += PANEL_BLOCKS) {
        product part = p;
        part.count = p.count - b < PANEL_BLOCKS ? p.count - b : PANEL_BLOCKS;
        part.w += (size_t)b * layout->quant_bytes;
        part.subscales += (size_t)b * layout->subscale_bytes;
        part.scales += (size_t)((p.first + b) / layout->sharing) * layout->scale_bytes;
        part.first = (p.first + b) % layout->sharing;
        if (b > 0) {
            part.start = p.y;
            part.start_stride = p.y_stride;
        }
        kernel->unpack(&panel, &part);
        if (b + PANEL_BLOCKS < p.count)
            part.ahead = part.w + PANEL_BLOCKS * layout->quant_bytes;
        part.ahead_bytes = (size_t)part.count * layout->quant_bytes;
        part.w = (const uint8_t *)&panel;
        part.x = (const lh_q8_block *)p.x + (size_t)b * p.parts;
        multiply_rows(kernel->from_panel, kernel->rows_max, part, rows);
    }
}

/* Bytes of x that pass over the tiles at once, and the least rows, a multiple of any register
 * tile's. */
#define ROWS_BYTES 262144u
#define ROWS_MIN   24u

static void zero_columns(float *y, size_t y_stride, uint32_t rows, lh_span out) {
    for (uint32_t row = 0; row < rows; row++)
        memset(y + row * y_stride + out.begin, 0, (out.end - out.begin) * sizeof *y);
}

/* Some rows with all tiles. */
static void multiply_some(const product_kernel *kernel, float *y, size_t y_stride,
                          const lh_activations *x, const lh_matrix *w, lh_span in, lh_span out,
                          bool continues) {
    static const float zeros[LH_LANES];
    lh_tile_layout layout = lh_tile_layout_for(w->dtype, w->inputs);
    product p = {.y_stride = y_stride, .tile_bytes = layout.tile_bytes};
    size_t w_offset, subscales_offset = 0, scales_offset = 0;
    const bool quantized = x->kind != LH_ACTIVATION_F32;
    if (quantized) {
        uint32_t block = in.begin / LH_BLOCK;
        p.parts = lh_activations_parts(x->kind);
        p.x = lh_activations_block(x, 0, block);
        p.x_stride = x->width / LH_BLOCK * p.parts;
        p.count = (in.end - in.begin) / LH_BLOCK;
        p.first = block % layout.sharing;
        w_offset = (size_t)block * layout.quant_bytes;
        subscales_offset = layout.subscales_offset + (size_t)block * layout.subscale_bytes;
        scales_offset =
            layout.scales_offset + (size_t)(block / layout.sharing) * layout.scale_bytes;
    } else {
        p.x = lh_activations_value(x, 0, in.begin);
        p.x_stride = x->width;
        p.count = in.end - in.begin;
        w_offset = (size_t)in.begin * layout.column_bytes;
    }
    bool panels = kernel->unpack && x->rows >= kernel->panel_rows_min;
    uint32_t wide = x->rows <= kernel->rows_max && !panels ? kernel->wide_tiles[x->rows - 1] : 0;
    if (!panels && !continues) {
        zero_columns(y, y_stride, x->rows, out); /* which also brings them into the caches */
        continues = true;
    }
    for (uint32_t output = out.begin; output < out.end;) {
        const uint8_t *tile = lh_matrix_tile(w, &layout, output);
        uint32_t left = (out.end - output + LH_LANES - 1) / LH_LANES,
                 tiles = wide > 0 && left >= wide ? wide : 1;
        p.y = y + output;
        p.start = continues ? p.y : zeros;
        p.start_stride = continues ? y_stride : 0;
        p.w = tile + w_offset;
        p.subscales = tile + subscales_offset;
        p.scales = quantized ? tile + scales_offset : NULL;
        p.outputs = tiles == left ? (out.end - output - 1) % LH_LANES + 1 : LH_LANES;
        output += tiles * LH_LANES;
        if (panels) {
            p.ahead = output < out.end ? p.w + layout.tile_bytes : p.w;
            multiply_panels(kernel, p, &layout, x->rows);
            continue;
        }
        p.ahead = tile + layout.tile_bytes;
        p.ahead_bytes = output < out.end ? layout.tile_bytes : 0;
        multiply_rows(tiles > 1 ? kernel->wide : kernel->narrow, kernel->rows_max, p, x->rows);
    }
}

static void multiply(const product_kernel *kernel, float *y, size_t y_stride,
                     const lh_activations *x, const lh_matrix *w, lh_span in, lh_span out,
                     bool continues) {
    assert(x->kind == lh_activation_kind_for(w->dtype, x->kind) && x->width == w->inputs);
    assert(in.begin % LH_SPAN_COLUMNS == 0 && in.begin < in.end && in.end <= w->inputs);
    assert(in.end % LH_SPAN_COLUMNS == 0 || in.end == w->inputs);
    assert(out.begin % LH_LANES == 0 && out.end <= w->outputs);
    assert(out.end % LH_LANES == 0 || out.end == w->outputs);
    size_t row_bytes = lh_activations_bytes(x->kind, 1, x->width);
    uint32_t at_once = (uint32_t)(ROWS_BYTES / row_bytes) / ROWS_MIN * ROWS_MIN;
    if (at_once < ROWS_MIN)
        at_once = ROWS_MIN;
    for (uint32_t row = 0; row < x->rows; row += at_once) {
        uint32_t rows = x->rows - row < at_once ? x->rows - row : at_once;
        lh_activations some = {x->kind, rows, x->width, (char *)x->data + row * row_bytes};
        multiply_some(kernel, y + row * y_stride, y_stride, &some, w, in, out, continues);
    }
}

/* A function out of an inlined body(p, rows, tiles, type); and NAME_1 .. NAME_4, of one tile. */
#define PRODUCT(name, body, type, rows, tiles)                                                     \
    static void name(const product *p) {                                                           \
        body(p, rows, tiles, type);                                                                \
    }
#define PRODUCTS_OF_4(name, body, type)                                                            \
    PRODUCT(name##_1, body, type, 1, 1)                                                            \
    PRODUCT(name##_2, body, type, 2, 1)                                                            \
    PRODUCT(name##_3, body, type, 3, 1)                                                            \
    PRODUCT(name##_4, body, type, 4, 1)

/* The choice among a set's tables, which bear the types' names. */
#define PRODUCT_KERNEL_FOR                                                                         \
    static const product_kernel *kernel_for(lh_dtype dtype) {                                      \
        static const product_kernel *const kernels[] = {                                           \
            [LH_DTYPE_F32] = &f32,         [LH_DTYPE_F16] = &f16,                                  \
            [LH_DTYPE_BF16] = &bf16,       [LH_DTYPE_Q4_0] = &q4_0,                                \
            [LH_DTYPE_Q4_1] = &q4_1,       [LH_DTYPE_Q5_0] = &q5_0,                                \
            [LH_DTYPE_Q5_1] = &q5_1,       [LH_DTYPE_Q8_0] = &q8_0,                                \
            [LH_DTYPE_Q2_K] = &q2_k,       [LH_DTYPE_Q3_K] = &q3_k,                                \
            [LH_DTYPE_Q4_K] = &q4_k,       [LH_DTYPE_Q5_K] = &q5_k,                                \
            [LH_DTYPE_Q6_K] = &q6_k,       [LH_DTYPE_IQ4_NL] = &iq4_nl,                            \
            [LH_DTYPE_MXFP4] = &mxfp4,     [LH_DTYPE_IQ4_XS] = &iq4_xs,                            \
            [LH_DTYPE_TQ1_0] = &tq2_0,     [LH_DTYPE_TQ2_0] = &tq2_0,                              \
            [LH_DTYPE_IQ3_XXS] = &iq3_xxs, [LH_DTYPE_IQ3_S] = &iq3_s,                              \
            [LH_DTYPE_IQ2_XXS] = &iq2_xxs, [LH_DTYPE_IQ2_XS] = &iq2_xs,                            \
            [LH_DTYPE_IQ2_S] = &iq2_s,     [LH_DTYPE_IQ1_S] = &iq1_s,                              \
            [LH_DTYPE_IQ1_M] = &iq1_m,                                                             \
        };                                                                                         \
        return kernels[dtype];                                                                     \
    }
