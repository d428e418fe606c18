/* Products of quantized weights and many rows, by tensor cores.
 *
 * A warp has some tiles of 16 outputs, whose weights go straight to registers (fragments.cuh), and
 * 8 rows several times. Each product of a tile with 8 rows is the exact integer dot of one block,
 * which is scaled and folded at once: blocks ascend, nothing is split over the inputs, and a block
 * is unpacked once for all rows. The next blocks of weights are on their way while one is
 * multiplied: where rows are few the weights come from memory, and are awaited for longer than a
 * block is worked on.
 *
 * Activations are shared by the warps: the rows of the next blocks are copied to shared memory
 * while these are multiplied. What a warp reads of them there serves all of its tiles: reading is
 * what a single tile would wait for. A row's block takes 12 words, in which the two words that a
 * thread needs are neighbours, so that a warp reads 64 of them, or the scales of 8 rows, without a
 * conflict of banks. */
#include "kernels/cuda/fragments.cuh"

namespace {

const uint32_t WARPS = 4, THREADS = 32 * WARPS, ROWS_MAX = 64;
/* Blocks of activations that are copied at a time. */
const uint32_t STAGE_TERMS = 4;

/* q: words g and g + 4 of the block side by side. */
struct alignas(16) shared_block {
    uint32_t q[8];
    float d;
    int sums[2];
    uint32_t none;
};
static_assert(sizeof(shared_block) == 48, "12 words");

template <uint32_t ROWS> struct stages {
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
        block.q[2 * (g % 4) + g / 4] = ((const uint32_t *)x->q)[g];
    block.d = x->d;
    block.sums[0] = lh_half_sum(x, 0);
    block.sums[1] = lh_half_sum(x, 1);
    return block;
}

/* What a thread needs of 8 rows: its words of the row that it multiplies, and the scales and sums
 * of the two that it folds. */
struct row_inputs {
    uint32_t q[2];
    float d[2];
    int sums[2][2];
};

template <typename F> __device__ row_inputs read_rows(const shared_block *x) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    const uint2 words = ((const uint2 *)x[lane / 4].q)[t];
    row_inputs in = {{words.x, words.y}, {}, {}};
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const shared_block &row = x[2 * t + i];
        in.d[i] = row.d;
        if (F::HAS_MINIMUM) {
            in.sums[i][0] = row.sums[0];
            in.sums[i][1] = row.sums[1];
        }
    }
    return in;
}

/* acc[4], in the fragment of D, goes on by one block of 8 rows. */
template <typename F>
__device__ void fold_block(float acc[4], const lh_fragment &w, const row_inputs &x) {
    int32_t dots[2][4] = {};
    lh_multiply_fragment<F>(dots, w, x.q);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float2 term = lh_block_term<F>(w.scales[i / 2], dots[0][i], dots[1][i], x.d[i % 2],
                                             x.sums[i % 2][0], x.sums[i % 2][1]);
        acc[i] = lh_fma(term.x, term.y, acc[i]);
    }
}

/* The fragment of D: what an output begins with, and where it ends. */
template <uint32_t N>
__device__ void begin_sums(float acc[N][4], const lh_product_arguments &a, uint32_t first_row,
                           uint32_t tile_output) {
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
}

template <uint32_t N>
__device__ void put_sums(const float acc[N][4], const lh_product_arguments &a, uint32_t first_row,
                         uint32_t tile_output) {
#pragma unroll
    for (uint32_t n = 0; n < N; n++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = first_row + 8 * n + lh_fragment_row(i),
                           output = tile_output + lh_fragment_output(i);
            if (row < a.rows && output < a.out.end)
                a.y[row * a.y_stride + output] = lh_ended(a.experts, 0, row, output, acc[n][i]);
        }
}

/* Types whose blocks take many registers: two blocks of threads are on a multiprocessor at once,
 * of the others three. */
template <typename F> constexpr bool is_large() {
    return F::HIGH > 0 || F::HAS_HALVES || F::HAS_MINIMUM || F::LOW == 8 ||
           (F::HAS_LEVELS && F::HAS_BLOCK_SCALE);
}

/* Each warp has TILES tiles of 16 outputs, and all ROWS rows of them. Past the last tile outputs
 * are none of the last product's. */
template <typename F, uint32_t TILES, uint32_t ROWS>
__global__ void __launch_bounds__(THREADS, is_large<F>() ? 2 : 3)
    tile_products(lh_product_arguments a) {
    lh_let_next_begin();
    const uint32_t N = ROWS / 8, COPIES = STAGE_TERMS * ROWS / THREADS,
                   AHEAD = TILES == 1 ? STAGE_TERMS : 1;
    LH_SHARED(stages<ROWS>, shared);
    const uint32_t first_tile = (blockIdx.x * WARPS + threadIdx.x / 32) * TILES;
    const uint32_t first_row = blockIdx.y * ROWS, first_block = a.in.begin / LH_BLOCK;
    const uint32_t count = (a.in.end - a.in.begin) / LH_BLOCK * a.parts;
    const uint8_t *tiles[TILES];
    lh_stored_fragment<F> next[TILES][AHEAD] = {};
    lh_product_arguments mine = a;
    const uint32_t first_output =
        TILES == 1 ? lh_pick_tile(mine, first_tile) : a.out.begin + first_tile * LH_LANES;
    const bool has_tile = first_output < mine.out.end;
#pragma unroll
    for (uint32_t m = 0; m < TILES; m++) {
        const uint32_t output = first_output + m * LH_LANES;
        tiles[m] =
            mine.w.data +
            (size_t)((output < mine.out.end ? output : mine.out.begin) / LH_LANES) * a.w.tile_bytes;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++)
            if (i == 0 || i < count)
                next[m][i] = lh_load_fragment<F>(a.w, tiles[m], first_block + lh_term_block(a, i));
    }
    lh_await_grids_before();
    float acc[TILES][N][4];
#pragma unroll
    for (uint32_t m = 0; m < TILES; m++)
        begin_sums<N>(acc[m], mine, first_row, first_output + m * LH_LANES);

    shared_block copies[COPIES];
#pragma unroll
    for (uint32_t c = 0; c < COPIES; c++) {
        const uint32_t unit = c * THREADS + threadIdx.x;
        shared.of[0][unit % STAGE_TERMS][unit / STAGE_TERMS] =
            fetch(a, first_row + unit / STAGE_TERMS, first_block, unit % STAGE_TERMS, count);
    }
    __syncthreads();
    for (uint32_t stage = 0, begin = 0; begin < count; stage++, begin += STAGE_TERMS) {
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) {
            const uint32_t unit = c * THREADS + threadIdx.x;
            copies[c] = fetch(a, first_row + unit / STAGE_TERMS, first_block,
                              begin + STAGE_TERMS + unit % STAGE_TERMS, count);
        }
        for (uint32_t s = 0; s < STAGE_TERMS && has_tile; s += AHEAD)
#pragma unroll
            for (uint32_t i = 0; i < AHEAD; i++) {
                const uint32_t term = begin + s + i;
                if (term >= count)
                    break;
                lh_fragment w[TILES];
#pragma unroll
                for (uint32_t m = 0; m < TILES; m++) {
                    w[m] = lh_unpacked<F>(next[m][i], a.w);
                    if (term + AHEAD < count)
                        next[m][i] = lh_load_fragment<F>(
                            a.w, tiles[m], first_block + lh_term_block(a, term + AHEAD));
                }
                const shared_block *x = shared.of[stage % 2][s + i];
#pragma unroll
                for (uint32_t n = 0; n < N; n++) {
                    const row_inputs in = read_rows<F>(x + 8 * n);
#pragma unroll
                    for (uint32_t m = 0; m < TILES; m++)
                        fold_block<F>(acc[m][n], w[m], in);
                }
            }
#pragma unroll
        for (uint32_t c = 0; c < COPIES; c++) {
            const uint32_t unit = c * THREADS + threadIdx.x;
            shared.of[(stage + 1) % 2][unit % STAGE_TERMS][unit / STAGE_TERMS] = copies[c];
        }
        __syncthreads();
    }

    /* again, since kept they would take registers */
    if (TILES == 1)
        lh_pick_tile(a, first_tile);
#pragma unroll
    for (uint32_t m = 0; m < TILES; m++)
        put_sums<N>(acc[m], a, first_row, first_output + m * LH_LANES);
}

template <typename F, uint32_t TILES, uint32_t ROWS>
int launch(lh_cuda_stream stream, const lh_product_arguments &a) {
    const dim3 grid(lh_blocks_for(lh_tiles_of_all(a), WARPS * TILES), lh_blocks_for(a.rows, ROWS));
    return lh_launch(tile_products<F, TILES, ROWS>, grid, THREADS, stream, a);
}

/* Blocks of threads that a large GPU has room for: fewer leave some of it idle. */
#ifndef LH_BLOCKS_ENOUGH
#define LH_BLOCKS_ENOUGH 256u
#endif

/* Two tiles share what is read of 8 rows, where there are enough of them, which are one product's,
 * and the type leaves registers; where rows are few and blocks of 64 would be, those are halved. */
template <typename F> int launch_tiles(lh_cuda_stream stream, const lh_product_arguments &a) {
    const uint32_t TILES = is_large<F>() ? 1 : 2;
    const uint64_t blocks =
        (uint64_t)lh_blocks_for(lh_tiles_of_all(a), WARPS) * lh_blocks_for(a.rows, ROWS_MAX);
    if (a.rows > ROWS_MAX && blocks >= TILES * LH_BLOCKS_ENOUGH)
        return launch<F, TILES, ROWS_MAX>(stream, a);
    return blocks >= LH_BLOCKS_ENOUGH && a.rows > ROWS_MAX / 2
               ? launch<F, 1, ROWS_MAX>(stream, a)
               : launch<F, 1, ROWS_MAX / 2>(stream, a);
}

} // namespace

int lh_tile_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    return lh_with_form(dtype, [&](auto form) { return launch_tiles<decltype(form)>(stream, a); });
}
