/* Products of quantized weights and a few rows: decode, where the weights' way from memory counts.
 *
 * An output is one chain over all its blocks, which no two threads can share; but what a block adds
 * is an exact integer, times scales, and those anybody can compute. So a block of threads has one
 * tile of 16 outputs. Four threads take a block of 32 inputs, 4 outputs each; 32 blocks are a
 * phase, whose terms (lh_block_term) go to shared memory, and a thread for each output and row adds
 * them up in order:
 *
 *     thread   0   1   2   3 |  4 ...  7 | ...         16 x rows threads:
 *     block    b             |  b + 1    |               acc = fma(term.x, term.y, acc)
 *     outputs  0-3 4-7 ..-15 |           |               for b ascending
 *
 * Each byte of the weights is read once, in pieces of 64 bytes that lie side by side, for all rows;
 * those of the next phase are on their way while this one is folded. Terms have two buffers, so one
 * barrier a phase does: who writes buffer p again has passed the barrier behind its fold. */
#include "kernels/cuda/products.cuh"

namespace {

const uint32_t THREADS = 128, QUADS = LH_LANES / 4, PHASE_TERMS = THREADS / QUADS;

template <uint32_t ROWS> struct phase_terms {
    float2 of[2][PHASE_TERMS][ROWS][LH_LANES];
};

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

/* The terms of one block of activations for 4 outputs: of[row][4 * quad_index + ...]. */
template <typename F, uint32_t ROWS>
__device__ void compute_terms(float2 (*terms)[LH_LANES], const quad<F> &q, uint32_t quad_index,
                              const lh_q8_block *const x[ROWS], const lh_weights &w) {
    uint32_t inputs[ROWS][8];
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++)
#pragma unroll
        for (uint32_t g = 0; g < 8; g++)
            inputs[r][g] = ((const uint32_t *)x[r]->q)[g];
#pragma unroll
    for (uint32_t l = 0; l < 4; l++) {
        const lh_block_scale scale = scale_of<F>(q, l, w.unit);
        int dots[ROWS][2] = {};
#pragma unroll
        for (uint32_t g = 0; g < 8; g++) {
            const uint32_t word = lh_quant_word<F>(q.low[lh_low_word<F>(g)][l],
                                                   q.high[lh_high_word<F>(g)][l], g, w.levels);
#pragma unroll
            for (uint32_t r = 0; r < ROWS; r++)
                dots[r][g / 4] = __dp4a((int)word, (int)inputs[r][g], dots[r][g / 4]);
        }
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++)
            terms[r][4 * quad_index + l] = lh_block_term<F>(
                scale, dots[r][0], dots[r][1], x[r]->d, lh_half_sum(x[r], 0), lh_half_sum(x[r], 1));
    }
}

template <typename F, uint32_t ROWS>
__global__ void __launch_bounds__(THREADS) row_products(lh_product_arguments a) {
    LH_SHARED(phase_terms<ROWS>, terms);
    const uint32_t first_block = a.in.begin / LH_BLOCK;
    const uint32_t count = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    const uint32_t tile_output = a.out.begin + blockIdx.x * LH_LANES;
    const uint8_t *tile = a.w.data + (size_t)(tile_output / LH_LANES) * a.w.tile_bytes;
    const uint32_t slot = threadIdx.x / QUADS, quad_index = threadIdx.x % QUADS;

    /* the output whose terms this thread adds up */
    const uint32_t lane = threadIdx.x % LH_LANES, row = threadIdx.x / LH_LANES;
    const bool folds = row < a.rows && row < ROWS && tile_output + lane < a.out.end;
    float *y = a.y + row * a.y_stride + tile_output + lane;
    float acc = folds && a.continues ? *y : 0.0f;

    quad<F> next = {};
    if (slot < count)
        next = load_quad<F>(a.w, tile, first_block + slot / a.parts, quad_index);
    for (uint32_t phase = 0, begin = 0; begin < count; phase++, begin += PHASE_TERMS) {
        float2(*buffer)[ROWS][LH_LANES] = terms.of[phase % 2];
        const uint32_t term = begin + slot;
        if (term < count) {
            const lh_q8_block *x[ROWS];
#pragma unroll
            for (uint32_t r = 0; r < ROWS; r++)
                x[r] = lh_x_block(a, r < a.rows ? r : 0, first_block + term / a.parts) +
                       term % a.parts;
            compute_terms<F, ROWS>(buffer[slot], next, quad_index, x, a.w);
        }
        if (term + PHASE_TERMS < count)
            next =
                load_quad<F>(a.w, tile, first_block + (term + PHASE_TERMS) / a.parts, quad_index);
        __syncthreads();
        const uint32_t left = count - begin, here = left < PHASE_TERMS ? left : PHASE_TERMS;
        if (folds)
            for (uint32_t i = 0; i < here; i++)
                acc = lh_fma(buffer[i][row][lane].x, buffer[i][row][lane].y, acc);
    }
    if (folds)
        *y = acc;
}

} // namespace

int lh_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    const uint32_t blocks = lh_blocks_for(a.out.end - a.out.begin, LH_LANES);
    return lh_with_form(dtype, [&](auto form) {
        using F = decltype(form);
        return a.rows == 1 ? lh_launch(row_products<F, 1>, blocks, THREADS, stream, a)
                           : lh_launch(row_products<F, LH_FEW_ROWS>, blocks, THREADS, stream, a);
    });
}
