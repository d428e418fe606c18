/* Products of quantized weights and many rows, by tensor cores.
 *
 * A warp has a tile of 16 outputs, whose weights go straight to registers (fragments.cuh), and 64
 * rows. Each product of a tile with 8 rows is the exact integer dot of one block, which is scaled
 * and folded at once: blocks ascend, nothing is split over the inputs. The next block of weights is
 * on its way while one is multiplied.
 *
 * Activations are shared by the warps: 64 rows of the next blocks are copied to shared memory while
 * these are multiplied. A row's block takes 12 words there, so that the 32 words that a warp reads
 * at a time lie in 32 banks. */
#include "kernels/cuda/fragments.cuh"

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
    const lh_q8_block *x = lh_x_block(a, row, first_block) + term;
#pragma unroll
    for (uint32_t g = 0; g < 8; g++)
        block.q[g] = ((const uint32_t *)x->q)[g];
    block.d = x->d;
    block.sums[0] = lh_half_sum(x, 0);
    block.sums[1] = lh_half_sum(x, 1);
    return block;
}

/* acc[4], in the fragment of D, goes on by one block of the 8 rows from x on. */
template <typename F>
__device__ void fold_block(float acc[4], const lh_fragment &w, const shared_block *x) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    const uint32_t inputs[2] = {x[lane / 4].q[t], x[lane / 4].q[t + 4]};
    int32_t dots[2][4] = {};
    lh_multiply_fragment<F>(dots, w, inputs);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const shared_block &row = x[2 * t + i % 2];
        const float2 term = lh_block_term<F>(w.scales[i / 2], dots[0][i], dots[1][i], row.d,
                                             row.sums[0], row.sums[1]);
        acc[i] = lh_fma(term.x, term.y, acc[i]);
    }
}

/* Each warp has a tile of 16 outputs, and all 64 rows of it. */
template <typename F>
__global__ void __launch_bounds__(THREADS) tile_products(lh_product_arguments a) {
    const uint32_t N = ROWS / 8;
    LH_SHARED(stages, shared);
    const uint32_t first_block = a.in.begin / LH_BLOCK;
    const uint32_t count = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    const uint32_t warp = threadIdx.x / 32, first_row = blockIdx.y * ROWS;
    const uint32_t tile_output = a.out.begin + (blockIdx.x * WARPS + warp) * LH_LANES;
    const bool is_tile = tile_output < a.out.end;
    const uint8_t *tile =
        a.w.data + (size_t)((is_tile ? tile_output : a.out.begin) / LH_LANES) * a.w.tile_bytes;

    float acc[N][4];
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = first_row + 8 * n + lh_fragment_row(i),
                           output = tile_output + lh_fragment_output(i);
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
    lh_stored_fragment<F> next = lh_load_fragment<F>(a.w, tile, first_block);
    lh_fragment w = {};
    for (uint32_t stage = 0, begin = 0; begin < count; stage++, begin += STAGE_TERMS) {
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) {
            const uint32_t unit = c * THREADS + threadIdx.x;
            copies[c] = fetch(a, first_row + unit / STAGE_TERMS, first_block,
                              begin + STAGE_TERMS + unit % STAGE_TERMS, count);
        }
        for (uint32_t s = 0; s < STAGE_TERMS && begin + s < count; s++) {
            const uint32_t term = begin + s;
            if ((term & (a.parts - 1)) == 0) {
                w = lh_unpacked<F>(next, a.w);
                if (term + a.parts < count)
                    next = lh_load_fragment<F>(a.w, tile, first_block + lh_term_block(a, term) + 1);
            }
#pragma unroll
            for (uint32_t n = 0; n < N; n++)
                fold_block<F>(acc[n], w, &shared.of[stage % 2][s][8 * n]);
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
            const uint32_t row = first_row + 8 * n + lh_fragment_row(i),
                           output = tile_output + lh_fragment_output(i);
            if (row < a.rows && output < a.out.end)
                a.y[row * a.y_stride + output] = acc[n][i];
        }
}

} // namespace

int lh_tile_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    const dim3 grid(lh_blocks_for(a.out.end - a.out.begin, WARPS * LH_LANES),
                    lh_blocks_for(a.rows, ROWS));
    return lh_with_form(dtype, [&](auto form) {
        return lh_launch(tile_products<decltype(form)>, grid, THREADS, stream, a);
    });
}
