/* What works on each element alone: scales, biases, residuals, copies. */
#include "kernels/cuda/grid.cuh"

namespace {

/* y[row][column] = function(row, column, y[row][column]), a thread for each column. */
template <typename F>
__device__ void for_each_element(float *y, size_t stride, uint32_t rows, lh_span columns,
                                 F function) {
    const uint32_t c = columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (c >= columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < rows; row += gridDim.y)
        y[row * stride + c] = function(row, c, y[row * stride + c]);
}

dim3 grid_for(uint32_t rows, lh_span columns) {
    return dim3(lh_blocks_for(columns.end - columns.begin, LH_BLOCK_THREADS), lh_grid_rows(rows));
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    scale_rows(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale) {
    lh_begin();
    for_each_element(y, stride, rows, columns,
                     [=](uint32_t row, uint32_t, float v) { return v * scale[row]; });
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    scale(float *y, size_t stride, uint32_t rows, lh_span columns, float factor) {
    lh_begin();
    for_each_element(y, stride, rows, columns,
                     [=](uint32_t, uint32_t, float v) { return v * factor; });
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    scale_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale,
                   const float *bias) {
    lh_begin();
    for_each_element(y, stride, rows, columns, [=](uint32_t row, uint32_t c, float v) {
        return lh_fma(v, scale[row], bias[c]);
    });
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    add_rows(float *y, size_t stride, uint32_t rows, lh_span columns, const float *scale,
             const float *bias) {
    lh_begin();
    for_each_element(y, stride, rows, columns, [=](uint32_t row, uint32_t c, float v) {
        return lh_fma(scale ? scale[row] : 1.0f, bias[c], v);
    });
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    copy_heads(float *y, size_t y_stride, size_t y_head_stride, const float *x, size_t x_stride,
               size_t x_head_stride, uint32_t rows, uint32_t heads, uint32_t width) {
    lh_begin();
    const uint32_t i = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x, head = i / width, c = i % width;
    if (head >= heads)
        return;
    for (uint32_t row = blockIdx.y; row < rows; row += gridDim.y)
        y[row * y_stride + head * y_head_stride + c] = x[row * x_stride + head * x_head_stride + c];
}

} // namespace

int lh_cuda_copy_heads(lh_cuda_stream stream, float *y, size_t y_stride, size_t y_head_stride,
                       const float *x, size_t x_stride, size_t x_head_stride, uint32_t rows,
                       uint32_t heads, uint32_t width) {
    if (rows == 0 || width == 0)
        return 0;
    return lh_launch(copy_heads, grid_for(rows, {0, heads * width}), LH_BLOCK_THREADS, stream, y,
                     y_stride, y_head_stride, x, x_stride, x_head_stride, rows, heads, width);
}

int lh_cuda_scale_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows,
                       lh_span columns, const float *scale) {
    if (rows == 0 || lh_is_empty(columns))
        return 0;
    return lh_launch(scale_rows, grid_for(rows, columns), LH_BLOCK_THREADS, stream, y, stride, rows,
                     columns, scale);
}

int lh_cuda_scale_add_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows,
                           lh_span columns, const float *scale, const float *bias) {
    if (rows == 0 || lh_is_empty(columns))
        return 0;
    return lh_launch(scale_add_rows, grid_for(rows, columns), LH_BLOCK_THREADS, stream, y, stride,
                     rows, columns, scale, bias);
}

int lh_cuda_add_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows, lh_span columns,
                     const float *scale, const float *bias) {
    if (rows == 0 || lh_is_empty(columns))
        return 0;
    return lh_launch(add_rows, grid_for(rows, columns), LH_BLOCK_THREADS, stream, y, stride, rows,
                     columns, scale, bias);
}

int lh_cuda_scale(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows, lh_span columns,
                  float factor) {
    if (rows == 0 || lh_is_empty(columns))
        return 0;
    return lh_launch(scale, grid_for(rows, columns), LH_BLOCK_THREADS, stream, y, stride, rows,
                     columns, factor);
}
