/* Rotary positions, in place. */
#include "kernels/cuda/rope.cuh"

namespace {

struct rope_arguments {
    float *x;
    size_t stride;
    uint32_t rows, heads, head_dim, rotated;
    bool interleaved;
    const float *cosine, *sine;
};

/* A thread for each pair, since both of it depend on both. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS) rope(rope_arguments a) {
    lh_begin();
    const uint32_t half = a.rotated / 2;
    const uint64_t pair = (uint64_t)blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (pair >= (uint64_t)a.heads * half)
        return;
    const uint32_t head = (uint32_t)(pair / half), i = (uint32_t)(pair % half);
    const uint32_t first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + half;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        float *v = a.x + row * a.stride + (size_t)head * a.head_dim;
        const float *cosine = a.cosine + (size_t)row * half, *sine = a.sine + (size_t)row * half;
        const float turned = lh_rotated(v, first, a.rotated, a.interleaved, cosine, sine);
        v[second] = lh_rotated(v, second, a.rotated, a.interleaved, cosine, sine);
        v[first] = turned;
    }
}

} // namespace

int lh_cuda_rope(lh_cuda_stream stream, float *x, size_t stride, uint32_t rows, uint32_t heads,
                 uint32_t head_dim, uint32_t rotated, bool interleaved, const float *cosine,
                 const float *sine) {
    const uint64_t pairs = (uint64_t)heads * (rotated / 2);
    if (rows == 0 || pairs == 0)
        return 0;
    const rope_arguments a = {x, stride, rows, heads, head_dim, rotated, interleaved, cosine, sine};
    return lh_launch(rope, dim3(lh_blocks_for(pairs, LH_BLOCK_THREADS), lh_grid_rows(rows)),
                     LH_BLOCK_THREADS, stream, a);
}
