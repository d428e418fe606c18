/* Attention over latent rows on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/latent.c says in scalars what is done.
 *
 * All heads read the same rows, so lanes are heads: 16 heads of one row of the step are a vector,
 * the last one perhaps not full. A tile is up to LATENT_VECTORS of them, rows slowest; each number
 * that is kept of a position is read as a scalar and meets them all:
 *   scores   a few positions at a time, one accumulator for each and each vector
 *   weights  each lane over its own keys only
 *   values   a few dimensions at a time, positions in ascending order, page by page: first those
 *            that all rows of the tile see, then what only the later rows see
 * block by block; what a block gave is joined to the blocks before, or is the result itself. */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/block_sums.h"
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
    float *turned;                  /* [width][vectors][16]: queries */
    float *o, *next; /* [rank][vectors][16]: what one block gives, or several; and a later one */
    float *p;        /* [LH_ATTENTION_BLOCK][vectors][16]: scores, then their exponentials */
    float *lanes;    /* [16][16]: sums of these, a line for each lane of kernels.h */
    float *rows;     /* [64][width]: of a page, where they are no floats there */
    float scale;
} latent_tile;

/* Of each vector: its greatest score, and the sum of its weights. */
typedef struct latent_weights {
    f32x16 m[LATENT_VECTORS], z[LATENT_VECTORS];
} latent_weights;

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
            lanes_store(tile->p + (t % LH_ATTENTION_BLOCK + (size_t)i) * (size_t)vectors * 16 +
                            v * 16,
                        lanes_mul(lanes_set(tile->scale), acc[v][i]));
}

LANES_INLINE void latent_score_all(const latent_tile *tile, lh_span left, const int vectors,
                                   const int positions) {
    const size_t width = tile->view->shape.value_dim;
    while (left.begin < left.end) {
        const lh_span keys = latent_in_page(left);
        const float *rows = latent_rows(tile, keys);
        for (uint32_t t = keys.begin; t < keys.end; t += (uint32_t)positions)
            latent_score(tile, rows + (t - keys.begin) * width, t, vectors, positions);
        left.begin = keys.end;
    }
}

/* The first `count` scores of vector v become their exponentials. */
static __attribute__((noinline)) void latent_weigh(const latent_tile *tile, uint32_t count,
                                                   latent_weights *weights, int v,
                                                   const int vectors) {
    float *p = tile->p + v * 16, *lanes = tile->lanes;
    size_t stride = (size_t)vectors * 16;
    f32x16 greatest = lanes_set(count > 0 ? -INFINITY : NO_SCORE);
    for (uint32_t t = 0; t < count; t++)
        greatest = lanes_max(greatest, lanes_load(p + t * stride));
    greatest = lanes_add(greatest, lanes_set(0)); /* -0 becomes +0 */
    for (uint32_t i = 0; i < 16; i++)
        lanes_store(lanes + i * 16, lanes_set(0));
    for (uint32_t t = 0; t < count; t++) {
        f32x16 e = lanes_exp(lanes_sub(lanes_load(p + t * stride), greatest));
        float *sum = lanes + t % 16 * 16;
        lanes_store(p + t * stride, e);
        lanes_store(sum, lanes_add(lanes_load(sum), e));
    }
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lanes_store(lanes + i * 16,
                        lanes_add(lanes_load(lanes + i * 16), lanes_load(lanes + (i + half) * 16)));
    weights->m[v] = greatest;
    weights->z[v] = lanes_load(lanes);
}

/* Adds p[t] * row[t][d] for t in keys, whose rows these are, to `dims` dimensions from d on of
 * `count` vectors from v on of o[rank][vectors][16]. */
LANES_INLINE void latent_add(const latent_tile *tile, float *o, const float *rows, int v,
                             lh_span keys, uint32_t d, const int count, const int vectors,
                             const int dims) {
    size_t width = tile->view->shape.value_dim, stride = (size_t)vectors * 16;
    const float *row = rows + d;
    o += d * stride + (size_t)v * 16;
    f32x16 acc[LATENT_VECTORS][LATENT_SUMS];
    for (int i = 0; i < dims; i++)
        for (int c = 0; c < count; c++)
            acc[c][i] = lanes_load(o + (size_t)i * stride + c * 16);
    const float *p = tile->p + keys.begin % LH_ATTENTION_BLOCK * stride + v * 16;
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
            lanes_store(o + (size_t)i * stride + c * 16, acc[c][i]);
}

/* latent_add over all dimensions and pages. */
LANES_INLINE void latent_add_values(const latent_tile *tile, float *o, int v, lh_span keys,
                                    const int count, const int vectors) {
    const int dims = LATENT_SUMS / count;
    while (keys.begin < keys.end) {
        const lh_span some = latent_in_page(keys);
        const float *rows = latent_rows(tile, some);
        uint32_t d = 0;
        for (; d + (uint32_t)dims <= tile->rank; d += (uint32_t)dims)
            latent_add(tile, o, rows, v, some, d, count, vectors, dims);
        for (; d < tile->rank; d++)
            latent_add(tile, o, rows, v, some, d, count, vectors, 1);
        keys.begin = some.end;
    }
}

/* What vector v has of keys that not all see. Not inlined: so there is one of them for tiles of any
 * number of vectors. */
static __attribute__((noinline)) void
latent_add_own_values(const latent_tile *tile, float *o, int v, lh_span keys, const int vectors) {
    latent_add_values(tile, o, v, keys, 1, vectors);
}

/* What a block gives: weights, and o[rank][vectors][16]. */
LANES_INLINE void latent_attend_block(const latent_tile *tile, uint32_t block,
                                      latent_weights *weights, float *o, const int vectors) {
    const int positions = LATENT_SUMS / vectors > LANES_QUERIES ? LANES_QUERIES
                          : LATENT_SUMS / vectors >= 8          ? 8
                          : LATENT_SUMS / vectors >= 4          ? 4
                                                                : 2;
    lh_span keys[LATENT_VECTORS];
    for (int v = 0; v < vectors; v++)
        keys[v] = lh_attention_keys_in((lh_span){0, tile->ends[v]}, block);
    latent_score_all(tile, keys[vectors - 1], vectors, positions);
    for (int v = 0; v < vectors; v++)
        latent_weigh(tile, keys[v].end - keys[v].begin, weights, v, vectors);
    for (size_t i = 0; i < (size_t)tile->rank * (size_t)vectors; i++)
        lanes_store(o + i * 16, lanes_set(0));
    latent_add_values(tile, o, 0, keys[0], vectors, vectors);
    for (int v = 0; v < vectors; v++)
        latent_add_own_values(tile, o, v, (lh_span){keys[0].end, keys[v].end}, vectors);
}

static void latent_attend(const latent_tile *tile, uint32_t block, latent_weights *weights,
                          float *o, uint32_t vectors) {
    switch (vectors) {
    case 1:
        latent_attend_block(tile, block, weights, o, 1);
        break;
    case 2:
        latent_attend_block(tile, block, weights, o, 2);
        break;
#if LANES_QUERIES > 4
    case 3:
        latent_attend_block(tile, block, weights, o, 3);
        break;
    case 4:
        latent_attend_block(tile, block, weights, o, 4);
        break;
#endif
    default:
        assert(0);
    }
}

/* Joins a later block, tile->next and its weights, to those before it in vector v. */
static void latent_join(const latent_tile *tile, latent_weights *weights,
                        const latent_weights *next, uint32_t v, uint32_t vectors) {
    f32x16 greatest = lanes_max(weights->m[v], next->m[v]);
    f32x16 a = lanes_exp(lanes_sub(weights->m[v], greatest)),
           c = lanes_exp(lanes_sub(next->m[v], greatest));
    weights->m[v] = greatest;
    weights->z[v] = lanes_fma(weights->z[v], a, lanes_mul(next->z[v], c));
    for (size_t d = 0; d < tile->rank; d++) {
        float *o = tile->o + (d * vectors + v) * 16;
        const float *its = tile->next + (d * vectors + v) * 16;
        lanes_store(o, lanes_fma(lanes_load(o), a, lanes_mul(lanes_load(its), c)));
    }
}

/* y[heads][floats] of vector v from its lanes, each times `factor`. */
static void latent_turn_back(const latent_tile *tile, float *y, size_t floats, f32x16 factor,
                             uint32_t v, uint32_t vectors) {
    float lanes[16];
    for (size_t d = 0; d < tile->rank; d++) {
        lanes_store(lanes, lanes_mul(lanes_load(tile->o + (d * vectors + v) * 16), factor));
        for (uint32_t head = 0; head < tile->heads[v]; head++)
            y[head * floats + d] = lanes[head];
    }
}

static void latent_store_partials(const latent_tile *tile, float *partials,
                                  const latent_weights *weights, uint32_t v, uint32_t vectors) {
    const size_t floats = lh_attention_partial_floats(tile->rank),
                 m = lh_attention_partial_m(tile->rank);
    float greatest[16], sums[16];
    lanes_store(greatest, weights->m[v]);
    lanes_store(sums, weights->z[v]);
    latent_turn_back(tile, partials, floats, lanes_set(1.0f), v, vectors);
    for (uint32_t head = 0; head < tile->heads[v]; head++) {
        partials[head * floats + m] = greatest[head];
        partials[head * floats + m + 1] = sums[head];
    }
}

static latent_tile latent_tile_of(const lh_kv_view *view, uint32_t rank, float scale,
                                  float *scratch) {
    assert(view->shape.kv_heads == 1 && rank <= view->shape.value_dim);
    const size_t query_floats = (size_t)view->shape.value_dim * LH_LATENT_QUERIES,
                 result_floats = (size_t)rank * LH_LATENT_QUERIES;
    latent_tile tile = {.view = view, .rank = rank, .scale = scale, .turned = scratch};
    tile.rows = tile.turned + query_floats;
    tile.o = tile.rows + query_floats;
    tile.next = tile.o + result_floats;
    tile.lanes = tile.next + result_floats;
    tile.p = tile.lanes + LH_LANES * LH_LANES;
    return tile;
}

/* Vector v is up to 16 heads from `head` on of q[heads][width]. */
static void latent_place(latent_tile *tile, uint32_t v, const float *q, uint32_t head,
                         uint32_t heads, uint32_t position) {
    tile->ends[v] = position + 1;
    tile->heads[v] = heads - head < LH_LANES ? heads - head : LH_LANES;
    tile->q[v] = q + (size_t)head * tile->view->shape.value_dim;
}

/* y[v][heads][rank] of all vectors. */
static void latent_attend_all(const latent_tile *tile, float *const *y, uint32_t vectors) {
    const uint32_t blocks = (tile->ends[vectors - 1] - 1) / LH_ATTENTION_BLOCK + 1;
    latent_weights weights, next;
    latent_turn_queries(tile, vectors);
    latent_attend(tile, 0, &weights, tile->o, vectors);
    for (uint32_t block = 1; block < blocks; block++) {
        latent_attend(tile, block, &next, tile->next, vectors);
        for (uint32_t v = 0; v < vectors; v++)
            if (tile->ends[v] > block * LH_ATTENTION_BLOCK)
                latent_join(tile, &weights, &next, v, vectors);
    }
    for (uint32_t v = 0; v < vectors; v++)
        latent_turn_back(tile, y[v], tile->rank, lanes_div(lanes_set(1.0f), weights.z[v]), v,
                         vectors);
}

static void kernel_latent_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                                    const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                    uint32_t first, uint32_t rows, float scale, void *scratch) {
    uint32_t groups = (heads + LH_LANES - 1) / LH_LANES, vectors = rows * groups;
    latent_tile tile = latent_tile_of(view, rank, scale, scratch);
    for (uint32_t done = 0; done < vectors;) {
        uint32_t left = vectors - done, count = left < LATENT_VECTORS ? left : LATENT_VECTORS;
        float *results[LATENT_VECTORS];
        for (uint32_t v = 0; v < count; v++) {
            uint32_t row = (done + v) / groups, head = (done + v) % groups * LH_LANES;
            latent_place(&tile, v, q + row * q_stride, head, heads, first + row);
            results[v] = y + row * y_stride + (size_t)head * rank;
        }
        latent_attend_all(&tile, results, count);
        done += count;
    }
}

static void kernel_latent_attention_blocks(float *partials, size_t stride, const float *q,
                                           const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                           uint32_t position, float scale, lh_span blocks,
                                           void *scratch) {
    const size_t floats = lh_attention_partial_floats(rank);
    latent_tile tile = latent_tile_of(view, rank, scale, scratch);
    for (uint32_t done = 0; done < heads; done += LATENT_VECTORS * LH_LANES) {
        uint32_t vectors = 0;
        for (uint32_t head = done; head < heads && vectors < LATENT_VECTORS; head += LH_LANES)
            latent_place(&tile, vectors++, q, head, heads, position);
        latent_turn_queries(&tile, vectors);
        for (uint32_t block = blocks.begin; block < blocks.end; block++) {
            latent_weights weights;
            float *own = partials + (block - blocks.begin) * stride + done * floats;
            latent_attend(&tile, block, &weights, tile.o, vectors);
            for (uint32_t v = 0; v < vectors; v++)
                latent_store_partials(&tile, own + v * LH_LANES * floats, &weights, v, vectors);
        }
    }
}
