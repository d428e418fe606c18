/* What blocks of keys give up to 8 queries, joined on 16 lanes; an f32x16.h is included before this
 * file. kernels/reference/attention_sum.c says in scalars what is done: here a lane is a query for
 * the maxima and the sums of weights, and a dimension for the sums of values. */
#pragma once

#include "kernels/layout.h"
#include "kernels/simd/elementwise.h"

#include <float.h>

/* The maximum of no scores: joining it changes nothing, and it changes nothing that is joined. */
#define NO_SCORE (-FLT_MAX)

typedef struct block_sums {
    float m[LH_LANES], z[LH_LANES]; /* of each query; NO_SCORE and 0 where it sees no key */
    float *o[LANES_QUERIES];        /* [value_dim in whole vectors] */
} block_sums;

static void block_sums_init(block_sums *sums) {
    lanes_store(sums->m, lanes_set(NO_SCORE));
    lanes_store(sums->z, lanes_set(0));
    for (uint32_t i = 0; i < LANES_QUERIES; i++)
        sums->o[i] = NULL;
}

/* Around the positions that a query sees, up to whole vectors: such a score weighs 0, so that a
 * lane's number is that of its position. */
LANES_INLINE void hide_scores(float *p, lh_span keys, lh_span vectors) {
    const f32x16 hidden = lanes_set(-INFINITY);
    for (uint32_t t = vectors.begin; t < keys.begin; t += LH_LANES) {
        float *at = p + t % LH_ATTENTION_BLOCK;
        uint32_t count = keys.begin - t < LH_LANES ? keys.begin - t : LH_LANES;
        lanes_store(at, lanes_select(hidden, count, lanes_load(at)));
    }
    for (uint32_t t = keys.end / LH_LANES * LH_LANES; t < vectors.end; t += LH_LANES) {
        float *at = p + t % LH_ATTENTION_BLOCK;
        lanes_store(at, lanes_select(lanes_load(at), t < keys.end ? keys.end - t : 0, hidden));
    }
}

/* Scores become their exponentials, those of all queries side by side, since each one's maximum and
 * sum are chains. keys: positions of one block that each of them sees, both bounds ascending;
 * p[queries][LH_ATTENTION_BLOCK]. */
LANES_INLINE void weigh_scores(block_sums *sums, float *p, const lh_span *keys, const int queries) {
    const lh_span vectors = {keys[0].begin / LH_LANES * LH_LANES,
                             (keys[queries - 1].end + LH_LANES - 1) / LH_LANES * LH_LANES};
    const uint32_t count = vectors.end - vectors.begin;
    f32x16 greatest[LANES_QUERIES], sum[LANES_QUERIES], m[LANES_QUERIES];
    for (int i = 0; i < queries; i++) {
        hide_scores(p + i * (int)LH_ATTENTION_BLOCK, keys[i], vectors);
        greatest[i] = lanes_set(keys[i].begin < keys[i].end ? -INFINITY : NO_SCORE);
        sum[i] = lanes_set(0);
    }
    p += vectors.begin % LH_ATTENTION_BLOCK;
    for (uint32_t t = 0; t < count; t += LH_LANES)
        for (int i = 0; i < queries; i++)
            greatest[i] = lanes_max(greatest[i], lanes_load(p + i * (int)LH_ATTENTION_BLOCK + t));
    for (int i = 0; i < queries; i++) {
        sums->m[i] = lanes_greatest(greatest[i]) + 0.0f; /* -0 becomes +0 */
        m[i] = lanes_set(sums->m[i]);
    }
    for (uint32_t t = 0; t < count; t += LH_LANES)
        for (int i = 0; i < queries; i++) {
            float *scores = p + i * (int)LH_ATTENTION_BLOCK + t;
            f32x16 e = lanes_exp(lanes_sub(lanes_load(scores), m[i]));
            lanes_store(scores, e);
            sum[i] = lanes_add(sum[i], e);
        }
    for (int i = 0; i < queries; i++)
        sums->z[i] = lanes_sum(sum[i]);
}

/* By what the sums of values before and those of the block are multiplied. */
typedef struct joint_factors {
    float before[LH_LANES], next[LH_LANES];
} joint_factors;

static joint_factors join_weights(block_sums *sums, const float *m, f32x16 z) {
    joint_factors factors;
    f32x16 before = lanes_load(sums->m), next = lanes_load(m);
    f32x16 greatest = lanes_max(before, next);
    f32x16 a = lanes_exp(lanes_sub(before, greatest)), c = lanes_exp(lanes_sub(next, greatest));
    lanes_store(sums->m, greatest);
    lanes_store(sums->z, lanes_fma(lanes_load(sums->z), a, lanes_mul(z, c)));
    lanes_store(factors.before, a);
    lanes_store(factors.next, c);
    return factors;
}

/* Joins a later block. Where its sums of values are the place of the whole sums it is the first one
 * of that query. */
static void join_block(block_sums *sums, const block_sums *next, uint32_t queries, uint32_t dims) {
    const joint_factors factors = join_weights(sums, next->m, lanes_load(next->z));
    for (uint32_t i = 0; i < queries; i++) {
        f32x16 a = lanes_set(factors.before[i]), c = lanes_set(factors.next[i]);
        float *o = sums->o[i];
        if (next->o[i] == o || next->m[i] == NO_SCORE)
            continue;
        for (uint32_t d = 0; d < dims; d += LH_LANES)
            lanes_store(o + d,
                        lanes_fma(lanes_load(o + d), a, lanes_mul(lanes_load(next->o[i] + d), c)));
    }
}

static void join_sinks(block_sums *sums, const float *const *sinks, uint32_t queries,
                       uint32_t dims) {
    float m[LH_LANES] = {0};
    for (uint32_t i = 0; i < queries; i++)
        m[i] = *sinks[i];
    const joint_factors factors = join_weights(sums, m, lanes_set(1));
    for (uint32_t i = 0; i < queries; i++)
        kernel_scale_rows(sums->o[i], 0, 1, (lh_span){0, dims}, &factors.before[i]);
}

/* y[dims] of each query when all blocks are joined; sinks[0] NULL: none. */
static void finish_sums(block_sums *sums, float *const *y, const float *const *sinks,
                        uint32_t queries, uint32_t dims) {
    if (sinks[0])
        join_sinks(sums, sinks, queries, dims);
    float inverse[LH_LANES];
    lanes_store(inverse, lanes_div(lanes_set(1.0f), lanes_load(sums->z)));
    for (uint32_t i = 0; i < queries; i++) {
        f32x16 factor = lanes_set(inverse[i]);
        for (uint32_t d = 0; d < dims; d += LH_LANES) {
            f32x16 v = lanes_mul(lanes_load(sums->o[i] + d), factor);
            uint32_t left = dims - d;
            left < LH_LANES ? lanes_store_part(y[i] + d, v, left) : lanes_store(y[i] + d, v);
        }
    }
}

/* Where partials of `queries` heads have their sums. */
static void place_partials(block_sums *sums, float *partials, uint32_t queries,
                           uint32_t value_dim) {
    for (uint32_t i = 0; i < queries; i++)
        sums->o[i] = partials + i * lh_attention_partial_floats(value_dim);
}

static void load_partials(block_sums *sums, float *partials, uint32_t queries, uint32_t value_dim) {
    const size_t m = lh_attention_partial_m(value_dim);
    place_partials(sums, partials, queries, value_dim);
    for (uint32_t i = 0; i < queries; i++) {
        sums->m[i] = sums->o[i][m];
        sums->z[i] = sums->o[i][m + 1];
    }
}

static void kernel_attention_combine(float *y, float *partials, size_t stride, uint32_t count,
                                     uint32_t heads, uint32_t value_dim, const float *sinks) {
    const size_t floats = lh_attention_partial_floats(value_dim);
    for (uint32_t done = 0; done < heads;
         done += LANES_QUERIES, partials += LANES_QUERIES * floats) {
        const uint32_t queries = heads - done < LANES_QUERIES ? heads - done : LANES_QUERIES;
        block_sums sums, next;
        float *results[LANES_QUERIES];
        const float *their_sinks[LANES_QUERIES];
        block_sums_init(&sums);
        block_sums_init(&next);
        load_partials(&sums, partials, queries, value_dim);
        for (uint32_t block = 1; block < count; block++) {
            load_partials(&next, partials + block * stride, queries, value_dim);
            join_block(&sums, &next, queries, value_dim);
        }
        for (uint32_t i = 0; i < queries; i++) {
            results[i] = y + (size_t)(done + i) * value_dim;
            their_sinks[i] = sinks ? &sinks[done + i] : NULL;
        }
        finish_sums(&sums, results, their_sinks, queries, value_dim);
    }
}
