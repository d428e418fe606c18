/* Products of quantized weights and many rows, by tensor cores.
 *
 * A tile of packed weights and a block of 32 inputs are, word for word, what mma.m16n8k32 takes:
 * thread (4g + t) of a warp needs group t and group t + 4 of outputs g and g + 8, and those are the
 * low and the high nibbles of one word. So weights go from memory to registers and nowhere else,
 * and each product of a tile with 8 rows is the exact integer dot of one block, which is scaled and
 * folded at once: blocks ascend, nothing is split over the inputs.
 *
 * Activations are shared by the warps: 64 rows of the next blocks are copied to shared memory while
 * these are multiplied. A row's block takes 12 words there, so that the 32 words that a warp reads
 * at a time lie in 32 banks. */
#include "kernels/cuda/products.cuh"

namespace {

const uint32_t WARPS = 4, THREADS = 32 * WARPS, ROWS = 64;
/* Blocks of activations that are copied at a time. */
const uint32_t STAGE_TERMS = 4, COPIES = STAGE_TERMS * ROWS / THREADS;

struct shared_block {
    uint32_t q[8];
    float d;
    int sums[2];
    uint32_t none;
};
static_assert(sizeof(shared_block) == 48, "12 words");

struct stages {
    shared_block of[2][STAGE_TERMS][ROWS];
};

__device__ shared_block fetch(const lh_product_arguments &a, uint32_t row, uint32_t first_block,
                              uint32_t term, uint32_t count) {
    shared_block block = {};
    if (row >= a.rows || term >= count)
        return block;
    const lh_q8_block *x = lh_x_block(a, row, first_block + term / a.parts) + term % a.parts;
#pragma unroll
    for (uint32_t g = 0; g < 8; g++)
        block.q[g] = ((const uint32_t *)x->q)[g];
    block.d = x->d;
    block.sums[0] = lh_half_sum(x, 0);
    block.sums[1] = lh_half_sum(x, 1);
    return block;
}

/* What a thread holds of a tile and a block of inputs: its fragment, and the scales of outputs g
 * and g + 8. */
struct fragment {
    uint32_t words[4];
    lh_block_scale scales[2];
};

template <typename F>
__device__ fragment load_fragment(const lh_weights &w, const uint8_t *tile, uint32_t b) {
    const uint32_t lane = threadIdx.x % 32, group = lane % 4;
    const uint32_t *words = (const uint32_t *)lh_block_quants<F>(tile, b);
    const uint8_t *subscales = lh_block_subscales<F>(w, tile, b);
    const uint16_t *halves = (const uint16_t *)lh_block_scales<F>(w, tile, b);
    fragment f;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t output = lane / 4 + 8 * (i % 2), g = group + 4 * (i / 2);
        const uint32_t low = words[lh_low_word<F>(g) * LH_LANES + output];
        const uint32_t high =
            F::HIGH > 0 ? words[(F::LOW + lh_high_word<F>(g)) * LH_LANES + output] : 0;
        f.words[i] = lh_quant_word<F>(low, high, g, w.levels);
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t output = lane / 4 + 8 * i;
        f.scales[i] = lh_scale_of<F>(F::SCALES > 0 ? halves[output] : 0,
                                     F::HAS_MINIMUM ? halves[LH_LANES + output] : 0,
                                     F::SUBSCALES > 0 ? subscales[output] : 0,
                                     F::SUBSCALES > 1 ? subscales[LH_LANES + output] : 0, w.unit);
    }
    return f;
}

/* acc[4], in the fragment of D, goes on by one block of the 8 rows from x on. */
template <typename F>
__device__ void fold_block(float acc[4], const fragment &w, const shared_block *x) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    const uint32_t b[2] = {x[lane / 4].q[t], x[lane / 4].q[t + 4]};
    int32_t first[4], second[4] = {0, 0, 0, 0};
    if (F::HAS_HALVES) {
        lh_multiply_half(first, w.words, b[0]);
        lh_multiply_half(second, w.words + 2, b[1]);
    } else {
        lh_multiply_block(first, w.words, b);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const shared_block &row = x[2 * t + i % 2];
        const float2 term =
            lh_block_term<F>(w.scales[i / 2], first[i], second[i], row.d, row.sums[0], row.sums[1]);
        acc[i] = lh_fma(term.x, term.y, acc[i]);
    }
}

/* Output and row of element i of a thread's fragment of D. */
__device__ uint32_t output_of(uint32_t i) {
    return threadIdx.x % 32 / 4 + 8 * (i / 2);
}
__device__ uint32_t row_of(uint32_t i) {
    return 2 * (threadIdx.x % 4) + i % 2;
}

/* The warps of a block have TILES tiles of 16 outputs, and share the 64 rows of each: N times 8
 * rows are one warp's. */
template <typename F, uint32_t TILES, uint32_t N>
__global__ void __launch_bounds__(THREADS) tile_products(lh_product_arguments a) {
    static_assert(WARPS / TILES * N * 8 == ROWS, "the warps share the rows");
    LH_SHARED(stages, shared);
    const uint32_t first_block = a.in.begin / LH_BLOCK;
    const uint32_t count = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    const uint32_t warp = threadIdx.x / 32, first_row = blockIdx.y * ROWS;
    const uint32_t tile_output = a.out.begin + (blockIdx.x * TILES + warp % TILES) * LH_LANES;
    const uint32_t warp_row = warp / TILES * N * 8;
    const bool is_tile = tile_output < a.out.end;
    const uint8_t *tile =
        a.w.data + (size_t)((is_tile ? tile_output : a.out.begin) / LH_LANES) * a.w.tile_bytes;

    float acc[N][4];
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = first_row + warp_row + 8 * n + row_of(i),
                           output = tile_output + output_of(i);
            acc[n][i] = a.continues && row < a.rows && output < a.out.end
                            ? a.y[row * a.y_stride + output]
                            : 0.0f;
        }

    shared_block copies[COPIES];
#pragma unroll
    for (uint32_t c = 0; c < COPIES; c++) {
        const uint32_t unit = c * THREADS + threadIdx.x;
        shared.of[0][unit % STAGE_TERMS][unit / STAGE_TERMS] =
            fetch(a, first_row + unit / STAGE_TERMS, first_block, unit % STAGE_TERMS, count);
    }
    __syncthreads();
    fragment w = {};
    for (uint32_t stage = 0, begin = 0; begin < count; stage++, begin += STAGE_TERMS) {
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) {
            const uint32_t unit = c * THREADS + threadIdx.x;
            copies[c] = fetch(a, first_row + unit / STAGE_TERMS, first_block,
                              begin + STAGE_TERMS + unit % STAGE_TERMS, count);
        }
        for (uint32_t s = 0; s < STAGE_TERMS && begin + s < count; s++) {
            const uint32_t term = begin + s;
            if (term % a.parts == 0)
                w = load_fragment<F>(a.w, tile, first_block + term / a.parts);
#pragma unroll
            for (uint32_t n = 0; n < N; n++)
                fold_block<F>(acc[n], w, &shared.of[stage % 2][s][warp_row + 8 * n]);
        }
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) {
            const uint32_t unit = c * THREADS + threadIdx.x;
            shared.of[(stage + 1) % 2][unit % STAGE_TERMS][unit / STAGE_TERMS] = copies[c];
        }
        __syncthreads();
    }

#pragma unroll
    for (uint32_t n = 0; n < N; n++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = first_row + warp_row + 8 * n + row_of(i),
                           output = tile_output + output_of(i);
            if (row < a.rows && output < a.out.end)
                a.y[row * a.y_stride + output] = acc[n][i];
        }
}

template <typename F, uint32_t TILES, uint32_t N>
int launch(lh_cuda_stream stream, const lh_product_arguments &a) {
    const dim3 grid(lh_blocks_for(a.out.end - a.out.begin, TILES * LH_LANES),
                    lh_blocks_for(a.rows, ROWS));
    return lh_launch(tile_products<F, TILES, N>, grid, THREADS, stream, a);
}

} // namespace

/* Of up to 64 rows the warps share one tile, so that there are enough of them for a whole GPU;
 * beyond, each has a tile of its own, which it reads once for 64 rows. */
int lh_tile_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    return lh_with_form(dtype, [&](auto form) {
        using F = decltype(form);
        return a.rows <= ROWS ? launch<F, 1, 2>(stream, a) : launch<F, WARPS, 8>(stream, a);
    });
}
