/* Causal attention on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/attention.c says in scalars what is done.
 *
 * The queries of all rows and of the heads that share one KV head are taken LANES_QUERIES at a
 * time, rows slowest. Such a tile reads each key and value once, block by block:
 *   scores   16 keys are one vector (they lie interleaved); one accumulator for each query
 *   weights  each query over its own keys only
 *   values   lanes are dimensions; keys in ascending order: what only the earlier rows see (a
 *            window moves on), what all see, what only the later rows see
 * and joins what a block gave to the blocks before (block_sums.h). A masked key takes no part at
 * all: not even 0 is added for it. The type of the pages' numbers is a constant wherever it is
 * passed on: each has a tile of its own. */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/block_sums.h"
#include "kernels/simd/kv_rows.h"

#include <assert.h>

_Static_assert(LANES_QUERIES <= LH_ATTENTION_QUERIES, "scratch holds the scores of a tile");

/* What depends on the number of a tile's queries is compiled for each. */
#if LANES_QUERIES > 4
#define FOR_EACH_TILE(of) of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8)
#else
#define FOR_EACH_TILE(of) of(1) of(2) of(3) of(4)
#endif

typedef struct query_tile {
    const lh_kv_view *view;
    uint32_t kv_head;
    const float *q[LANES_QUERIES]; /* [key_dim] */
    lh_span keys[LANES_QUERIES];   /* positions that are seen; both bounds ascend */
    float *p;                      /* [queries][LH_ATTENTION_BLOCK]: scores, then exponentials */
    float scale;
    uint32_t number, count; /* among the tiles that read the same keys */
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

/* Scores of `queries` queries for `vectors` times 16 keys from position t on, in one page. */
LANES_INLINE void score_keys(const query_tile *tile, const lh_kv_type type, uint32_t t,
                             uint32_t then, const int queries, const int vectors) {
    const lh_kv_view view = view_of(tile, type);
    const uint32_t dims = view.shape.key_dim, line = LH_LANES * lh_kv_number_bytes(type);
    const uint8_t *keys = lh_kv_keys(&view, tile->kv_head, t);
    const asked next = asked_for(tile, &view, t, then, (uint32_t)vectors * LH_LANES);
    const size_t vector_bytes = LH_LANES * lh_kv_row_bytes(type, dims);
    f32x16 acc[LANES_QUERIES][2];
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++)
            acc[i][v] = lanes_set(0);
    for (uint32_t d = 0; d < dims; d++) {
        f32x16 key[2];
        /* once for each line of the cache */
        for (int v = 0; v < vectors && d * line % CACHE_LINE_BYTES == 0; v++) {
            __builtin_prefetch(next.keys + (size_t)v * vector_bytes + (size_t)d * line, 0, 2);
            __builtin_prefetch(next.values + (size_t)v * vector_bytes + (size_t)d * line, 0, 2);
        }
        for (int v = 0; v < vectors; v++)
            key[v] = load_keys(type, keys + (size_t)v * vector_bytes, dims, d);
        for (int i = 0; i < queries; i++) {
            f32x16 query = lanes_set(tile->q[i][d]);
            for (int v = 0; v < vectors; v++)
                acc[i][v] = lanes_fma(query, key[v], acc[i][v]);
        }
    }
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++)
            lanes_store(tile->p + (size_t)i * LH_ATTENTION_BLOCK + t % LH_ATTENTION_BLOCK +
                            (size_t)v * LH_LANES,
                        lanes_mul(lanes_set(tile->scale), acc[i][v]));
}

/* Few queries take two vectors of keys at a time, so that there are chains enough to hide an
 * addition's latency. keys: of one block. */
LANES_INLINE void score_tile(const query_tile *tile, const lh_kv_type type, lh_span keys,
                             const int queries) {
    const int vectors = queries <= LANES_QUERIES / 2 ? 2 : 1;
    const uint32_t step = (uint32_t)vectors * LH_LANES, end = tile->keys[queries - 1].end;
    for (uint32_t t = keys.begin / step * step; t < keys.end; t += step)
        score_keys(tile, type, t, t + step < end ? t + step : t, queries, vectors);
}

/* Adds p[t] * v[t][d] for t in keys, of one block, to o[from][d], o[from + 1][d], ... of the
 * queries from, from + 1, ...; d in [dim, dim + 16 * vectors) or, where `part` is not 0,
 * [dim, dim + part). */
LANES_INLINE void add_values(const query_tile *tile, const lh_kv_type type, float *const *o,
                             int from, lh_span keys, uint32_t dim, const int queries,
                             const int vectors, uint32_t part) {
    f32x16 acc[LANES_QUERIES][LANES_VALUE_VECTORS];
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++)
            acc[i][v] = lanes_load(o[from + i] + dim + 16 * v);
    const float *p = tile->p + (size_t)from * LH_ATTENTION_BLOCK;
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
                f32x16 weight =
                    lanes_set(p[(size_t)i * LH_ATTENTION_BLOCK + t % LH_ATTENTION_BLOCK]);
                for (int v = 0; v < vectors; v++)
                    acc[i][v] = lanes_fma(weight, row[v], acc[i][v]);
            }
        }
    }
    for (int i = 0; i < queries; i++)
        for (int v = 0; v < vectors; v++)
            lanes_store(o[from + i] + dim + 16 * v, acc[i][v]);
}

/* add_values over all whole vectors of dimensions; how many those are. */
LANES_INLINE uint32_t add_whole_vectors(const query_tile *tile, const lh_kv_type type,
                                        float *const *o, int from, lh_span keys,
                                        const int queries) {
    uint32_t dims = tile->view->shape.value_dim, dim = 0;
    for (; dim + 16 * LANES_VALUE_VECTORS <= dims; dim += 16 * LANES_VALUE_VECTORS)
        add_values(tile, type, o, from, keys, dim, queries, LANES_VALUE_VECTORS, 0);
    for (; LANES_VALUE_VECTORS > 1 && dim + 16 <= dims; dim += 16)
        add_values(tile, type, o, from, keys, dim, queries, 1, 0);
    return dim;
}

LANES_INLINE void add_values_of_one(const query_tile *tile, const lh_kv_type type, float *const *o,
                                    int i, lh_span keys, uint32_t dim) {
    uint32_t dims = tile->view->shape.value_dim;
    if (dim == 0)
        dim = add_whole_vectors(tile, type, o, i, keys, 1);
    if (dim < dims)
        add_values(tile, type, o, i, keys, dim, 1, 1, dims - dim);
}

/* What query i has of `keys`, from dimension `dim` on: 0, or where its whole vectors end. Not
 * inlined, since it is the same for tiles of any number of queries: they would compile three times
 * as long. */
static __attribute__((noinline)) void add_own_values(const query_tile *tile, float *const *o, int i,
                                                     lh_span keys, uint32_t dim) {
    switch (tile->view->shape.type) {
    case LH_KV_F32:
        add_values_of_one(tile, LH_KV_F32, o, i, keys, dim);
        break;
    case LH_KV_F16:
        add_values_of_one(tile, LH_KV_F16, o, i, keys, dim);
        break;
    case LH_KV_Q8:
        add_values_of_one(tile, LH_KV_Q8, o, i, keys, dim);
        break;
    default:
        assert(0);
    }
}

/* What query i, which sees `keys` of the block, has of `some` of them before or behind the common
 * ones. */
LANES_INLINE void add_some_values(const query_tile *tile, float *const *o, int i, lh_span keys,
                                  lh_span some) {
    if (some.end > keys.end)
        some.end = keys.end;
    if (some.begin < some.end)
        add_own_values(tile, o, i, some, 0);
}

/* What all queries have of the common ones. */
LANES_INLINE void add_common_values(const query_tile *tile, const lh_kv_type type, float *const *o,
                                    lh_span keys, const int queries) {
    uint32_t dim = add_whole_vectors(tile, type, o, 0, keys, queries);
    for (int i = 0; i < queries && dim < tile->view->shape.value_dim; i++)
        add_own_values(tile, o, i, keys, dim);
}

#define WEIGH(queries)                                                                             \
    case queries:                                                                                  \
        weigh_scores(sums, tile->p, keys, queries);                                                \
        break;

/* Not inlined, since it is the same for all types. */
static __attribute__((noinline)) void weigh_tile(const query_tile *tile, block_sums *sums,
                                                 const lh_span *keys, const int queries) {
    switch (queries) {
        FOR_EACH_TILE(WEIGH)
    default:
        assert(0);
    }
}

LANES_INLINE void attend_block(const query_tile *tile, const lh_kv_type type, uint32_t block,
                               block_sums *sums, const int queries) {
    const uint32_t dims = tile->view->shape.value_dim;
    lh_span keys[LANES_QUERIES];
    for (int i = 0; i < queries; i++)
        keys[i] = lh_attention_keys_in(tile->keys[i], block);
    score_tile(tile, type, (lh_span){keys[0].begin, keys[queries - 1].end}, queries);
    weigh_tile(tile, sums, keys, queries);
    for (int i = 0; i < queries; i++)
        for (uint32_t d = 0; d < dims; d += LH_LANES)
            lanes_store(sums->o[i] + d, lanes_set(0));
    lh_span common = {keys[queries - 1].begin, keys[0].end};
    if (common.begin > common.end) /* a window shorter than the tile's rows */
        common.begin = common.end = keys[queries - 1].end;
    for (int i = 0; i < queries; i++)
        add_some_values(tile, sums->o, i, keys[i], (lh_span){keys[i].begin, common.begin});
    add_common_values(tile, type, sums->o, common, queries);
    for (int i = 0; i < queries; i++)
        add_some_values(tile, sums->o, i, keys[i], (lh_span){common.end, keys[i].end});
}

#define ATTEND(queries)                                                                            \
    case queries:                                                                                  \
        attend_block(tile, type, block, sums, queries);                                            \
        break;

LANES_INLINE void attend_tile(const query_tile *tile, const lh_kv_type type, uint32_t block,
                              block_sums *sums, uint32_t queries) {
    switch (queries) {
        FOR_EACH_TILE(ATTEND)
    default:
        assert(0);
    }
}

static void attend_tile_f32(const query_tile *tile, uint32_t block, block_sums *sums,
                            uint32_t queries) {
    attend_tile(tile, LH_KV_F32, block, sums, queries);
}

static void attend_tile_f16(const query_tile *tile, uint32_t block, block_sums *sums,
                            uint32_t queries) {
    attend_tile(tile, LH_KV_F16, block, sums, queries);
}

static void attend_tile_q8(const query_tile *tile, uint32_t block, block_sums *sums,
                           uint32_t queries) {
    attend_tile(tile, LH_KV_Q8, block, sums, queries);
}

/* What a block gives the queries of a tile. */
static void (*const attend_tile_of[])(const query_tile *tile, uint32_t block, block_sums *sums,
                                      uint32_t queries) = {
    [LH_KV_F32] = attend_tile_f32, [LH_KV_F16] = attend_tile_f16, [LH_KV_Q8] = attend_tile_q8};

/* `sums` of all blocks that a tile sees; `next` is for one of them. A query that sees nothing of
 * the tile's first block has its own first one later. */
static void attend_blocks(const query_tile *tile, block_sums *sums, block_sums *next,
                          uint32_t queries) {
    const lh_kv_shape *shape = &tile->view->shape;
    const uint32_t first = tile->keys[0].begin / LH_ATTENTION_BLOCK,
                   last = (tile->keys[queries - 1].end - 1) / LH_ATTENTION_BLOCK;
    attend_tile_of[shape->type](tile, first, sums, queries);
    for (uint32_t block = first + 1; block <= last; block++) {
        block_sums its = *next;
        for (uint32_t i = 0; i < queries; i++)
            if (tile->keys[i].begin / LH_ATTENTION_BLOCK == block)
                its.o[i] = sums->o[i];
        attend_tile_of[shape->type](tile, block, &its, queries);
        join_block(sums, &its, queries, shape->value_dim);
    }
}

static void kernel_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                             const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                             uint32_t first, uint32_t rows, uint32_t window, float scale,
                             const float *sinks, void *scratch) {
    assert(kv_head < view->shape.kv_heads && window > 0);
    const uint32_t queries = rows * group, dims = view->shape.value_dim;
    const size_t floats = lh_attention_partial_floats(dims);
    float *p = scratch, *o = p + (size_t)LANES_QUERIES * LH_ATTENTION_BLOCK;
    query_tile tile = {.view = view,
                       .kv_head = kv_head,
                       .p = p,
                       .scale = scale,
                       .count = (queries + LANES_QUERIES - 1) / LANES_QUERIES};
    for (uint32_t done = 0; done < queries; tile.number++) {
        uint32_t count = queries - done < LANES_QUERIES ? queries - done : LANES_QUERIES;
        float *results[LANES_QUERIES];
        const float *their_sinks[LANES_QUERIES];
        block_sums sums, next;
        block_sums_init(&sums);
        block_sums_init(&next);
        place_partials(&sums, o, count, dims);
        place_partials(&next, o + LANES_QUERIES * floats, count, dims);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = (done + i) / group, head = (done + i) % group;
            tile.q[i] = q + row * q_stride + (size_t)head * view->shape.key_dim;
            tile.keys[i] = lh_attention_keys(first + row, window);
            results[i] = y + row * y_stride + (size_t)head * dims;
            their_sinks[i] = sinks ? &sinks[head] : NULL;
        }
        attend_blocks(&tile, &sums, &next, count);
        finish_sums(&sums, results, their_sinks, count, dims);
        done += count;
    }
}

static void kernel_attention_blocks(float *partials, size_t stride, const float *q,
                                    const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                                    uint32_t position, uint32_t window, float scale, lh_span blocks,
                                    void *scratch) {
    const lh_kv_shape *shape = &view->shape;
    const size_t floats = lh_attention_partial_floats(shape->value_dim),
                 m = lh_attention_partial_m(shape->value_dim);
    query_tile tile = {.view = view,
                       .kv_head = kv_head,
                       .p = scratch,
                       .scale = scale,
                       .count = (group + LANES_QUERIES - 1) / LANES_QUERIES};
    for (; tile.number < tile.count; tile.number++) {
        uint32_t done = tile.number * LANES_QUERIES,
                 count = group - done < LANES_QUERIES ? group - done : LANES_QUERIES;
        for (uint32_t i = 0; i < count; i++) {
            tile.q[i] = q + (size_t)(done + i) * shape->key_dim;
            tile.keys[i] = lh_attention_keys(position, window);
        }
        for (uint32_t block = blocks.begin; block < blocks.end; block++) {
            block_sums sums;
            place_partials(&sums, partials + (block - blocks.begin) * stride + done * floats, count,
                           shape->value_dim);
            attend_tile_of[shape->type](&tile, block, &sums, count);
            for (uint32_t i = 0; i < count; i++) {
                sums.o[i][m] = sums.m[i];
                sums.o[i][m + 1] = sums.z[i];
            }
        }
    }
}
