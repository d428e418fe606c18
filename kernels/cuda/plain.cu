/* Four inputs a thread: threads that are neighbours have neighbouring outputs of a tile, as these
 * lie in it, and write 8 bytes of rows that the next ones complete. */
#include "kernels/cuda/plain.cuh"

#include "kernels/cuda/dequantize.cuh"

namespace {

struct to_f32 {
    typedef float number;
    static __device__ float of(float value) {
        return value;
    }
};

struct to_f16 {
    typedef uint16_t number;
    static constexpr bool IS_SCALED = true;
    static __device__ uint16_t of(float value) {
        return lh_round_f16(value);
    }
};

struct to_bf16 {
    typedef uint16_t number;
    static constexpr bool IS_SCALED = false;
    /* To nearest even; a number that is none stays so. */
    static __device__ uint16_t of(float value) {
        const uint32_t bits = __float_as_uint(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            return (uint16_t)(bits >> 16 | 0x40u);
        return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
};

/* ---- Weights ---- */

struct weights_arguments {
    void *to;
    uint32_t stride;
    lh_weights w;
    lh_span in, out;
};

/* y = inputs [4 * group, 4 * group + 4) of a tile's output; those from `end` on are 0. */
template <typename W> struct float_source {
    static __device__ void read(float y[4], const lh_weights &, const uint8_t *tile, uint32_t group,
                                uint32_t lane, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t k = 4 * group + i;
            y[i] = k < end ? W::at(tile, (size_t)k * LH_LANES + lane) : 0.0f;
        }
    }
};

template <typename F> struct quant_source {
    static __device__ void read(float y[4], const lh_weights &w, const uint8_t *tile,
                                uint32_t group, uint32_t lane, uint32_t) {
        lh_dequantize<F>(y, w, tile, group, lane);
    }
};

template <typename SOURCE, typename TO>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) plain_weights(weights_arguments a) {
    lh_begin();
    const uint32_t thread = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    const uint32_t lane = thread % LH_LANES, begin = thread / LH_LANES * 4;
    if (begin >= a.in.end - a.in.begin)
        return;
    for (uint32_t first = a.out.begin + blockIdx.y * LH_LANES; first < a.out.end;
         first += gridDim.y * LH_LANES) {
        if (first + lane >= a.out.end)
            return;
        float values[4];
        SOURCE::read(values, a.w, a.w.data + (size_t)(first / LH_LANES) * a.w.tile_bytes,
                     (a.in.begin + begin) / 4, lane, a.in.end);
        typename TO::number *to =
            (typename TO::number *)a.to + (size_t)(first + lane - a.out.begin) * a.stride + begin;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            to[i] = TO::of(values[i]);
    }
}

template <typename SOURCE, typename TO>
int launch_weights(lh_cuda_stream stream, const weights_arguments &a) {
    const uint32_t groups = lh_blocks_for(a.in.end - a.in.begin, 4);
    const dim3 grid(lh_blocks_for((uint64_t)groups * LH_LANES, LH_BLOCK_THREADS),
                    lh_grid_rows(lh_blocks_for(a.out.end - a.out.begin, LH_LANES)));
    return lh_launch(plain_weights<SOURCE, TO>, grid, LH_BLOCK_THREADS, stream, a);
}

/* ---- Activations ---- */

/* A warp has a row, and a block of threads some. */
const uint32_t WARPS = LH_BLOCK_THREADS / 32;
/* Where the greatest of a row comes to, as an exponent, and the most that a small row is raised. */
const int GREATEST = 14, RAISED = 40;

struct rows_arguments {
    void *to;
    uint32_t stride;
    float *down, *up;
    const void *x;
    uint32_t width, parts; /* as in lh_product_arguments */
    lh_span rows, in;
};

__device__ float activation(const rows_arguments &a, uint32_t row, uint32_t k) {
    if (a.parts == 0)
        return ((const float *)a.x)[(size_t)row * a.width + k];
    const lh_q8_block *block =
        (const lh_q8_block *)a.x + ((size_t)row * (a.width / LH_BLOCK) + k / LH_BLOCK) * a.parts;
    float value = block->d * (float)block->q[k % LH_BLOCK];
    if (a.parts == 2)
        value = lh_fma(block[1].d, (float)block[1].q[k % LH_BLOCK], value);
    return value;
}

/* The exponent of the power of two by which the warp's row is scaled. */
__device__ int shift_of(const rows_arguments &a, uint32_t row, uint32_t lane) {
    uint32_t greatest = 0; /* bits of magnitudes are in the order of these */
    for (uint32_t k = a.in.begin + lane; k < a.in.end; k += 32) {
        const uint32_t bits = __float_as_uint(activation(a, row, k)) & 0x7fffffffu;
        greatest = bits > greatest ? bits : greatest;
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
        const uint32_t other = __shfl_xor_sync(~0u, greatest, apart);
        greatest = other > greatest ? other : greatest;
    }
    const int shift = GREATEST - ((int)(greatest >> 23) - 127);
    return shift < RAISED ? shift : RAISED;
}

__device__ float power_of_two(int exponent) {
    return __uint_as_float((uint32_t)(127 + exponent) << 23);
}

template <typename TO>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) plain_rows(rows_arguments a) {
    lh_begin();
    const uint32_t lane = threadIdx.x % 32, count = a.rows.end - a.rows.begin;
    for (uint32_t first = blockIdx.x * WARPS; first < count; first += gridDim.x * WARPS) {
        const uint32_t nth = first + threadIdx.x / 32, row = a.rows.begin + nth;
        if (nth >= count)
            return;
        const int shift = TO::IS_SCALED ? shift_of(a, row, lane) : 0;
        const float down = power_of_two(shift);
        if (lane == 0) {
            a.down[nth] = down;
            a.up[nth] = power_of_two(-shift);
        }
        typename TO::number *to = (typename TO::number *)a.to + (size_t)nth * a.stride;
        for (uint32_t k = a.in.begin + lane; k < a.in.end; k += 32)
            to[k - a.in.begin] = TO::of(activation(a, row, k) * down);
    }
}

} // namespace

int lh_plain_weights(lh_cuda_stream stream, void *to, uint32_t stride, const lh_matrix *w,
                     lh_span in, lh_span out) {
    const weights_arguments a = {to, stride, lh_weights_of(w), in, out};
    if (w->dtype == LH_DTYPE_F32)
        return launch_weights<float_source<lh_f32_weights>, to_f32>(stream, a);
    if (w->dtype == LH_DTYPE_F16)
        return launch_weights<float_source<lh_f16_weights>, to_f16>(stream, a);
    if (w->dtype == LH_DTYPE_BF16)
        return launch_weights<float_source<lh_bf16_weights>, to_bf16>(stream, a);
    return lh_with_form(w->dtype, [&](auto form) {
        return launch_weights<quant_source<decltype(form)>, to_f16>(stream, a);
    });
}

int lh_plain_rows(lh_cuda_stream stream, void *to, lh_dtype type, uint32_t stride, float *down,
                  float *up, const lh_activations *x, lh_span rows, lh_span in) {
    const uint32_t parts = x->kind == LH_ACTIVATION_F32 ? 0 : lh_activations_parts(x->kind);
    const rows_arguments a = {to, stride, down, up, x->data, x->width, parts, rows, in};
    const uint32_t blocks = lh_grid_rows(lh_blocks_for(rows.end - rows.begin, WARPS));
    return lh_launch(type == LH_DTYPE_F16 ? plain_rows<to_f16> : plain_rows<to_bf16>, blocks,
                     LH_BLOCK_THREADS, stream, a);
}
