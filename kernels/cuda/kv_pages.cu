/* Keys and values into the pages of the KV cache, which lie as on the CPU (kernels.h). */
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/rope.cuh"

extern "C" {
#include "kernels/layout.h"
}

namespace {

struct store_arguments {
    lh_kv_shape shape;
    size_t key_group_bytes;            /* 16 interleaved keys of a head */
    size_t value_head_bytes;           /* the values of a head in a page */
    uint32_t key_blocks, value_blocks; /* of 32 numbers of a row */
    const lh_cuda_kv_place *places;
    size_t offset;
    uint32_t rows;
    const float *keys, *values;
    size_t key_stride, value_stride;
    lh_cuda_rotation rotation;
};

/* Number `index` of a row goes to place index * step behind `row`, the scale of its block to
 * scale[0]. */
template <lh_kv_type TYPE>
__device__ void store_number(void *row, float *scale, uint32_t step, uint32_t index, bool is_number,
                             float v) {
    if (TYPE == LH_KV_F32 && is_number)
        ((float *)row)[(size_t)index * step] = v;
    if (TYPE == LH_KV_F16 && is_number)
        ((uint16_t *)row)[(size_t)index * step] = lh_round_f16(v);
    if (TYPE == LH_KV_Q8) {
        const lh_quantized mine = lh_quantize(v);
        if (is_number)
            ((int8_t *)row)[(size_t)index * step] = (int8_t)mine.q;
        if (threadIdx.x % 32 == 0)
            *scale = mine.d;
    }
}

template <lh_kv_type TYPE> __device__ constexpr uint32_t number_bytes() {
    return TYPE == LH_KV_F32 ? 4 : TYPE == LH_KV_F16 ? 2 : 1;
}

template <lh_kv_type TYPE>
__device__ void store_key(const store_arguments &a, uint32_t row, uint32_t head, uint32_t block) {
    const lh_cuda_kv_place place = a.places[row];
    const uint32_t dim = a.shape.key_dim, d = block * LH_BLOCK + threadIdx.x % 32;
    const uint32_t slot = place.position % LH_KV_PAGE_POSITIONS, lane = slot % LH_LANES;
    uint8_t *group =
        (uint8_t *)place.key_page + a.offset +
        ((size_t)head * (LH_KV_PAGE_POSITIONS / LH_LANES) + slot / LH_LANES) * a.key_group_bytes;
    float *scales = (float *)(group + (size_t)dim * LH_LANES);
    const lh_cuda_rotation &turn = a.rotation;
    const size_t angles = (size_t)row * (turn.rotated / 2);
    const float *key = a.keys + row * a.key_stride + (size_t)head * dim;
    const float v = d < dim ? lh_rotated(key, d, turn.rotated, turn.interleaved,
                                         turn.cosine + angles, turn.sine + angles)
                            : 0.0f;
    store_number<TYPE>(group + lane * number_bytes<TYPE>(), scales + block * LH_LANES + lane,
                       LH_LANES, d, d < dim, v);
}

template <lh_kv_type TYPE>
__device__ void store_value(const store_arguments &a, uint32_t row, uint32_t head, uint32_t block) {
    const lh_cuda_kv_place place = a.places[row];
    const uint32_t dim = a.shape.value_dim, d = block * LH_BLOCK + threadIdx.x % 32;
    const uint32_t slot = place.position % LH_KV_PAGE_POSITIONS;
    uint8_t *page = (uint8_t *)place.value_page + a.offset + head * a.value_head_bytes;
    float *scales = (float *)(page + (size_t)dim * LH_KV_PAGE_POSITIONS);
    const float v = d < dim ? a.values[row * a.value_stride + (size_t)head * dim + d] : 0.0f;
    store_number<TYPE>(page + (size_t)slot * dim * number_bytes<TYPE>(),
                       scales + slot * a.value_blocks + block, 1, d, d < dim, v);
}

/* A warp for each 32 numbers of a key or value. */
template <lh_kv_type TYPE>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) store_rows(store_arguments a) {
    lh_begin();
    const uint32_t blocks = a.key_blocks + a.value_blocks;
    const uint32_t unit = blockIdx.x * (LH_BLOCK_THREADS / 32) + threadIdx.x / 32;
    const uint32_t head = unit / blocks, block = unit % blocks;
    if (head >= a.shape.kv_heads)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y)
        if (block < a.key_blocks)
            store_key<TYPE>(a, row, head, block);
        else
            store_value<TYPE>(a, row, head, block - a.key_blocks);
}

} // namespace

int lh_cuda_kv_store(lh_cuda_stream stream, const lh_kv_shape *shape,
                     const lh_cuda_kv_place *places, size_t offset, uint32_t rows,
                     const float *keys, size_t key_stride, const float *values, size_t value_stride,
                     lh_cuda_rotation rotation) {
    const store_arguments a = {*shape,
                               LH_LANES * lh_kv_row_bytes(shape->type, shape->key_dim),
                               LH_KV_PAGE_POSITIONS *
                                   lh_kv_row_bytes(shape->type, shape->value_dim),
                               lh_blocks_for(shape->key_dim, LH_BLOCK),
                               lh_blocks_for(shape->value_dim, LH_BLOCK),
                               places,
                               offset,
                               rows,
                               keys,
                               values,
                               key_stride,
                               value_stride,
                               rotation};
    const uint64_t units = (uint64_t)shape->kv_heads * (a.key_blocks + a.value_blocks);
    if (rows == 0 || units == 0)
        return 0;
    const dim3 grid(lh_blocks_for(units, LH_BLOCK_THREADS / 32), lh_grid_rows(rows));
    return lh_launch(shape->type == LH_KV_F32   ? store_rows<LH_KV_F32>
                     : shape->type == LH_KV_F16 ? store_rows<LH_KV_F16>
                                                : store_rows<LH_KV_Q8>,
                     grid, LH_BLOCK_THREADS, stream, a);
}
