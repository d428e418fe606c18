/* Products of quantized weights and one row: decode, where the weights' way from memory counts.
 *
 * An output is one chain over all its blocks, which no two threads can share; but what a block adds
 * is an exact integer, times scales, and those anybody can compute. So a block of threads has one
 * tile of 16 outputs. Four threads take a block of 32 inputs, 4 outputs each; 32 blocks are a
 * phase, whose terms (lh_block_term) go to shared memory, and a thread for each output adds them up
 * in order:
 *
 *     thread   0   1   2   3 |  4 ...  7 | ...         16 threads:
 *     block    b             |  b + 1    |               acc = fma(term.x, term.y, acc)
 *     outputs  0-3 4-7 ..-15 |           |               for b ascending
 *
 * The weights are read in pieces of 64 bytes that lie side by side; those of the next two phases
 * are on their way while this one is folded; those of the first two, while the grids before this
 * one still make its x. Terms have two buffers, so one barrier a phase does: who writes buffer p
 * again has passed the barrier behind its fold. */
#include "kernels/cuda/products.cuh"

namespace {

const uint32_t THREADS = 128, QUADS = LH_LANES / 4, PHASE_TERMS = THREADS / QUADS;

/* Phases whose weights are on their way: 18 KB of 4-bit weights for each tile. */
const uint32_t AHEAD = 2;

struct phase_terms {
    float2 of[2][PHASE_TERMS][LH_LANES];
};
static_assert(AHEAD % 2 == 0, "the buffers of terms take turns, too");

/* A block of 4 outputs as it lies in memory. */
template <typename F> struct quad {
    uint32_t low[F::LOW][4], high[F::HIGH > 0 ? F::HIGH : 1][4];
    uint32_t subscales[F::SUBSCALES > 0 ? F::SUBSCALES : 1]; /* a byte for each output */
    uint2 scales[F::SCALES > 0 ? F::SCALES : 1];             /* a binary16 for each */
};

__device__ void load_words(uint32_t words[4], const uint8_t *from) {
    const uint4 four = *(const uint4 *)from;
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
}

template <typename F>
__device__ quad<F> load_quad(const lh_weights &w, const uint8_t *tile, uint32_t b,
                             uint32_t quad_index) {
    quad<F> q;
    const uint8_t *quants = lh_block_quants<F>(tile, b) + quad_index * sizeof(uint4);
#pragma unroll
    for (int i = 0; i < (int)F::LOW; i++)
        load_words(q.low[i], quants + i * LH_LANES * 4);
#pragma unroll
    for (int i = 0; i < (int)F::HIGH; i++)
        load_words(q.high[i], quants + (F::LOW + i) * LH_LANES * 4);
    const uint32_t *subscales = (const uint32_t *)lh_block_subscales<F>(w, tile, b);
#pragma unroll
    for (int i = 0; i < (int)F::SUBSCALES; i++)
        q.subscales[i] = subscales[i * QUADS + quad_index];
    const uint2 *scales = (const uint2 *)lh_block_scales<F>(w, tile, b);
#pragma unroll
    for (int i = 0; i < (int)F::SCALES; i++)
        q.scales[i] = scales[i * QUADS + quad_index];
    return q;
}

__device__ uint16_t half_of(uint2 four, uint32_t index) {
    return (uint16_t)((index < 2 ? four.x : four.y) >> 16 * (index % 2));
}

template <typename F>
__device__ lh_block_scale scale_of(const quad<F> &q, uint32_t index, float unit) {
    return lh_scale_of<F>(F::SCALES > 0 ? half_of(q.scales[0], index) : 0,
                          F::SCALES > 1 ? half_of(q.scales[F::SCALES - 1], index) : 0,
                          F::SUBSCALES > 0 ? q.subscales[0] >> 8 * index & 0xff : 0,
                          F::SUBSCALES > 1 ? q.subscales[F::SUBSCALES - 1] >> 8 * index & 0xff : 0,
                          unit);
}

/* A block of the row, as all threads that have it read it. */
struct inputs {
    uint32_t q[8];
    float d;
    int sums[2];
};

__device__ inputs load_inputs(const lh_q8_block *x) {
    inputs in;
#pragma unroll
    for (uint32_t g = 0; g < 8; g++)
        in.q[g] = ((const uint32_t *)x->q)[g];
    in.d = x->d;
    in.sums[0] = lh_half_sum(x, 0);
    in.sums[1] = lh_half_sum(x, 1);
    return in;
}

/* The terms of a block for 4 outputs. */
template <typename F>
__device__ void compute_terms(float2 *terms, const quad<F> &q, const inputs &x,
                              const lh_weights &w) {
#pragma unroll
    for (uint32_t l = 0; l < 4; l++) {
        const lh_block_scale scale = scale_of<F>(q, l, w.unit);
        int dots[2] = {};
#pragma unroll
        for (uint32_t g = 0; g < 8; g++) {
            const uint32_t word = lh_quant_word<F>(q.low[lh_low_word<F>(g)][l],
                                                   q.high[lh_high_word<F>(g)][l], g, w.levels);
            dots[g / 4] = __dp4a((int)word, (int)x.q[g], dots[g / 4]);
        }
        terms[l] = lh_block_term<F>(scale, dots[0], dots[1], x.d, x.sums[0], x.sums[1]);
    }
}

/* What a block of threads goes through: terms of one matrix, or of those of a row's experts one
 * after the other, `each` terms of each. */
template <bool EXPERTS> struct row_source {
    const uint8_t *tile;
    const lh_q8_block *x;
    uint32_t count, each;
    const uint32_t *chosen, *slots;
};

template <bool EXPERTS>
__device__ row_source<EXPERTS> source_of(const lh_product_arguments &a, const lh_expert_rows &rows,
                                         uint32_t row, uint32_t tile_output) {
    const uint32_t each = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    row_source<EXPERTS> s = {a.w.data + (size_t)(tile_output / LH_LANES) * a.w.tile_bytes,
                             lh_x_block(a, 0, a.in.begin / LH_BLOCK),
                             each,
                             each,
                             nullptr,
                             nullptr};
    if (EXPERTS) {
        s.count = rows.used * each;
        s.chosen = rows.chosen + row * rows.used;
        s.slots = rows.slots + row * rows.used;
    }
    return s;
}

template <typename F, bool EXPERTS>
__device__ quad<F> load_term(const row_source<EXPERTS> &s, const lh_product_arguments &a,
                             uint32_t term, uint32_t quad_index) {
    const uint8_t *tile = EXPERTS ? s.tile + s.chosen[term / s.each] * a.experts.bytes : s.tile;
    const uint32_t in_expert = EXPERTS ? term % s.each : term;
    return load_quad<F>(a.w, tile, a.in.begin / LH_BLOCK + lh_term_block(a, in_expert), quad_index);
}

template <bool EXPERTS>
__device__ inputs load_inputs_of(const row_source<EXPERTS> &s, const lh_product_arguments &a,
                                 uint32_t term) {
    if (!EXPERTS)
        return load_inputs(s.x + term);
    const size_t slot = s.slots[term / s.each];
    return load_inputs(s.x + slot * (a.width / LH_BLOCK) * a.parts + term % s.each);
}

template <typename F, bool EXPERTS>
__global__ void __launch_bounds__(THREADS, EXPERTS || F::LOW + F::HIGH > 4 ? 4 : 6)
    row_products(lh_product_arguments a, lh_expert_rows rows) {
    lh_let_next_begin();
    if (EXPERTS)
        lh_await_grids_before();
    LH_SHARED(phase_terms, terms);
    const uint32_t row = EXPERTS ? blockIdx.x % rows.rows : 0,
                   tile_output = EXPERTS ? a.out.begin + blockIdx.x / rows.rows * LH_LANES
                                         : lh_pick_tile(a, blockIdx.x);
    const row_source<EXPERTS> source = source_of<EXPERTS>(a, rows, row, tile_output);
    const uint32_t slot = threadIdx.x / QUADS, quad_index = threadIdx.x % QUADS;

    quad<F> ahead[AHEAD] = {};
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++)
        if (i * PHASE_TERMS + slot < source.count)
            ahead[i] = load_term<F>(source, a, i * PHASE_TERMS + slot, quad_index);
    if (!EXPERTS)
        lh_await_grids_before();

    /* the output whose terms this thread adds up */
    const uint32_t output = tile_output + threadIdx.x;
    const bool folds = threadIdx.x < LH_LANES && output < a.out.end;
    float *y = a.y + row * a.y_stride + output;
    float acc = folds && a.continues ? *y : 0.0f;
    inputs in = {};
    if (slot < source.count)
        in = load_inputs_of(source, a, slot);
    for (uint32_t turn = 0; turn < source.count; turn += AHEAD * PHASE_TERMS) {
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            const uint32_t begin = turn + i * PHASE_TERMS, term = begin + slot;
            if (begin >= source.count)
                break;
            float2(*buffer)[LH_LANES] = terms.of[i % 2];
            if (term < source.count)
                compute_terms<F>(buffer[slot] + 4 * quad_index, ahead[i], in, a.w);
            if (term + AHEAD * PHASE_TERMS < source.count)
                ahead[i] = load_term<F>(source, a, term + AHEAD * PHASE_TERMS, quad_index);
            if (term + PHASE_TERMS < source.count)
                in = load_inputs_of(source, a, term + PHASE_TERMS);
            __syncthreads();
            const uint32_t left = source.count - begin,
                           here = left < PHASE_TERMS ? left : PHASE_TERMS;
            if (!folds)
                continue;
#pragma unroll 16
            for (uint32_t k = 0; k < here; k++) {
                acc = lh_fma(buffer[k][threadIdx.x].x, buffer[k][threadIdx.x].y, acc);
                if (EXPERTS && a.experts.biases && (begin + k + 1) % source.each == 0) {
                    const uint32_t e = (begin + k) / source.each;
                    acc = lh_fma(
                        rows.shares[row * rows.used + e],
                        a.experts.biases[(size_t)source.chosen[e] * a.experts.width + output], acc);
                }
            }
        }
    }
    if (folds)
        *y = EXPERTS ? acc : lh_ended(a.experts, 0, 0, output, acc);
}

} // namespace

int lh_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    return lh_with_form(dtype, [&](auto form) {
        return lh_launch(row_products<decltype(form), false>, lh_tiles_of_all(a), THREADS, stream,
                         a, lh_expert_rows{});
    });
}

int lh_expert_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a,
                           const lh_expert_rows &rows) {
    const uint64_t tiles = lh_tiles_of(a.out);
    return lh_with_form(dtype, [&](auto form) {
        return lh_launch(row_products<decltype(form), true>, lh_blocks_for(tiles * rows.rows, 1),
                         THREADS, stream, a, rows);
    });
}
