/* Causal attention on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/attention.c says in scalars what is done.
 *
 * The queries of all rows and of the heads that share one KV head are taken LANES_QUERIES at a
 * time, rows slowest. Such a tile reads each key and value once:
 *   scores   16 keys are one vector (they lie interleaved); one accumulator for each query
 *   softmax  each query over its own keys only
 *   values   lanes are dimensions; keys in ascending order: what only the earlier rows see (a
 *            window moves on), what all see, what only the later rows see
 * A masked key takes no part at all: not even 0 is added for it. The type of the pages' numbers is
 * a constant wherever it is passed on: each has a tile of its own. */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/elementwise.h"
#include "kernels/simd/kv_rows.h"

#include <assert.h>

_Static_assert(LANES_QUERIES <= LH_ATTENTION_QUERIES, "scratch holds the scores of a tile");

typedef struct query_tile {
    const lh_kv_view *view;
    uint32_t kv_head;
    const float *q[LANES_QUERIES]; /* [key_dim] */
    float *y[LANES_QUERIES];       /* [value_dim] */
    lh_span keys[LANES_QUERIES];   /* positions that are seen; both bounds ascend */
    float *p;                      /* [queries][p_stride]: scores, then their exponentials */
    size_t p_stride;
    float scale;
    const float *sinks[LANES_QUERIES]; /* one each; NULL: none */
    uint32_t number, count;            /* among the tiles that read the same keys */
} query_tile;

/* The pages, of a type that is a constant: then so is most of where a row lies. */
LANES_INLINE lh_kv_view view_of(const query_tile *tile, const lh_kv_type type) {
    lh_kv_view view = *tile->view;
    view.shape.type = type;
    return view;
}

/* What a tile asks for while it scores keys, into the second cache: between two steps of few rows
 * all weights have passed through it. */
typedef struct asked {
    const uint8_t *keys, *values; /* as many as it scores */
} asked;

/* While it scores `count` keys from position t on. The first tile asks for what it is about to read
 * itself: the keys from position `then` on and the values of these; the others, each for a share,
 * for what the next KV head's will. */
LANES_INLINE asked asked_for(const query_tile *tile, const lh_kv_view *view, uint32_t t,
                             uint32_t then, uint32_t count) {
    if (tile->number == 0)
        return (asked){lh_kv_keys(view, tile->kv_head, then), lh_kv_value(view, tile->kv_head, t)};
    bool is_mine = t / count % (tile->count - 1) == tile->number - 1;
    uint32_t head =
        is_mine && tile->kv_head + 1 < view->shape.kv_heads ? tile->kv_head + 1 : tile->kv_head;
    return (asked){lh_kv_keys(view, head, t), lh_kv_value(view, head, t)};
}

/* Scores of `queries` queries for `blocks` blocks of 16 keys from position t on, in one page. */
LANES_INLINE void score_keys(const query_tile *tile, const lh_kv_type type, uint32_t t,
                             uint32_t then, const int queries, const int blocks) {
    const lh_kv_view view = view_of(tile, type);
    const uint32_t dims = view.shape.key_dim, line = LH_LANES * lh_kv_number_bytes(type);
    const uint8_t *keys = lh_kv_keys(&view, tile->kv_head, t);
    const asked next = asked_for(tile, &view, t, then, (uint32_t)blocks * LH_LANES);
    const size_t block_bytes = LH_LANES * lh_kv_row_bytes(type, dims);
    f32x16 acc[LANES_QUERIES][2];
    for (int i = 0; i < queries; i++)
        for (int b = 0; b < blocks; b++)
            acc[i][b] = lanes_set(0);
    for (uint32_t d = 0; d < dims; d++) {
        f32x16 key[2];
        /* once for each line of the cache */
        for (int b = 0; b < blocks && d * line % CACHE_LINE_BYTES == 0; b++) {
            __builtin_prefetch(next.keys + (size_t)b * block_bytes + (size_t)d * line, 0, 2);
            __builtin_prefetch(next.values + (size_t)b * block_bytes + (size_t)d * line, 0, 2);
        }
        for (int b = 0; b < blocks; b++)
            key[b] = load_keys(type, keys + (size_t)b * block_bytes, dims, d);
        for (int i = 0; i < queries; i++) {
            f32x16 query = lanes_set(tile->q[i][d]);
            for (int b = 0; b < blocks; b++)
                acc[i][b] = lanes_fma(query, key[b], acc[i][b]);
        }
    }
    for (int i = 0; i < queries; i++)
        for (int b = 0; b < blocks; b++)
            lanes_store(tile->p + (size_t)i * tile->p_stride + t + (size_t)b * LH_LANES,
                        lanes_mul(lanes_set(tile->scale), acc[i][b]));
}

/* Few queries take two blocks at a time, so that there are chains enough to hide an addition's
 * latency. */
LANES_INLINE void score_tile(const query_tile *tile, const lh_kv_type type, const int queries) {
    const int blocks = queries <= LANES_QUERIES / 2 ? 2 : 1;
    const uint32_t step = (uint32_t)blocks * LH_LANES;
    const uint32_t end = tile->keys[queries - 1].end;
    for (uint32_t t = tile->keys[0].begin / step * step; t < end; t += step)
        score_keys(tile, type, t, t + step < end ? t + step : t, queries, blocks);
}

/* Adds p[t] * v[t][d] for t in keys to y[d] of queries from, from + 1, ...; d in [dim, dim + 16 *
 * vectors) or, where `part` is not 0, [dim, dim + part). */
LANES_INLINE void add_values(const query_tile *tile, const lh_kv_type type, int from, lh_span keys,
                             uint32_t dim, const int queries, const int vectors, uint32_t part) {
    f32x16 acc[LANES_QUERIES][LANES_VALUE_VECTORS];
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++) {
            const float *y = tile->y[from + i] + dim + 16 * v;
            acc[i][v] = part != 0 ? lanes_load_part(y, part) : lanes_load(y);
        }
    const float *p = tile->p + (size_t)from * tile->p_stride;
    const lh_kv_view view = view_of(tile, type);
    const uint32_t dims = view.shape.value_dim;
    const size_t row_bytes = (size_t)dims * lh_kv_number_bytes(type);
    for (uint32_t t = keys.begin; t < keys.end;) {
        uint32_t page_end = (t / LH_KV_PAGE_POSITIONS + 1) * LH_KV_PAGE_POSITIONS;
        const uint8_t *value = lh_kv_value(&view, tile->kv_head, t);
        const float *scales = lh_kv_value_scales(&view, tile->kv_head, t);
        for (; t < page_end && t < keys.end; t++, value += row_bytes, scales += blocks_of(dims)) {
            f32x16 row[LANES_VALUE_VECTORS];
            for (int v = 0; v < vectors; v++)
                row[v] = load_values(type, value, scales, dim + 16 * (uint32_t)v, part);
            for (int i = 0; i < queries; i++) {
                f32x16 weight = lanes_set(p[(size_t)i * tile->p_stride + t]);
                for (int v = 0; v < vectors; v++)
                    acc[i][v] = lanes_fma(weight, row[v], acc[i][v]);
            }
        }
    }
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++) {
            float *y = tile->y[from + i] + dim + 16 * v;
            part != 0 ? lanes_store_part(y, acc[i][v], part) : lanes_store(y, acc[i][v]);
        }
}

/* add_values over all dimensions. */
LANES_INLINE void add_all_values(const query_tile *tile, const lh_kv_type type, int from,
                                 lh_span keys, const int queries) {
    uint32_t dims = tile->view->shape.value_dim, dim = 0;
    for (; dim + 16 * LANES_VALUE_VECTORS <= dims; dim += 16 * LANES_VALUE_VECTORS)
        add_values(tile, type, from, keys, dim, queries, LANES_VALUE_VECTORS, 0);
    for (; dim + 16 <= dims; dim += 16)
        add_values(tile, type, from, keys, dim, queries, 1, 0);
    if (dim < dims)
        add_values(tile, type, from, keys, dim, queries, 1, dims - dim);
}

/* What query i sees of [begin, end) before or behind the common keys. */
LANES_INLINE void add_own_values(const query_tile *tile, const lh_kv_type type, int i,
                                 uint32_t begin, uint32_t end) {
    const lh_span keys = {begin, end < tile->keys[i].end ? end : tile->keys[i].end};
    if (keys.begin < keys.end)
        add_all_values(tile, type, i, keys, 1);
}

/* Scores p become their exponentials; returns 1 / z. */
static float softmax(float *p, size_t count, const float *sink) {
    float greatest = kernel_max(p, count);
    if (sink && *sink > greatest)
        greatest = *sink;
    float sum = kernel_exp_sum(p, p, greatest, count);
    return 1.0f / (sink ? sum + lh_exp_f32(*sink - greatest) : sum);
}

LANES_INLINE void attend(const query_tile *tile, const lh_kv_type type, const int queries) {
    float inverse[LANES_QUERIES];
    uint32_t dims = tile->view->shape.value_dim;
    score_tile(tile, type, queries);
    for (int i = 0; i < queries; i++) {
        float *p = tile->p + (size_t)i * tile->p_stride + tile->keys[i].begin;
        size_t keys = tile->keys[i].end - tile->keys[i].begin;
        inverse[i] = softmax(p, keys, tile->sinks[i]);
        for (uint32_t d = 0; d < dims; d++)
            tile->y[i][d] = 0;
    }
    lh_span common = {tile->keys[queries - 1].begin, tile->keys[0].end};
    if (common.begin > common.end) /* a window shorter than the tile's rows */
        common.begin = common.end = tile->keys[queries - 1].end;
    for (int i = 0; i < queries; i++)
        add_own_values(tile, type, i, tile->keys[i].begin, common.begin);
    add_all_values(tile, type, 0, common, queries);
    for (int i = 0; i < queries; i++) {
        add_own_values(tile, type, i, common.end, tile->keys[i].end);
        kernel_scale_rows(tile->y[i], 0, 1, (lh_span){0, dims}, &inverse[i]);
    }
}

#define ATTEND(queries)                                                                            \
    case queries:                                                                                  \
        attend(tile, type, queries);                                                               \
        break;

LANES_INLINE void attend_tile(const query_tile *tile, const lh_kv_type type, uint32_t queries) {
    switch (queries) {
        ATTEND(1)
        ATTEND(2)
        ATTEND(3)
        ATTEND(4)
#if LANES_QUERIES > 4
        ATTEND(5)
        ATTEND(6)
        ATTEND(7)
        ATTEND(8)
#endif
    default:
        assert(0);
    }
}

static void attend_tile_f32(const query_tile *tile, uint32_t queries) {
    attend_tile(tile, LH_KV_F32, queries);
}

static void attend_tile_f16(const query_tile *tile, uint32_t queries) {
    attend_tile(tile, LH_KV_F16, queries);
}

static void attend_tile_q8(const query_tile *tile, uint32_t queries) {
    attend_tile(tile, LH_KV_Q8, queries);
}

static void kernel_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                             const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                             uint32_t first, uint32_t rows, uint32_t window, float scale,
                             const float *sinks, void *scratch) {
    static void (*const of_type[])(const query_tile *tile, uint32_t queries) = {
        [LH_KV_F32] = attend_tile_f32, [LH_KV_F16] = attend_tile_f16, [LH_KV_Q8] = attend_tile_q8};
    assert(kv_head < view->shape.kv_heads && window > 0);
    uint32_t queries = rows * group;
    query_tile tile = {.view = view,
                       .kv_head = kv_head,
                       .p = scratch,
                       .scale = scale,
                       .count = (queries + LANES_QUERIES - 1) / LANES_QUERIES};
    for (uint32_t done = 0; done < queries; tile.number++) {
        uint32_t count = queries - done < LANES_QUERIES ? queries - done : LANES_QUERIES;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = (done + i) / group, head = kv_head * group + (done + i) % group;
            tile.q[i] = q + row * q_stride + (size_t)head * view->shape.key_dim;
            tile.y[i] = y + row * y_stride + (size_t)head * view->shape.value_dim;
            tile.keys[i] = lh_attention_keys(first + row, window);
            tile.sinks[i] = sinks ? &sinks[(done + i) % group] : NULL;
        }
        tile.p_stride = lh_attention_score_stride(tile.keys[count - 1].end);
        of_type[view->shape.type](&tile, count);
        done += count;
    }
}
