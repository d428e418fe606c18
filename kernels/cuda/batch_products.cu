/* Products of quantized weights and batches of up to 16 rows: decode of several sequences, and the
 * rows of an expert.
 *
 * As in row_products.cu a block of threads has one tile of 16 outputs, terms go to shared memory,
 * and a thread for each output and row adds them up in order. Here tensor cores make the terms: a
 * warp multiplies a block of 32 inputs of the tile by that of 8 rows at a time, whose integers are
 * exact (fragments as tile_products.cu has them). The warps take blocks in turns,
 *
 *     warp    0  1  2  3  0  1  2  3 ...
 *     block   b  1  2  3  4  5  6  7 ...
 *
 * and each has the weights of its next 8 on their way, of the first 8 while the grids before this
 * one still run. Terms of a phase, 16 blocks of 8 rows or 8 of 16, have two buffers, so one barrier
 * a phase does. */
#include "kernels/cuda/fragments.cuh"

namespace {

const uint32_t WARPS = 4, THREADS = 32 * WARPS, AHEAD = 8;
/* Two more than there are outputs, so that what a warp writes lies in different banks. */
const uint32_t TERM_STRIDE = LH_LANES + 2;

/* Of N times 8 rows. */
template <uint32_t N> struct phase_terms {
    static const uint32_t TERMS = 16 / N;
    float2 of[2][TERMS][8 * N][TERM_STRIDE];
};
static_assert(8 * LH_LANES == THREADS, "a thread for each output of 8 rows");

/* Where sums go, of the product that was picked: kept here while they are made, since types with
 * large blocks leave no registers for it. */
struct sums_end {
    float *y;
    size_t y_stride;
    const float *biases;
    lh_batch batch;
    uint32_t tile_output, outputs; /* the tile's first output, the end of all */
};

/* Where a lane reads 8 rows of a batch: the row of its fragment of B, and the two of that of D. For
 * those that are not there the first one stands. */
struct lane_rows {
    const lh_q8_block *inputs, *sums[2];
};

__device__ lane_rows lane_rows_of(const lh_product_arguments &a, const lh_batch &mine,
                                  uint32_t first) {
    const uint32_t wanted[3] = {threadIdx.x % 32 / 4, lh_fragment_row(0), lh_fragment_row(1)};
    const lh_q8_block *rows[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t row = first + wanted[i] < mine.count ? first + wanted[i] : 0;
        rows[i] = lh_x_block(a, lh_x_row(a, mine.first + row), a.in.begin / LH_BLOCK);
    }
    return {rows[0], {rows[1], rows[2]}};
}

/* Term `term` of 8 rows. */
template <typename F>
__device__ void make_terms(float2 (*terms)[TERM_STRIDE], const lh_fragment &w,
                           const lane_rows &rows, uint32_t term) {
    const uint32_t t = threadIdx.x % 4;
    const uint32_t *words = (const uint32_t *)rows.inputs[term].q;
    const uint32_t inputs[2] = {words[t], words[t + 4]};
    int32_t dots[2][4] = {};
    lh_multiply_fragment<F>(dots, w, inputs);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const lh_q8_block *x = rows.sums[i % 2] + term;
        terms[lh_fragment_row(i)][lh_fragment_output(i)] = lh_block_term<F>(
            w.scales[i / 2], dots[0][i], dots[1][i], x->d, lh_half_sum(x, 0), lh_half_sum(x, 1));
    }
}

template <uint32_t N, bool HEADS>
__device__ void put_sums(lh_product_arguments &a, const sums_end &end, const float acc[N]) {
    const uint32_t output = end.tile_output + threadIdx.x % LH_LANES, row = threadIdx.x / LH_LANES;
    a.y = end.y;
    a.y_stride = end.y_stride;
    a.experts.biases = end.biases;
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        const uint32_t slot = end.batch.first + 8 * n + row;
        if (8 * n + row < end.batch.count && output < end.outputs)
            *lh_y_at<HEADS>(a, end.batch, slot, output) =
                lh_ended(a.experts, end.batch.expert, slot, output, acc[n]);
    }
}

template <typename F, uint32_t N, bool HEADS>
__global__ void __launch_bounds__(THREADS, F::HAS_HALF_BYTES ? 2 : 3)
    batch_products(lh_product_arguments a, uint32_t units) {
    lh_let_next_begin();
    if (a.experts.groups)
        lh_await_grids_before();
    LH_SHARED(phase_terms<N>, terms);
    LH_SHARED(sums_end, end);
    const uint32_t TERMS = phase_terms<N>::TERMS, EACH = TERMS / WARPS;
    const uint32_t first_block = a.in.begin / LH_BLOCK;
    const uint32_t count = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    const uint32_t tile_output = lh_pick_tile(a, blockIdx.x / units);
    const lh_batch mine = lh_batch_of<HEADS>(a, blockIdx.x % units, 8 * N);
    if (mine.count == 0)
        return;
    const uint8_t *tile = mine.weights + (size_t)(tile_output / LH_LANES) * a.w.tile_bytes;
    const uint32_t warp = threadIdx.x / 32;
    lh_stored_fragment<F> ahead[AHEAD] = {};
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++)
        if (i * WARPS + warp < count)
            ahead[i] =
                lh_load_fragment<F>(a.w, tile, first_block + lh_term_block(a, i * WARPS + warp));
    if (!a.experts.groups)
        lh_await_grids_before();
    lane_rows rows[N];
    /* the outputs whose terms this thread adds up: one of each 8 rows */
    const uint32_t output = tile_output + threadIdx.x % LH_LANES, row = threadIdx.x / LH_LANES;
    float acc[N];
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        const bool folds = 8 * n + row < mine.count && output < a.out.end;
        rows[n] = lane_rows_of(a, mine, 8 * n);
        acc[n] = folds && a.continues ? *lh_y_at<HEADS>(a, mine, mine.first + 8 * n + row, output)
                                      : 0.0f;
    }
    if (threadIdx.x == 0)
        end = {a.y, a.y_stride, a.experts.biases, mine, tile_output, a.out.end};
    for (uint32_t begin = 0; begin < count; begin += AHEAD * WARPS) {
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) {
            const uint32_t phase = begin + i / EACH * TERMS, term = begin + i * WARPS + warp;
            if (phase >= count)
                break;
            float2(*buffer)[8 * N][TERM_STRIDE] = terms.of[i / EACH % 2];
            if (term < count) {
                const lh_fragment w = lh_unpacked<F>(ahead[i], a.w);
#pragma unroll
                for (uint32_t n = 0; n < N; n++)
                    make_terms<F>(buffer[i % EACH * WARPS + warp] + 8 * n, w, rows[n], term);
            }
            if (term + AHEAD * WARPS < count)
                ahead[i] = lh_load_fragment<F>(
                    a.w, tile, first_block + lh_term_block(a, term + AHEAD * WARPS));
            if (i % EACH < EACH - 1)
                continue;
            __syncthreads();
            const uint32_t left = count - phase, here = left < TERMS ? left : TERMS;
#pragma unroll
            for (uint32_t n = 0; n < N; n++)
                for (uint32_t k = 0; k < here; k++) {
                    const float2 t = buffer[k][8 * n + row][threadIdx.x % LH_LANES];
                    acc[n] = lh_fma(t.x, t.y, acc[n]);
                }
        }
    }
    put_sums<N, HEADS>(a, end, acc);
}

template <typename F, uint32_t N, bool HEADS>
int launch(lh_cuda_stream stream, const lh_product_arguments &a) {
    const uint32_t units = lh_units_of(a, 8 * N);
    const uint64_t tiles = lh_tiles_of_all(a);
    return lh_launch(batch_products<F, N, HEADS>, lh_blocks_for(tiles * units, 1), THREADS, stream,
                     a, units);
}

} // namespace

int lh_batch_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    return lh_with_form(dtype, [&](auto form) {
        using F = decltype(form);
        if (a.experts.heads > 0)
            return launch<F, 1, true>(stream, a);
        return a.rows <= 8 ? launch<F, 1, false>(stream, a) : launch<F, 2, false>(stream, a);
    });
}
