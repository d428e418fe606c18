/* Attention of queries that share keys and values: the rows of a prompt, or the heads of latent
 * attention.
 *
 * A tile is 32 queries of one KV head: (row, head) pairs, the heads of a row side by side. A block
 * of threads goes through the blocks of keys that they see, in order. Both products are chains in
 * float, so they are laid over the threads as a product of matrices is: keys, and then values, come
 * to shared memory in chunks, and a warp has 8 queries,
 *
 *     scores   8 queries x 256 keys, 8 x 8 a lane; a chunk is 8 numbers of all keys
 *     p, m, z  by the warp alone
 *     o        8 queries x 128 numbers of a value (the next 128 afterwards), 8 x 4 a lane; a chunk
 *              is 16 keys
 *
 * with the next chunk on its way to registers. Blocks are combined at once, in y; or, where there
 * are few tiles and long contexts, each block is another block of threads', and what it computes a
 * partial. The rows of a tile may be of several sequences: those of one are a segment, and segments
 * take turns. */
#pragma once

#include "kernels/cuda/attention.cuh"

const uint32_t LH_TILE_THREADS = 128, LH_TILE_QUERIES = 32, LH_WARP_QUERIES = 8;
const uint32_t LH_CHUNK_NUMBERS = 2048, LH_CHUNK_DIMS = LH_CHUNK_NUMBERS / LH_ATTENTION_BLOCK;
const uint32_t LH_SLICE = 128, LH_CHUNK_KEYS = LH_CHUNK_NUMBERS / LH_SLICE;

struct lh_tile_state {
    alignas(16) float numbers[LH_CHUNK_NUMBERS]; /* keys [8][256] or values [16][128] */
    float q[LH_CHUNK_DIMS][LH_TILE_QUERIES];
    /* 16 more: half warps, which sum two queries, in different banks */
    float p[LH_TILE_QUERIES][LH_ATTENTION_BLOCK + 16];
    /* of each query, of its warp only */
    lh_span keys[LH_TILE_QUERIES];  /* that it sees; none: it is not of the segment */
    float2 blocks[LH_TILE_QUERIES]; /* m and z of the block */
    float2 sums[LH_TILE_QUERIES];   /* of all so far */
    lh_fold folds[LH_TILE_QUERIES];
};

/* Rows [first, end) of a tile, of one sequence. */
struct lh_tile_segment {
    lh_cuda_attention_row row; /* the first */
    uint32_t tile, kv_head, first, end;
    lh_span keys;   /* that some of its queries see */
    lh_span of_all; /* that all queries of this warp see which are of the segment */
};

/* Heads of a row as tiles count them: where blocks are partials, a row has tiles of its own. */
__host__ __device__ inline uint32_t lh_tile_heads(const lh_attention_arguments &a) {
    return a.partials.blocks == 0
               ? a.group
               : (a.group + LH_TILE_QUERIES - 1) / LH_TILE_QUERIES * LH_TILE_QUERIES;
}

__device__ inline uint32_t lh_query_row(const lh_attention_arguments &a, uint32_t tile,
                                        uint32_t query) {
    return (tile * LH_TILE_QUERIES + query) / lh_tile_heads(a);
}

/* Of all query heads; those beyond the group are none. */
__device__ inline uint32_t lh_query_head(const lh_attention_arguments &a, uint32_t tile,
                                         uint32_t query) {
    return (tile * LH_TILE_QUERIES + query) % lh_tile_heads(a);
}

__device__ inline bool lh_is_of_segment(const lh_attention_arguments &a, const lh_tile_segment &s,
                                        uint32_t query) {
    const uint32_t row = lh_query_row(a, s.tile, query);
    return row >= s.first && row < s.end && lh_query_head(a, s.tile, query) < a.group;
}

/* ---- Scores ---- */

/* What a thread brings of the next chunk: 8 numbers of two keys, and of queries two. */
template <lh_kv_type TYPE> struct lh_key_chunk {
    typename lh_kv_number<TYPE>::stored numbers[2][LH_CHUNK_DIMS];
    float scales[2], q[2];
};

/* Its keys, of which only those may be read that some query sees, and its queries. */
template <lh_kv_type TYPE> struct lh_key_source {
    lh_kv_row<TYPE> keys[2];
    const float *q[2];
};

template <lh_kv_type TYPE, bool LATENT>
__device__ lh_key_source<TYPE> lh_key_source_of(const lh_attention_arguments &a,
                                                const lh_tile_segment &s, uint32_t begin) {
    lh_key_source<TYPE> source = {};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t t = begin + i * LH_TILE_THREADS + threadIdx.x;
        if (t >= s.keys.begin && t < s.keys.end)
            source.keys[i] = LATENT ? lh_value_at<TYPE>(a, s.row, s.kv_head, t)
                                    : lh_key_at<TYPE>(a, s.row, s.kv_head, t);
        const uint32_t query = i * (LH_TILE_QUERIES / 2) + threadIdx.x / LH_CHUNK_DIMS;
        if (lh_is_of_segment(a, s, query))
            source.q[i] =
                a.q + lh_query_row(a, s.tile, query) * a.q_stride +
                ((size_t)s.kv_head * a.group + lh_query_head(a, s.tile, query)) * a.key_dim;
    }
    return source;
}

template <lh_kv_type TYPE, bool LATENT>
__device__ lh_key_chunk<TYPE> lh_fetch_keys(const lh_attention_arguments &a,
                                            const lh_key_source<TYPE> &source, uint32_t d) {
    const uint32_t step = LATENT ? 1 : LH_LANES, mine = d + threadIdx.x % LH_CHUNK_DIMS;
    lh_key_chunk<TYPE> chunk = {};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        if (source.keys[i].numbers) {
            const typename lh_kv_number<TYPE>::stored *numbers =
                source.keys[i].numbers + (size_t)d * step;
#pragma unroll
            for (uint32_t k = 0; k < LH_CHUNK_DIMS; k++)
                if (d + k < a.key_dim)
                    chunk.numbers[i][k] = numbers[k * step];
            if (TYPE == LH_KV_Q8)
                chunk.scales[i] = source.keys[i].scales[d / LH_BLOCK * step];
        }
        if (source.q[i] && mine < a.key_dim)
            chunk.q[i] = source.q[i][mine];
    }
    return chunk;
}

template <lh_kv_type TYPE>
__device__ void lh_store_keys(lh_tile_state &state, const lh_key_chunk<TYPE> &chunk) {
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
#pragma unroll
        for (uint32_t k = 0; k < LH_CHUNK_DIMS; k++)
            state.numbers[k * LH_ATTENTION_BLOCK + i * LH_TILE_THREADS + threadIdx.x] =
                lh_kv_number<TYPE>::widen(chunk.numbers[i][k], chunk.scales[i]);
        state.q[threadIdx.x % LH_CHUNK_DIMS]
               [i * (LH_TILE_QUERIES / 2) + threadIdx.x / LH_CHUNK_DIMS] = chunk.q[i];
    }
}

__device__ inline void lh_load_four(float *to, const float *from) {
    const float4 four = *(const float4 *)from;
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

/* The key of element j of a lane's 8, from the block's first one on. */
__device__ inline uint32_t lh_lane_key(uint32_t j) {
    return j / 4 * LH_TILE_THREADS + threadIdx.x % 32 * 4 + j % 4;
}

__device__ inline void lh_multiply_chunk(float dots[LH_WARP_QUERIES][8],
                                         const lh_tile_state &state) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES;
#pragma unroll
    for (uint32_t d = 0; d < LH_CHUNK_DIMS; d++) {
        float q[LH_WARP_QUERIES], k[8];
        lh_load_four(q, &state.q[d][first]);
        lh_load_four(q + 4, &state.q[d][first + 4]);
        lh_load_four(k, &state.numbers[d * LH_ATTENTION_BLOCK + lh_lane_key(0)]);
        lh_load_four(k + 4, &state.numbers[d * LH_ATTENTION_BLOCK + lh_lane_key(4)]);
#pragma unroll
        for (uint32_t i = 0; i < LH_WARP_QUERIES; i++)
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                dots[i][j] = lh_fma(q[i], k[j], dots[i][j]);
    }
}

/* Dot products of the warp's queries with the lane's keys of the block from `begin` on. */
template <lh_kv_type TYPE, bool LATENT>
__device__ void lh_multiply_keys(float dots[LH_WARP_QUERIES][8], lh_tile_state &state,
                                 const lh_attention_arguments &a, const lh_tile_segment &s,
                                 uint32_t begin) {
    const lh_key_source<TYPE> source = lh_key_source_of<TYPE, LATENT>(a, s, begin);
    lh_key_chunk<TYPE> next = lh_fetch_keys<TYPE, LATENT>(a, source, 0);
    for (uint32_t d = 0; d < a.key_dim; d += LH_CHUNK_DIMS) {
        lh_store_keys<TYPE>(state, next);
        __syncthreads();
        if (d + LH_CHUNK_DIMS < a.key_dim)
            next = lh_fetch_keys<TYPE, LATENT>(a, source, d + LH_CHUNK_DIMS);
        lh_multiply_chunk(dots, state);
        __syncthreads();
    }
}

/* ---- p, m and z ---- */

/* Query i of the warp: scores become p, and m is found. */
__device__ inline void lh_soften_query(lh_tile_state &state, const float dots[8], uint32_t query,
                                       uint32_t begin, float scale) {
    const lh_span keys = state.keys[query];
    float greatest = -INFINITY, p[8];
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        const uint32_t t = begin + lh_lane_key(j);
        p[j] = scale * dots[j];
        if (t >= keys.begin && t < keys.end)
            greatest = lh_greater(p[j], greatest);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        greatest = lh_greater(greatest, __shfl_xor_sync(~0u, greatest, lanes));
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        const uint32_t t = begin + lh_lane_key(j);
        p[j] = t >= keys.begin && t < keys.end ? lh_exp(p[j] - greatest) : 0.0f;
    }
#pragma unroll
    for (uint32_t j = 0; j < 8; j += 4) {
        const float4 four = {p[j], p[j + 1], p[j + 2], p[j + 3]};
        *(float4 *)&state.p[query][lh_lane_key(j)] = four;
    }
    if (threadIdx.x % 32 == 0)
        state.blocks[query].x = greatest;
}

/* z of the warp's queries, two at a time. */
__device__ inline void lh_sum_lanes(lh_tile_state &state) {
    const uint32_t lane = threadIdx.x % LH_LANES;
#pragma unroll
    for (uint32_t i = 0; i < LH_WARP_QUERIES; i += 2) {
        const uint32_t query = threadIdx.x / 32 * LH_WARP_QUERIES + i + threadIdx.x % 32 / LH_LANES;
        float z = 0;
#pragma unroll
        for (uint32_t t = 0; t < LH_ATTENTION_BLOCK; t += LH_LANES)
            z += state.p[query][t + lane];
        z = lh_lane_sum(z);
        if (lane == 0)
            state.blocks[query].y = z;
    }
}

/* Whether a query sees a key of the block, and whether it saw none before. */
__device__ inline bool lh_sees_block(lh_span keys, uint32_t begin) {
    return keys.begin < begin + LH_ATTENTION_BLOCK && keys.end > begin;
}
__device__ inline bool lh_begins_in(lh_span keys, uint32_t begin) {
    return keys.begin >= begin;
}

__device__ inline size_t lh_query_partial(const lh_attention_arguments &a, const lh_tile_segment &s,
                                          uint32_t query, uint32_t begin) {
    const uint32_t row = lh_query_row(a, s.tile, query),
                   head = s.kv_head * a.group + lh_query_head(a, s.tile, query);
    const lh_span keys = lh_visible(a.rows[row].position, a.window);
    return ((size_t)row * a.kv_heads * a.group + head) * a.partials.blocks +
           begin / LH_ATTENTION_BLOCK - keys.begin / LH_ATTENTION_BLOCK;
}

/* The block's m and z go to where sums are kept; a lane for each query of the warp. */
__device__ inline void lh_fold_sums(lh_tile_state &state, const lh_attention_arguments &a,
                                    const lh_tile_segment &s, uint32_t begin) {
    const uint32_t query = threadIdx.x / 32 * LH_WARP_QUERIES + threadIdx.x % LH_WARP_QUERIES;
    const lh_span keys = state.keys[query];
    if (threadIdx.x % 32 >= LH_WARP_QUERIES || !lh_sees_block(keys, begin))
        return;
    const float2 block = state.blocks[query], sums = state.sums[query];
    if (a.partials.blocks > 0) {
        a.partials.sums[lh_query_partial(a, s, query, begin)] = block;
    } else if (lh_begins_in(keys, begin)) {
        state.sums[query] = block;
    } else {
        const lh_fold fold = lh_fold_of(sums.x, block.x);
        state.folds[query] = fold;
        state.sums[query] =
            make_float2(lh_greater(sums.x, block.x), lh_folded(sums.y, block.y, fold));
    }
}

/* ---- Values ---- */

/* The 32 numbers of a warp share a scale for each key of Q8: half of the lanes have one each. */
template <lh_kv_type TYPE> struct lh_value_chunk {
    typename lh_kv_number<TYPE>::stored numbers[LH_CHUNK_KEYS];
    float scale;
};
static_assert(LH_CHUNK_KEYS <= 32 && LH_BLOCK == 32, "a warp has the scales of a chunk");

/* Number d of the 16 values from t on, which one page holds; those that no query sees stay 0. */
template <lh_kv_type TYPE>
__device__ lh_value_chunk<TYPE> lh_fetch_values(const lh_attention_arguments &a,
                                                const lh_tile_segment &s, uint32_t t, uint32_t d) {
    lh_value_chunk<TYPE> chunk = {};
    const lh_kv_row<TYPE> values = lh_value_at<TYPE>(a, s.row, s.kv_head, t);
    const uint32_t lane = threadIdx.x % LH_CHUNK_KEYS, block = d / LH_BLOCK;
    if (TYPE == LH_KV_Q8 && t + lane >= s.keys.begin && t + lane < s.keys.end &&
        block < a.value_blocks)
        chunk.scale = values.scales[lane * a.value_blocks + block];
#pragma unroll
    for (uint32_t k = 0; k < LH_CHUNK_KEYS; k++)
        if (t + k >= s.keys.begin && t + k < s.keys.end && d < a.value_dim)
            chunk.numbers[k] = values.numbers[(size_t)k * a.value_width + d];
    return chunk;
}

template <lh_kv_type TYPE>
__device__ void lh_store_values(lh_tile_state &state, const lh_value_chunk<TYPE> &chunk) {
#pragma unroll
    for (uint32_t k = 0; k < LH_CHUNK_KEYS; k++) {
        const float scale = TYPE == LH_KV_Q8 ? __shfl_sync(~0u, chunk.scale, (int)k) : 0.0f;
        state.numbers[k * LH_SLICE + threadIdx.x] =
            lh_kv_number<TYPE>::widen(chunk.numbers[k], scale);
    }
}

/* The lane's 4 numbers of the warp's 8 queries go on by the keys from t on, of which the block's
 * first is `begin`. MASKED: some of them are not for all queries. */
template <bool MASKED>
__device__ void lh_add_values(float sums[LH_WARP_QUERIES][4], const lh_tile_state &state,
                              uint32_t begin, uint32_t t) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES, lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t k = 0; k < LH_CHUNK_KEYS; k += 4) {
        float v[4][4];
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            lh_load_four(v[j], &state.numbers[(k + j) * LH_SLICE + lane * 4]);
#pragma unroll
        for (uint32_t i = 0; i < LH_WARP_QUERIES; i++) {
            float p[4];
            lh_load_four(p, &state.p[first + i][t - begin + k]);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                const lh_span keys = MASKED ? state.keys[first + i] : lh_span{0, 0};
                if (MASKED && (t + k + j < keys.begin || t + k + j >= keys.end))
                    continue;
#pragma unroll
                for (uint32_t d = 0; d < 4; d++)
                    sums[i][d] = lh_fma(p[j], v[j][d], sums[i][d]);
            }
        }
    }
}

/* The lane's numbers, from d on, of the query's o in the block go to where sums are kept. */
__device__ inline void lh_fold_values(const lh_tile_state &state, const lh_attention_arguments &a,
                                      const lh_tile_segment &s, uint32_t query, uint32_t begin,
                                      const float block[4], uint32_t d) {
    const lh_span keys = state.keys[query];
    if (!lh_sees_block(keys, begin))
        return;
    const bool is_partial = a.partials.blocks > 0;
    const uint32_t head = s.kv_head * a.group + lh_query_head(a, s.tile, query);
    float *y = is_partial
                   ? a.partials.values + lh_query_partial(a, s, query, begin) * a.value_dim
                   : a.y + lh_query_row(a, s.tile, query) * a.y_stride + (size_t)head * a.value_dim;
    const bool is_first = is_partial || lh_begins_in(keys, begin);
    const lh_fold fold = is_first ? lh_fold{} : state.folds[query];
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (d + j < a.value_dim)
            y[d + j] = is_first ? block[j] : lh_folded(y[d + j], block[j], fold);
}

template <lh_kv_type TYPE>
__device__ void lh_sum_values(lh_tile_state &state, const lh_attention_arguments &a,
                              const lh_tile_segment &s, uint32_t begin) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES, lane = threadIdx.x % 32;
    const uint32_t from =
                       s.keys.begin > begin ? s.keys.begin / LH_CHUNK_KEYS * LH_CHUNK_KEYS : begin,
                   to = s.keys.end < begin + LH_ATTENTION_BLOCK ? s.keys.end
                                                                : begin + LH_ATTENTION_BLOCK;
    for (uint32_t slice = 0; slice < a.value_dim; slice += LH_SLICE) {
        float sums[LH_WARP_QUERIES][4] = {};
        lh_value_chunk<TYPE> next = lh_fetch_values<TYPE>(a, s, from, slice + threadIdx.x);
        for (uint32_t t = from; t < to; t += LH_CHUNK_KEYS) {
            lh_store_values<TYPE>(state, next);
            __syncthreads();
            if (t + LH_CHUNK_KEYS < to)
                next = lh_fetch_values<TYPE>(a, s, t + LH_CHUNK_KEYS, slice + threadIdx.x);
            if (t >= s.of_all.begin && t + LH_CHUNK_KEYS <= s.of_all.end)
                lh_add_values<false>(sums, state, begin, t);
            else
                lh_add_values<true>(sums, state, begin, t);
            __syncthreads();
        }
#pragma unroll
        for (uint32_t i = 0; i < LH_WARP_QUERIES; i++)
            lh_fold_values(state, a, s, first + i, begin, sums[i], slice + lane * 4);
    }
}

/* The warp's queries are ended in y, where each lane finds what it wrote. */
__device__ inline void lh_end_queries(const lh_tile_state &state, const lh_attention_arguments &a,
                                      const lh_tile_segment &s) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES, lane = threadIdx.x % 32;
    for (uint32_t query = first; query < first + LH_WARP_QUERIES; query++) {
        if (!lh_is_of_segment(a, s, query))
            continue;
        const uint32_t head = s.kv_head * a.group + lh_query_head(a, s.tile, query);
        float *y = a.y + lh_query_row(a, s.tile, query) * a.y_stride + (size_t)head * a.value_dim;
        const lh_attention_end end =
            lh_attention_end_of(a, head, state.sums[query].x, state.sums[query].y);
        for (uint32_t d = lane * 4; d < a.value_dim; d += LH_SLICE)
            for (uint32_t j = 0; j < 4 && d + j < a.value_dim; j++)
                y[d + j] = lh_attention_ended(y[d + j], end);
    }
}

/* ---- The tile ---- */

/* What the warp's queries see: state.keys, and what they have in common. */
__device__ inline lh_span lh_find_keys(lh_tile_state &state, const lh_attention_arguments &a,
                                       const lh_tile_segment &s) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES, lane = threadIdx.x % 32;
    if (lane < LH_WARP_QUERIES) {
        const uint32_t query = first + lane;
        state.keys[query] =
            lh_is_of_segment(a, s, query)
                ? lh_visible(a.rows[lh_query_row(a, s.tile, query)].position, a.window)
                : lh_span{0, 0};
    }
    __syncwarp();
    lh_span of_all = {0, UINT32_MAX};
    for (uint32_t i = 0; i < LH_WARP_QUERIES; i++) {
        const lh_span keys = state.keys[first + i];
        if (keys.begin >= keys.end)
            continue;
        of_all.begin = keys.begin > of_all.begin ? keys.begin : of_all.begin;
        of_all.end = keys.end < of_all.end ? keys.end : of_all.end;
    }
    return of_all;
}

/* The rows from `first` on that are of its sequence, at most to `end`, and what they see. */
__device__ inline lh_tile_segment lh_segment_from(const lh_attention_arguments &a, uint32_t tile,
                                                  uint32_t kv_head, uint32_t first, uint32_t end) {
    lh_tile_segment s;
    s.row = a.rows[first];
    s.tile = tile;
    s.kv_head = kv_head;
    s.first = first;
    s.keys = lh_visible(s.row.position, a.window);
    for (s.end = first + 1; s.end < end; s.end++) {
        const lh_cuda_attention_row row = a.rows[s.end];
        if (row.value_pages != s.row.value_pages)
            break;
        const lh_span keys = lh_visible(row.position, a.window);
        s.keys.begin = keys.begin < s.keys.begin ? keys.begin : s.keys.begin;
        s.keys.end = keys.end > s.keys.end ? keys.end : s.keys.end;
    }
    return s;
}

template <lh_kv_type TYPE, bool LATENT>
__device__ void lh_attend_block(lh_tile_state &state, const lh_attention_arguments &a,
                                const lh_tile_segment &s, uint32_t begin) {
    const uint32_t first = threadIdx.x / 32 * LH_WARP_QUERIES;
    float dots[LH_WARP_QUERIES][8] = {};
    lh_multiply_keys<TYPE, LATENT>(dots, state, a, s, begin);
#pragma unroll
    for (uint32_t i = 0; i < LH_WARP_QUERIES; i++)
        lh_soften_query(state, dots[i], first + i, begin, a.scale);
    __syncwarp();
    lh_sum_lanes(state);
    __syncwarp();
    lh_fold_sums(state, a, s, begin);
    __syncwarp();
    lh_sum_values<TYPE>(state, a, s, begin);
}

template <lh_kv_type TYPE, bool LATENT>
__device__ void lh_attend_segment(lh_tile_state &state, const lh_attention_arguments &a,
                                  lh_tile_segment s, uint32_t partial_block) {
    s.of_all = lh_find_keys(state, a, s);
    uint32_t block = s.keys.begin / LH_ATTENTION_BLOCK,
             end = (s.keys.end - 1) / LH_ATTENTION_BLOCK + 1;
    if (a.partials.blocks > 0) {
        block += partial_block;
        end = block < end ? block + 1 : block;
    }
    for (; block < end; block++)
        lh_attend_block<TYPE, LATENT>(state, a, s, block * LH_ATTENTION_BLOCK);
    if (a.partials.blocks == 0)
        lh_end_queries(state, a, s);
    __syncwarp();
}

/* The last tiles come first, since late positions have the most keys to read. */
template <lh_kv_type TYPE, bool LATENT>
__global__ void __launch_bounds__(LH_TILE_THREADS, 3) attend_tiles(lh_attention_arguments a) {
    lh_begin();
    LH_SHARED(lh_tile_state, state);
    const uint32_t blocks = a.partials.blocks > 0 ? a.partials.blocks : 1;
    const uint32_t unit = gridDim.x - 1 - blockIdx.x;
    const uint32_t tile = unit / blocks / a.kv_heads, kv_head = unit / blocks % a.kv_heads;
    const uint32_t last = lh_query_row(a, tile, LH_TILE_QUERIES - 1),
                   end = last < a.row_count ? last + 1 : a.row_count;
    for (uint32_t row = lh_query_row(a, tile, 0); row < end;) {
        const lh_tile_segment s = lh_segment_from(a, tile, kv_head, row, end);
        lh_attend_segment<TYPE, LATENT>(state, a, s, unit % blocks);
        row = s.end;
    }
}

template <lh_kv_type TYPE, bool LATENT>
int lh_attend_tiles(lh_cuda_stream stream, const lh_attention_arguments &a) {
    const uint64_t tiles = lh_blocks_for((uint64_t)a.row_count * lh_tile_heads(a), LH_TILE_QUERIES);
    const uint32_t blocks = a.partials.blocks > 0 ? a.partials.blocks : 1;
    return lh_launch(attend_tiles<TYPE, LATENT>, lh_blocks_for(tiles * a.kv_heads * blocks, 1),
                     LH_TILE_THREADS, stream, a);
}
