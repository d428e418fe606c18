/* What leaves a stage, packed as common/protocol/wire_f16.c and wire_q8.c pack it, to the bit.
 *
 * Few blocks of threads, as many as the caller allows, go over all of it, so that a product that
 * computes meanwhile keeps the other multiprocessors. Eight threads have a block of 32 numbers,
 * four numbers each; each thread's four loads are on their way at once. */
#include "kernels/cuda/quantize.cuh"

extern "C" {
#include "kernels/layout.h"
}

namespace {

const uint32_t THREADS = 512, EACH = 4, LANES = LH_BLOCK / EACH, UNITS = THREADS / LANES;

struct wire_arguments {
    uint8_t *bytes;
    uint32_t *refused;
    const float *x;
    size_t stride;
    uint32_t rows, columns;
};

/* The numbers of a thread, which lie `count` to the end of the row; zeros beyond. */
struct numbers {
    float v[EACH];
    uint32_t count;
    uint32_t greatest; /* bits of the block's greatest magnitude */
};

__device__ numbers load_numbers(const wire_arguments &a, uint32_t row, uint32_t column) {
    const uint32_t left = column < a.columns ? a.columns - column : 0;
    numbers n = {{}, left < EACH ? left : EACH, 0};
    const float *x = a.x + row * a.stride + column;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        n.v[i] = i < n.count ? x[i] : 0.0f;
        const uint32_t magnitude = __float_as_uint(n.v[i]) & 0x7fffffffu;
        n.greatest = magnitude > n.greatest ? magnitude : n.greatest;
    }
    n.greatest = lh_greatest_of_lanes<LANES>(n.greatest);
    return n;
}

const uint32_t F32_INFINITY = 0x7f800000u, F16_MAX = 0x7bffu,
               F16_MAX_AS_F32 = 0x477fe000u, /* 65504 */
    F16_MIN_NORMAL_AS_F32 = 0x38800000u;     /* 2^-14 */

/* What a block needs besides its numbers; UINT32_MAX: it cannot be packed. Of F16 an exponent. */
__device__ uint32_t exponent_for(uint32_t greatest) {
    const uint32_t EXPONENT_MAX = 112;
    if (greatest <= F16_MAX_AS_F32)
        return 0;
    if (greatest >= F32_INFINITY)
        return UINT32_MAX;
    const uint32_t exponent = (greatest >> 23) - (F16_MAX_AS_F32 >> 23) +
                              ((greatest & 0x7fffffu) > (F16_MAX_AS_F32 & 0x7fffffu) ? 1u : 0u);
    return exponent > EXPONENT_MAX ? UINT32_MAX : exponent;
}

/* Of Q8 a scale: binary16, or with bit 15 a bfloat16. */
__device__ uint32_t scale_for(uint32_t greatest) {
    if (greatest >= F32_INFINITY)
        return UINT32_MAX;
    const uint32_t bits = __float_as_uint(__uint_as_float(greatest) / 127.0f);
    uint32_t scale = 0x8000u | (bits + 0xffffu) >> 16;
    if (bits == 0 || (bits >= F16_MIN_NORMAL_AS_F32 && bits <= F16_MAX_AS_F32))
        scale = bits == 0 ? 0 : (bits - (112u << 23) + 0x1fffu) >> 13;
    return (scale & 0x7fffu) > F16_MAX ? UINT32_MAX : scale;
}

/* A scale that is not 0. */
__device__ float value_of_scale(uint32_t scale) {
    const uint32_t magnitude = scale & 0x7fffu;
    if (scale & 0x8000u)
        return __uint_as_float(magnitude << 16);
    return magnitude < 0x400u ? (float)magnitude * 0x1p-24f
                              : __uint_as_float((magnitude << 13) + (112u << 23));
}

struct wire_f16 {
    static constexpr uint32_t VALUE_BYTES = 2, BLOCK_BYTES = 1;
    static __device__ uint32_t besides(uint32_t greatest) {
        return exponent_for(greatest);
    }
    static __device__ void store(uint8_t *to, const numbers &n, uint32_t exponent) {
        const float scale = __uint_as_float((127u - exponent) << 23);
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++)
            if (i < n.count)
                ((uint16_t *)to)[i] = lh_round_f16(n.v[i] * scale);
    }
};

struct wire_q8 {
    static constexpr uint32_t VALUE_BYTES = 1, BLOCK_BYTES = 2;
    static __device__ uint32_t besides(uint32_t greatest) {
        return scale_for(greatest);
    }
    static __device__ void store(uint8_t *to, const numbers &n, uint32_t scale) {
        const float divisor = scale > 0 ? value_of_scale(scale) : 1.0f;
        /* added, it leaves a small number rounded in the low bits */
        const float rounder = 0x1.8p23f;
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++)
            if (i < n.count)
                to[i] = (uint8_t)(__float_as_uint(n.v[i] / divisor + rounder) -
                                  __float_as_uint(rounder));
    }
};

template <typename W> __global__ void __launch_bounds__(THREADS) pack_wire(wire_arguments a) {
    lh_begin();
    const uint32_t row_blocks = (a.columns + LH_BLOCK - 1) / LH_BLOCK, count = a.rows * row_blocks;
    const uint32_t lane = threadIdx.x % LANES;
    uint8_t *blocks = a.bytes + (size_t)a.rows * a.columns * W::VALUE_BYTES;
    /* the four blocks of a warp go on together: those beyond the last one are packed for nobody */
    for (uint32_t first = blockIdx.x * UNITS; first < count; first += gridDim.x * UNITS) {
        const uint32_t unit = first + threadIdx.x / LANES;
        const uint32_t row = unit / row_blocks, column = unit % row_blocks * LH_BLOCK + lane * EACH;
        const numbers n = load_numbers(a, row, unit < count ? column : a.columns);
        const uint32_t besides = W::besides(n.greatest);
        if (unit >= count)
            continue;
        if (besides == UINT32_MAX) {
            *a.refused = 1;
            continue;
        }
        W::store(a.bytes + ((size_t)row * a.columns + column) * W::VALUE_BYTES, n, besides);
        if (lane < W::BLOCK_BYTES)
            blocks[(size_t)unit * W::BLOCK_BYTES + lane] = (uint8_t)(besides >> 8 * lane);
    }
}

} // namespace

size_t lh_cuda_wire_bytes(lh_cuda_wire wire, uint32_t rows, uint32_t columns) {
    const size_t blocks = lh_blocks_for(columns, LH_BLOCK),
                 each = wire == LH_CUDA_WIRE_F16
                            ? columns * wire_f16::VALUE_BYTES + blocks * wire_f16::BLOCK_BYTES
                            : columns * wire_q8::VALUE_BYTES + blocks * wire_q8::BLOCK_BYTES;
    return rows * each;
}

int lh_cuda_pack_wire(lh_cuda_stream stream, lh_cuda_wire wire, uint8_t *bytes, uint32_t *refused,
                      const float *x, size_t stride, uint32_t rows, uint32_t columns,
                      uint32_t blocks) {
    if (rows == 0 || columns == 0)
        return 0;
    const uint32_t wanted = lh_blocks_for((uint64_t)rows * lh_blocks_for(columns, LH_BLOCK), UNITS);
    return lh_launch(wire == LH_CUDA_WIRE_F16 ? pack_wire<wire_f16> : pack_wire<wire_q8>,
                     wanted < blocks ? wanted : blocks, THREADS, stream,
                     wire_arguments{bytes, refused, x, stride, rows, columns});
}
