/* Gated activations: function(gate) * up. */
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/gelu.h"

namespace {

struct gate_arguments {
    float *y;
    const float *gate, *up;
    size_t stride;
    uint32_t rows;
    lh_span columns;
};

/* What is no number stays none. */
__device__ float at_most(float v, float limit) {
    return v > limit ? limit : v;
}

struct silu {
    static __device__ float of(float gate, float up) {
        return gate / (1.0f + lh_exp(-gate)) * up;
    }
};

struct gelu {
    static __device__ float of(float gate, float up) {
        const float slope = lh_fma(gate * gate, LH_GELU_CUBIC, LH_GELU_LINEAR);
        return gate / (1.0f + lh_exp(gate * slope)) * up;
    }
};

struct swiglu {
    static __device__ float of(float gate, float up) {
        const float g = at_most(gate, LH_SWIGLU_LIMIT),
                    u = -at_most(-at_most(up, LH_SWIGLU_LIMIT), LH_SWIGLU_LIMIT);
        return g / (1.0f + lh_exp(g * -LH_SWIGLU_ALPHA)) * (u + 1.0f);
    }
};

template <typename F>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) gate_rows(gate_arguments a) {
    lh_begin();
    const uint32_t c = a.columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (c >= a.columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        const size_t i = row * a.stride + c;
        a.y[i] = F::of(a.gate[i], a.up[i]);
    }
}

template <typename F> int launch(lh_cuda_stream stream, const gate_arguments &a) {
    if (a.rows == 0 || lh_is_empty(a.columns))
        return 0;
    const dim3 grid(lh_blocks_for(a.columns.end - a.columns.begin, LH_BLOCK_THREADS),
                    lh_grid_rows(a.rows));
    return lh_launch(gate_rows<F>, grid, LH_BLOCK_THREADS, stream, a);
}

} // namespace

int lh_cuda_silu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                     size_t stride, uint32_t rows, lh_span columns) {
    return launch<silu>(stream, {y, gate, up, stride, rows, columns});
}

int lh_cuda_gelu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                     size_t stride, uint32_t rows, lh_span columns) {
    return launch<gelu>(stream, {y, gate, up, stride, rows, columns});
}

int lh_cuda_swiglu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                       size_t stride, uint32_t rows, lh_span columns) {
    return launch<swiglu>(stream, {y, gate, up, stride, rows, columns});
}
