/* RMSNorm where it is not deferred. A half warp has the 16 lanes of the sum of squares, each of
 * which is one chain. */
#include "kernels/cuda/grid.cuh"

namespace {

__device__ float inverse_rms(float lane, uint32_t width, float epsilon) {
    return 1.0f / sqrtf(lh_lane_sum(lane) / (float)width + epsilon);
}

/* Lane `lane` of the sum of squares of x[count]. */
__device__ float sum_lane(const float *x, uint32_t count, uint32_t lane) {
    float sum = 0;
    for (uint32_t i = lane; i < count; i += LH_LANES)
        sum = lh_fma(x[i], x[i], sum);
    return sum;
}

/* A half warp for each head. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    norm_heads(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
               const float *gain, float epsilon) {
    lh_begin();
    const uint64_t half =
        (uint64_t)blockIdx.x * (LH_BLOCK_THREADS / LH_LANES) + threadIdx.x / LH_LANES;
    const uint32_t lane = threadIdx.x % LH_LANES;
    const bool is_head = half < (uint64_t)rows * heads;
    float *head = is_head ? x + half / heads * stride + half % heads * head_dim : x;
    const float scale =
        inverse_rms(is_head ? sum_lane(head, head_dim, lane) : 0.0f, head_dim, epsilon);
    for (uint32_t d = lane; is_head && d < head_dim; d += LH_LANES)
        head[d] = head[d] * scale * gain[d];
}

struct row_scale {
    float inverse;
};

/* A block for each row, whose first warp sums the squares. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    norm_add(float *y, const float *x, size_t stride, uint32_t width, const float *gain,
             float epsilon) {
    lh_begin();
    LH_SHARED(row_scale, shared);
    const float *from = x + blockIdx.x * stride;
    float *to = y + blockIdx.x * stride;
    if (threadIdx.x < 32) {
        const float inverse =
            inverse_rms(sum_lane(from, width, threadIdx.x % LH_LANES), width, epsilon);
        if (threadIdx.x == 0)
            shared.inverse = inverse;
    }
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < width; c += LH_BLOCK_THREADS)
        to[c] = lh_fma(from[c] * gain[c], shared.inverse, to[c]);
}

} // namespace

int lh_cuda_norm_heads(lh_cuda_stream stream, float *x, size_t stride, uint32_t rows,
                       uint32_t heads, uint32_t head_dim, const float *gain, float epsilon) {
    if (rows == 0 || heads == 0)
        return 0;
    const uint32_t blocks = lh_blocks_for((uint64_t)rows * heads, LH_BLOCK_THREADS / LH_LANES);
    return lh_launch(norm_heads, blocks, LH_BLOCK_THREADS, stream, x, stride, rows, heads, head_dim,
                     gain, epsilon);
}

int lh_cuda_norm_add(lh_cuda_stream stream, float *y, const float *x, size_t stride, uint32_t rows,
                     uint32_t width, const float *gain, float epsilon) {
    if (rows == 0 || width == 0)
        return 0;
    return lh_launch(norm_add, rows, LH_BLOCK_THREADS, stream, y, x, stride, width, gain, epsilon);
}
