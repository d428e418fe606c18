/* Attention over latent rows on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/latent.c says in scalars what is done.
 *
 * All heads read the same rows, so lanes are heads: 16 heads of one row of the step are a vector,
 * the last one perhaps not full. A tile is up to LATENT_VECTORS of them, rows slowest; each number
 * that is kept of a position is read as a scalar and meets them all:
 *   scores   a few positions at a time, one accumulator for each and each vector
 *   softmax  each lane over its own keys only
 *   values   a few dimensions at a time, positions in ascending order, page by page: first those
 *            that all rows of the tile see, then what only the later rows see */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/elementwise.h"
#include "kernels/simd/kv_rows.h"

#include <assert.h>

/* Accumulators that a loop keeps in registers. */
#define LATENT_SUMS    (LANES_QUERIES * LANES_VALUE_VECTORS)
#define LATENT_VECTORS (LANES_QUERIES / 2)

_Static_assert(LATENT_VECTORS *LH_LANES <= LH_LATENT_QUERIES, "scratch holds a tile");
_Static_assert(LH_LATENT_QUERIES >= LH_KV_PAGE_POSITIONS, "scratch holds a page's rows as floats");
_Static_assert(LH_KV_PAGE_POSITIONS % LANES_QUERIES == 0,
               "positions scored together are of a page");

typedef struct latent_tile {
    const lh_kv_view *view;
    uint32_t rank;
    uint32_t ends[LATENT_VECTORS];  /* positions that are seen, ascending */
    uint32_t heads[LATENT_VECTORS]; /* lanes in use */
    const float *q[LATENT_VECTORS]; /* [heads][width] */
    float *y[LATENT_VECTORS];       /* [heads][rank] */
    float *turned;                  /* [width][vectors][16]: queries, then results */
    float *p;                       /* [positions][vectors][16]: scores, then their exponentials */
    float *sums;                    /* [16][16] */
    float *rows;                    /* [64][width]: of a page, where they are no floats there */
    float scale;
} latent_tile;

/* Lanes that are not in use are 0. */
static void latent_turn_queries(const latent_tile *tile, uint32_t vectors) {
    uint32_t width = tile->view->shape.value_dim;
    for (uint32_t v = 0; v < vectors; v++)
        for (uint32_t d = 0; d < width; d++) {
            float *lanes = tile->turned + ((size_t)d * vectors + v) * LH_LANES;
            for (uint32_t head = 0; head < LH_LANES; head++)
                lanes[head] = head < tile->heads[v] ? tile->q[v][(size_t)head * width + d] : 0;
        }
}

static void latent_widen_row(const latent_tile *tile, uint32_t t, float *row) {
    const lh_kv_view *view = tile->view;
    const uint8_t *value = lh_kv_value(view, 0, t);
    const float *scales = lh_kv_value_scales(view, 0, t);
    const uint32_t width = view->shape.value_dim;
    for (uint32_t d = 0; d < width; d += 16) {
        uint32_t left = width - d;
        f32x16 v = load_values(view->shape.type, value, scales, d, left < 16 ? left : 0);
        left < 16 ? lanes_store_part(row + d, v, left) : lanes_store(row + d, v);
    }
}

/* Rows of `keys`, which are in one page, as floats. */
static const float *latent_rows(const latent_tile *tile, lh_span keys) {
    if (tile->view->shape.type == LH_KV_F32)
        return lh_kv_value(tile->view, 0, keys.begin);
    for (uint32_t t = keys.begin; t < keys.end; t++)
        latent_widen_row(tile, t,
                         tile->rows + (size_t)(t - keys.begin) * tile->view->shape.value_dim);
    return tile->rows;
}

/* The part of `keys` that is in the page of its first one. */
LANES_INLINE lh_span latent_in_page(lh_span keys) {
    uint32_t end = (keys.begin / LH_KV_PAGE_POSITIONS + 1) * LH_KV_PAGE_POSITIONS;
    return (lh_span){keys.begin, end < keys.end ? end : keys.end};
}

/* Scores of `positions` positions from t on, whose rows these are. */
LANES_INLINE void latent_score(const latent_tile *tile, const float *rows, uint32_t t,
                               const int vectors, const int positions) {
    size_t width = tile->view->shape.value_dim;
    const float *q = tile->turned;
    f32x16 acc[LATENT_VECTORS][LATENT_SUMS];
    for (int v = 0; v < vectors; v++)
        for (int i = 0; i < positions; i++)
            acc[v][i] = lanes_set(0);
    for (size_t d = 0; d < width; d++, q += vectors * 16) {
        f32x16 query[LATENT_VECTORS];
        for (int v = 0; v < vectors; v++)
            query[v] = lanes_load(q + v * 16);
        for (int i = 0; i < positions; i++) {
            f32x16 key = lanes_set(rows[(size_t)i * width + d]);
            for (int v = 0; v < vectors; v++)
                acc[v][i] = lanes_fma(query[v], key, acc[v][i]);
        }
    }
    for (int i = 0; i < positions; i++)
        for (int v = 0; v < vectors; v++)
            lanes_store(tile->p + ((size_t)t + (size_t)i) * (size_t)vectors * 16 + v * 16,
                        lanes_mul(lanes_set(tile->scale), acc[v][i]));
}

LANES_INLINE void latent_score_all(const latent_tile *tile, const int vectors,
                                   const int positions) {
    const size_t width = tile->view->shape.value_dim;
    lh_span left = {0, tile->ends[vectors - 1]};
    while (left.begin < left.end) {
        const lh_span keys = latent_in_page(left);
        const float *rows = latent_rows(tile, keys);
        for (uint32_t t = keys.begin; t < keys.end; t += (uint32_t)positions)
            latent_score(tile, rows + (t - keys.begin) * width, t, vectors, positions);
        left.begin = keys.end;
    }
}

/* Exponentials of vector v's scores; returns 1 / their sums. */
LANES_INLINE f32x16 latent_softmax(const latent_tile *tile, int v, const int vectors) {
    float *p = tile->p + v * 16;
    size_t stride = (size_t)vectors * 16;
    uint32_t end = tile->ends[v];
    f32x16 greatest = lanes_load(p);
    for (uint32_t t = 1; t < end; t++)
        greatest = lanes_max(greatest, lanes_load(p + t * stride));
    for (uint32_t i = 0; i < 16; i++)
        lanes_store(tile->sums + i * 16, lanes_set(0));
    for (uint32_t t = 0; t < end; t++) {
        f32x16 e = lanes_exp(lanes_sub(lanes_load(p + t * stride), greatest));
        float *sum = tile->sums + t % 16 * 16;
        lanes_store(p + t * stride, e);
        lanes_store(sum, lanes_add(lanes_load(sum), e));
    }
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lanes_store(tile->sums + i * 16, lanes_add(lanes_load(tile->sums + i * 16),
                                                       lanes_load(tile->sums + (i + half) * 16)));
    return lanes_div(lanes_set(1.0f), lanes_load(tile->sums));
}

/* Adds p[t] * row[t][d] for t in keys, whose rows these are, to `dims` dimensions from d on of
 * `count` vectors from v on. */
LANES_INLINE void latent_add(const latent_tile *tile, const float *rows, int v, lh_span keys,
                             uint32_t d, const int count, const int vectors, const int dims) {
    size_t width = tile->view->shape.value_dim, stride = (size_t)vectors * 16;
    float *y = tile->turned + d * stride + v * 16;
    const float *row = rows + d;
    f32x16 acc[LATENT_VECTORS][LATENT_SUMS];
    for (int i = 0; i < dims; i++)
        for (int c = 0; c < count; c++)
            acc[c][i] = lanes_load(y + (size_t)i * stride + c * 16);
    const float *p = tile->p + keys.begin * stride + v * 16;
    for (uint32_t t = keys.begin; t < keys.end; t++, row += width, p += stride) {
        f32x16 weight[LATENT_VECTORS];
        for (int c = 0; c < count; c++)
            weight[c] = lanes_load(p + c * 16);
        for (int i = 0; i < dims; i++) {
            f32x16 value = lanes_set(row[i]);
            for (int c = 0; c < count; c++)
                acc[c][i] = lanes_fma(weight[c], value, acc[c][i]);
        }
    }
    for (int i = 0; i < dims; i++)
        for (int c = 0; c < count; c++)
            lanes_store(y + (size_t)i * stride + c * 16, acc[c][i]);
}

/* latent_add over all dimensions and pages. */
LANES_INLINE void latent_add_values(const latent_tile *tile, int v, lh_span keys, const int count,
                                    const int vectors) {
    const int dims = LATENT_SUMS / count;
    while (keys.begin < keys.end) {
        const lh_span some = latent_in_page(keys);
        const float *rows = latent_rows(tile, some);
        uint32_t d = 0;
        for (; d + (uint32_t)dims <= tile->rank; d += (uint32_t)dims)
            latent_add(tile, rows, v, some, d, count, vectors, dims);
        for (; d < tile->rank; d++)
            latent_add(tile, rows, v, some, d, count, vectors, 1);
        keys.begin = some.end;
    }
}

/* y of vector v from its lanes. */
LANES_INLINE void latent_turn_back(const latent_tile *tile, int v, f32x16 inverse,
                                   const int vectors) {
    float lanes[16];
    for (uint32_t d = 0; d < tile->rank; d++) {
        const float *y = tile->turned + ((size_t)d * (size_t)vectors + (size_t)v) * 16;
        lanes_store(lanes, lanes_mul(lanes_load(y), inverse));
        for (uint32_t head = 0; head < tile->heads[v]; head++)
            tile->y[v][(size_t)head * tile->rank + d] = lanes[head];
    }
}

LANES_INLINE void latent_attend(const latent_tile *tile, const int vectors) {
    const int positions = LATENT_SUMS / vectors > LANES_QUERIES ? LANES_QUERIES
                          : LATENT_SUMS / vectors >= 8          ? 8
                          : LATENT_SUMS / vectors >= 4          ? 4
                                                                : 2;
    const lh_span common = {0, tile->ends[0]};
    f32x16 inverse[LATENT_VECTORS];
    latent_turn_queries(tile, (uint32_t)vectors);
    latent_score_all(tile, vectors, positions);
    for (int v = 0; v < vectors; v++)
        inverse[v] = latent_softmax(tile, v, vectors);
    for (size_t i = 0; i < (size_t)tile->rank * (size_t)vectors; i++)
        lanes_store(tile->turned + i * 16, lanes_set(0));
    latent_add_values(tile, 0, common, vectors, vectors);
    for (int v = 0; v < vectors; v++) {
        latent_add_values(tile, v, (lh_span){common.end, tile->ends[v]}, 1, vectors);
        latent_turn_back(tile, v, inverse[v], vectors);
    }
}

static void latent_attend_tile(const latent_tile *tile, uint32_t vectors) {
    switch (vectors) {
    case 1:
        latent_attend(tile, 1);
        break;
    case 2:
        latent_attend(tile, 2);
        break;
#if LANES_QUERIES > 4
    case 3:
        latent_attend(tile, 3);
        break;
    case 4:
        latent_attend(tile, 4);
        break;
#endif
    default:
        assert(0);
    }
}

static void kernel_latent_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                                    const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                    uint32_t first, uint32_t rows, float scale, void *scratch) {
    assert(view->shape.kv_heads == 1 && rank <= view->shape.value_dim);
    uint32_t groups = (heads + LH_LANES - 1) / LH_LANES, vectors = rows * groups;
    const size_t lines = (size_t)view->shape.value_dim * LH_LATENT_QUERIES;
    float *turned = scratch, *page = turned + lines, *sums = page + lines;
    latent_tile tile = {.view = view,
                        .rank = rank,
                        .scale = scale,
                        .turned = turned,
                        .sums = sums,
                        .rows = page,
                        .p = sums + LH_LANES * LH_LANES};
    for (uint32_t done = 0; done < vectors;) {
        uint32_t left = vectors - done, count = left < LATENT_VECTORS ? left : LATENT_VECTORS;
        for (uint32_t v = 0; v < count; v++) {
            uint32_t row = (done + v) / groups, head = (done + v) % groups * LH_LANES;
            tile.ends[v] = first + row + 1;
            tile.heads[v] = heads - head < LH_LANES ? heads - head : LH_LANES;
            tile.q[v] = q + row * q_stride + (size_t)head * view->shape.value_dim;
            tile.y[v] = y + row * y_stride + (size_t)head * rank;
        }
        latent_attend_tile(&tile, count);
        done += count;
    }
}
