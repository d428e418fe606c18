/* Attention of a few rows: decode, where the way of keys and values from memory counts.
 *
 * A block of threads has one block of 256 keys for one row and the query heads of one KV head, of
 * which it computes m, z and o: so a long context fills a GPU, and each key and value is read once
 * for all of these heads.
 *
 *     scores   a thread for each key: a chain over its numbers, which are on their way 32 at a time
 *     p, m, z  a warp for each head
 *     o        a thread for each number of a value (of narrow ones several, which share the heads):
 *              a chain over the keys, 32 on their way at a time
 *
 * Then another kernel combines the blocks of each row and head in their order. Prompts, whose rows
 * share what they read, are attention_tiles.cuh's. */
#include "kernels/cuda/attention_tiles.cuh"

namespace {

const uint32_t THREADS = LH_ATTENTION_BLOCK, AT_A_TIME = 32, KEY_DIM_MAX = 256;
/* Values that a thread has on their way; of Q8 there is a scale with each. */
template <lh_kv_type TYPE> __device__ constexpr uint32_t values_at_a_time() {
    return TYPE == LH_KV_Q8 ? AT_A_TIME / 2 : AT_A_TIME;
}
/* Of a KV head: beyond, tiles of queries are faster. */
const uint32_t HEADS_MAX = 16;

template <uint32_t HEADS> struct row_state {
    alignas(16) float q[KEY_DIM_MAX][HEADS];
    alignas(16) float p[LH_ATTENTION_BLOCK][HEADS];
};

/* The part of a row's attention that a block of threads computes. */
struct row_part {
    lh_cuda_attention_row row;
    uint32_t kv_head, first_head, heads; /* heads: how many of them there are */
    lh_span keys;                        /* those of the block that the row sees */
    size_t partial;                      /* of the first head; the next are `blocks` further */
};

template <uint32_t HEADS>
__device__ row_part row_part_of(const lh_attention_arguments &a, uint32_t unit) {
    const uint32_t passes = (a.group + HEADS - 1) / HEADS;
    const uint32_t index = unit % a.partials.blocks, pass = unit / a.partials.blocks % passes;
    const uint32_t pair = unit / a.partials.blocks / passes;
    const uint32_t row = pair / a.kv_heads, left = a.group - pass * HEADS;
    row_part part;
    part.row = a.rows[row];
    part.kv_head = pair % a.kv_heads;
    part.first_head = part.kv_head * a.group + pass * HEADS;
    part.heads = left < HEADS ? left : HEADS;
    part.partial =
        ((size_t)row * a.kv_heads * a.group + part.first_head) * a.partials.blocks + index;
    const lh_span all = lh_visible(part.row.position, a.window);
    const uint32_t begin = (all.begin / LH_ATTENTION_BLOCK + index) * LH_ATTENTION_BLOCK;
    part.keys.begin = begin < all.begin ? all.begin : begin;
    part.keys.end = all.end < begin + LH_ATTENTION_BLOCK ? all.end : begin + LH_ATTENTION_BLOCK;
    return part;
}

/* Four at a time where their number allows. */
template <uint32_t COUNT> __device__ void load_floats(float *to, const float *from) {
    const uint32_t STEP = COUNT % 4 == 0 ? 4 : 1;
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i += STEP)
        if (STEP == 4)
            lh_load_four(to + i, from + i);
        else
            to[i] = from[i];
}

/* sums[h] goes on by weights[h] * number, the weights being side by side. */
template <uint32_t COUNT>
__device__ void add_products(float sums[COUNT], const float *weights, float number) {
    float w[COUNT];
    load_floats<COUNT>(w, weights);
#pragma unroll
    for (uint32_t h = 0; h < COUNT; h++)
        sums[h] = lh_fma(w[h], number, sums[h]);
}

/* The dot products of a key with the queries of each head. */
template <lh_kv_type TYPE, uint32_t HEADS>
__device__ void multiply_key(float dots[HEADS], lh_kv_row<TYPE> key, const float (*q)[HEADS],
                             uint32_t dim) {
    using number = lh_kv_number<TYPE>;
    uint32_t d = 0;
    for (; d + AT_A_TIME <= dim; d += AT_A_TIME) {
        typename number::stored stored[AT_A_TIME];
#pragma unroll
        for (uint32_t i = 0; i < AT_A_TIME; i++)
            stored[i] = key.numbers[(d + i) * LH_LANES];
        const float scale = TYPE == LH_KV_Q8 ? key.scales[d / LH_BLOCK * LH_LANES] : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < AT_A_TIME; i++)
            add_products<HEADS>(dots, q[d + i], number::widen(stored[i], scale));
    }
    for (; d < dim; d++) {
        const float scale = TYPE == LH_KV_Q8 ? key.scales[d / LH_BLOCK * LH_LANES] : 0.0f;
        add_products<HEADS>(dots, q[d], number::widen(key.numbers[d * LH_LANES], scale));
    }
}

template <uint32_t HEADS>
__device__ void load_queries(row_state<HEADS> &state, const lh_attention_arguments &a,
                             const row_part &part, uint32_t row) {
    const float *q = a.q + row * a.q_stride + (size_t)part.first_head * a.key_dim;
    for (uint32_t i = threadIdx.x; i < HEADS * a.key_dim; i += THREADS) {
        const uint32_t head = i / a.key_dim, d = i % a.key_dim;
        state.q[d][head] = head < part.heads ? q[i] : 0.0f;
    }
}

/* Scores of head `head` become p; a warp. */
template <uint32_t HEADS>
__device__ void soften(row_state<HEADS> &state, const lh_attention_arguments &a,
                       const row_part &part, uint32_t head) {
    const uint32_t lane = threadIdx.x % 32, each = LH_ATTENTION_BLOCK / 32;
    const uint32_t begin = part.keys.begin / LH_ATTENTION_BLOCK * LH_ATTENTION_BLOCK;
    float s[each], greatest = -INFINITY;
#pragma unroll
    for (uint32_t i = 0; i < each; i++) {
        s[i] = state.p[i * 32 + lane][head];
        const uint32_t t = begin + i * 32 + lane;
        if (t >= part.keys.begin && t < part.keys.end)
            greatest = lh_greater(s[i], greatest);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        greatest = lh_greater(greatest, __shfl_xor_sync(~0u, greatest, lanes));
    /* lane t % 16 of the sum: of each 32 keys first the lower half warp's, then the upper one's */
    float z = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; i++) {
        const uint32_t t = begin + i * 32 + lane;
        const float p = t >= part.keys.begin && t < part.keys.end ? lh_exp(s[i] - greatest) : 0.0f;
        const float other = __shfl_xor_sync(~0u, p, 16);
        state.p[i * 32 + lane][head] = p;
        z += lane < 16 ? p : other;
        z += lane < 16 ? other : p;
    }
    z = lh_lane_sum(z);
    if (lane == 0 && head < part.heads)
        a.partials.sums[part.partial + (size_t)head * a.partials.blocks] = make_float2(greatest, z);
}

/* o of HEADS / SETS heads for each set of threads, a thread for each number. */
template <lh_kv_type TYPE, uint32_t HEADS, uint32_t SETS>
__device__ void sum_values(const row_state<HEADS> &state, const lh_attention_arguments &a,
                           const row_part &part) {
    using number = lh_kv_number<TYPE>;
    const uint32_t WIDTH = THREADS / SETS, COUNT = HEADS / SETS, MANY = values_at_a_time<TYPE>();
    const uint32_t first = threadIdx.x / WIDTH * COUNT;
    for (uint32_t d = threadIdx.x % WIDTH; d < a.value_dim; d += WIDTH) {
        float sums[COUNT] = {};
        for (uint32_t t = part.keys.begin; t < part.keys.end;) {
            const lh_kv_row<TYPE> value = lh_value_at<TYPE>(a, part.row, part.kv_head, t);
            const typename number::stored *numbers = value.numbers + d;
            const float *scales = value.scales + d / LH_BLOCK;
            const uint32_t left = part.keys.end - t,
                           in_page = LH_KV_PAGE_POSITIONS - t % LH_KV_PAGE_POSITIONS;
            const uint32_t count = left < in_page ? left : in_page;
            const float(*p)[HEADS] = state.p + t % LH_ATTENTION_BLOCK;
            uint32_t i = 0;
            for (; i + MANY <= count; i += MANY) {
                typename number::stored stored[MANY];
                float scale[MANY] = {};
#pragma unroll
                for (uint32_t k = 0; k < MANY; k++) {
                    stored[k] = numbers[(size_t)(i + k) * a.value_width];
                    if (TYPE == LH_KV_Q8)
                        scale[k] = scales[(i + k) * a.value_blocks];
                }
#pragma unroll
                for (uint32_t k = 0; k < MANY; k++)
                    add_products<COUNT>(sums, p[i + k] + first, number::widen(stored[k], scale[k]));
            }
            for (; i < count; i++)
                add_products<COUNT>(
                    sums, p[i] + first,
                    number::widen(numbers[(size_t)i * a.value_width],
                                  TYPE == LH_KV_Q8 ? scales[i * a.value_blocks] : 0.0f));
            t += count;
        }
#pragma unroll
        for (uint32_t h = 0; h < COUNT; h++)
            if (first + h < part.heads)
                a.partials
                    .values[(part.partial + (size_t)(first + h) * a.partials.blocks) * a.value_dim +
                            d] = sums[h];
    }
}

template <lh_kv_type TYPE, uint32_t HEADS>
__global__ void __launch_bounds__(THREADS, HEADS < 4 ? 3 : 2)
    attend_rows(lh_attention_arguments a) {
    lh_begin();
    LH_SHARED(row_state<HEADS>, state);
    const row_part part = row_part_of<HEADS>(a, blockIdx.x);
    if (part.keys.begin >= part.keys.end)
        return;
    const uint32_t passes = (a.group + HEADS - 1) / HEADS;
    load_queries<HEADS>(state, a, part, blockIdx.x / a.partials.blocks / passes / a.kv_heads);
    __syncthreads();
    const uint32_t t = part.keys.begin / LH_ATTENTION_BLOCK * LH_ATTENTION_BLOCK + threadIdx.x;
    float dots[HEADS] = {};
    if (t >= part.keys.begin && t < part.keys.end)
        multiply_key<TYPE, HEADS>(dots, lh_key_at<TYPE>(a, part.row, part.kv_head, t), state.q,
                                  a.key_dim);
#pragma unroll
    for (uint32_t h = 0; h < HEADS; h++)
        state.p[threadIdx.x][h] = a.scale * dots[h];
    __syncthreads();
    if (threadIdx.x / 32 < HEADS)
        soften<HEADS>(state, a, part, threadIdx.x / 32);
    __syncthreads();
    const uint32_t TWO = HEADS < 2 ? HEADS : 2, FOUR = HEADS < 4 ? HEADS : 4;
    if (a.value_dim <= THREADS / 4)
        sum_values<TYPE, HEADS, FOUR>(state, a, part);
    else if (a.value_dim <= THREADS / 2)
        sum_values<TYPE, HEADS, TWO>(state, a, part);
    else
        sum_values<TYPE, HEADS, 1>(state, a, part);
}

/* ---- Combining ---- */

const uint32_t COMBINE_THREADS = 128;

struct combine_state {
    float greatest[COMBINE_THREADS], z[COMBINE_THREADS];
    lh_fold folds[COMBINE_THREADS];
};

/* The factors of the blocks from `begin` on, of which there are `count`; the greatest score of
 * those before is `before`. */
__device__ void find_folds(combine_state &state, const float2 *sums, uint32_t count, float before) {
    const uint32_t self = threadIdx.x;
    if (self < count) {
        state.greatest[self] = sums[self].x;
        state.z[self] = sums[self].y;
    }
    __syncthreads();
    if (self < count) {
        for (uint32_t i = 0; i < self; i++)
            before = lh_greater(before, state.greatest[i]);
        state.folds[self] = lh_fold_of(before, state.greatest[self]);
    }
    __syncthreads();
}

/* A block of threads for 128 numbers of a row and a head. */
__global__ void __launch_bounds__(COMBINE_THREADS) combine_blocks(lh_attention_arguments a) {
    lh_begin();
    LH_SHARED(combine_state, state);
    const uint32_t heads = a.kv_heads * a.group;
    const uint32_t slices = (a.value_dim + COMBINE_THREADS - 1) / COMBINE_THREADS;
    const uint32_t row = blockIdx.x / slices / heads, head = blockIdx.x / slices % heads,
                   d = blockIdx.x % slices * COMBINE_THREADS + threadIdx.x;
    const lh_span keys = lh_visible(a.rows[row].position, a.window);
    const uint32_t count =
        (keys.end - 1) / LH_ATTENTION_BLOCK - keys.begin / LH_ATTENTION_BLOCK + 1;
    const size_t partial = ((size_t)row * heads + head) * a.partials.blocks;
    const float *values = a.partials.values + partial * a.value_dim + d;
    const bool is_number = d < a.value_dim;
    float greatest = a.partials.sums[partial].x, z = 0, value = 0;
    for (uint32_t begin = 0; begin < count; begin += COMBINE_THREADS) {
        const uint32_t left = count - begin, here = left < COMBINE_THREADS ? left : COMBINE_THREADS;
        find_folds(state, a.partials.sums + partial + begin, here, greatest);
#pragma unroll 4
        for (uint32_t i = 0; i < here; i++) {
            const float block = is_number ? values[(size_t)(begin + i) * a.value_dim] : 0.0f;
            const bool is_first = begin + i == 0;
            greatest = lh_greater(greatest, state.greatest[i]);
            z = is_first ? state.z[i] : lh_folded(z, state.z[i], state.folds[i]);
            value = is_first ? block : lh_folded(value, block, state.folds[i]);
        }
        __syncthreads();
    }
    if (is_number)
        a.y[row * a.y_stride + (size_t)head * a.value_dim + d] =
            lh_attention_ended(value, lh_attention_end_of(a, head, greatest, z));
}

template <lh_kv_type TYPE> int launch_rows(lh_cuda_stream stream, const lh_attention_arguments &a) {
    const uint32_t heads = a.group > 4 ? 8 : a.group > 2 ? 4 : a.group;
    const uint64_t passes = lh_blocks_for(a.group, heads);
    const uint32_t blocks = lh_blocks_for(a.row_count * passes * a.kv_heads * a.partials.blocks, 1);
    return lh_launch(heads == 8   ? attend_rows<TYPE, 8>
                     : heads == 4 ? attend_rows<TYPE, 4>
                     : heads == 2 ? attend_rows<TYPE, 2>
                                  : attend_rows<TYPE, 1>,
                     blocks, THREADS, stream, a);
}

template <lh_kv_type TYPE>
int launch_partials(lh_cuda_stream stream, const lh_attention_arguments &a) {
    if (a.group > HEADS_MAX || a.key_dim > KEY_DIM_MAX)
        return lh_attend_tiles<TYPE, false>(stream, a);
    return launch_rows<TYPE>(stream, a);
}

lh_attention_arguments arguments_of(float *y, size_t y_stride, const float *q, size_t q_stride,
                                    const lh_kv_shape *shape, uint32_t group,
                                    const lh_cuda_attention_rows *rows, uint32_t window,
                                    float scale, const float *sinks) {
    lh_attention_arguments a =
        lh_attention_arguments_of(y, y_stride, q, q_stride, shape, rows, scale);
    a.group = group;
    a.window = window;
    a.sinks = sinks;
    return a;
}

} // namespace

size_t lh_cuda_attention_scratch_bytes(uint32_t rows, uint32_t heads, uint32_t value_dim,
                                       uint32_t context, uint32_t window) {
    size_t bytes;
    lh_attention_partials_in(nullptr, rows, heads, value_dim,
                             lh_attention_blocks_at_most(context, window), &bytes);
    return bytes;
}

int lh_attention_combine(lh_cuda_stream stream, const lh_attention_arguments &a) {
    const uint64_t slices = lh_blocks_for(a.value_dim, COMBINE_THREADS);
    return lh_launch(combine_blocks, lh_blocks_for(a.row_count * slices * a.kv_heads * a.group, 1),
                     COMBINE_THREADS, stream, a);
}

int lh_cuda_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                      size_t q_stride, const lh_kv_shape *shape, uint32_t group,
                      const lh_cuda_attention_rows *rows, uint32_t window, float scale,
                      const float *sinks, void *scratch) {
    if (rows->count == 0)
        return 0;
    lh_attention_arguments a =
        arguments_of(y, y_stride, q, q_stride, shape, group, rows, window, scale, sinks);
    size_t bytes;
    a.partials =
        lh_attention_partials_in(scratch, rows->count, shape->kv_heads * group, shape->value_dim,
                                 lh_attention_blocks_at_most(rows->context, window), &bytes);
    const int error = shape->type == LH_KV_F32   ? launch_partials<LH_KV_F32>(stream, a)
                      : shape->type == LH_KV_F16 ? launch_partials<LH_KV_F16>(stream, a)
                                                 : launch_partials<LH_KV_Q8>(stream, a);
    return error ? error : lh_attention_combine(stream, a);
}

int lh_cuda_prompt_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                             size_t q_stride, const lh_kv_shape *shape, uint32_t group,
                             const lh_cuda_attention_rows *rows, uint32_t window, float scale,
                             const float *sinks) {
    if (rows->count == 0)
        return 0;
    const lh_attention_arguments a =
        arguments_of(y, y_stride, q, q_stride, shape, group, rows, window, scale, sinks);
    return shape->type == LH_KV_F32   ? lh_attend_tiles<LH_KV_F32, false>(stream, a)
           : shape->type == LH_KV_F16 ? lh_attend_tiles<LH_KV_F16, false>(stream, a)
                                      : lh_attend_tiles<LH_KV_Q8, false>(stream, a);
}
