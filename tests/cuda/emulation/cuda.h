/* What a kernel uses of CUDA, for a C++ compiler and a machine without a GPU: the test build puts
 * this header before each file of kernels/cuda (-include).
 *
 * Each thread of a block is a fiber. A fiber runs until it waits for others (a barrier, or an
 * operation of its warp), and then another one goes on, chosen at random among those that can; so
 * are the blocks of a grid taken. What a kernel computes may not depend on that order: a missing
 * barrier shows as a result that differs from the reference's for some seed. Stricter than a GPU:
 *   - all threads of a block come to each barrier, and all 32 of a warp to each of its operations,
 *     which is the same one for all: anything else aborts and says so;
 *   - shared memory is allocated for each block, filled with NaN, and of its own length, so that a
 *     sanitizer sees what lies beyond;
 *   - every thread waits for the grids before its own (lh_await_grids_before), and some blocks have
 *     come so far before those ran at all: what they read too early shows.
 * One block at a time; streams, events and memory are emulated by runtime.h. Not emulated: parts
 * of a warp, atomics on floats, clusters, asynchronous copies, dynamic shared memory. */
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tests/cuda/emulation/runtime.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    uint32_t x, y, z;
    dim3(uint32_t of_x = 1, uint32_t of_y = 1, uint32_t of_z = 1) : x(of_x), y(of_y), z(of_z) {
    }
};
inline float2 make_float2(float x, float y) {
    return {x, y};
}

namespace emulation {

/* Where the running thread stands. */
struct place {
    dim3 thread, block, block_dim, grid_dim;
};
const place &here();

/* Of all launches from here on: the order of threads and blocks. */
void set_seed(uint64_t seed);

/* Grids that were run, and blocks of them that had begun before. */
uint64_t grids();
uint64_t early_blocks();

void wait_for_block();
void wait_for_grids_before();

/* What the threads of a warp do together. Each gives words and gets words; `combine` sees those of
 * all 32 lanes once all have come. */
enum { WARP_THREADS = 32, WARP_WORDS = 12 };
struct warp_words {
    uint32_t given[WARP_THREADS][WARP_WORDS], taken[WARP_THREADS][WARP_WORDS];
};
typedef void warp_operation(warp_words *words);
void run_in_warp(warp_operation *combine, const uint32_t *given, uint32_t given_count,
                 uint32_t *taken, uint32_t taken_count);

/* The block's memory of `bytes` for what `key` stands for. */
void *shared_memory(const void *key, size_t bytes);

void check(bool holds, const char *what);

/* The operations; each wants the whole warp. */
uint32_t shuffle(uint32_t mask, uint32_t word, uint32_t source_lane);
uint32_t ballot(uint32_t mask, bool vote);

template <typename T> T shuffle_of(uint32_t mask, T value, uint32_t source_lane) {
    static_assert(sizeof(T) == sizeof(uint32_t));
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    word = shuffle(mask, word, source_lane);
    memcpy(&value, &word, sizeof word);
    return value;
}

} // namespace emulation

#define threadIdx (emulation::here().thread)
#define blockIdx  (emulation::here().block)
#define blockDim  (emulation::here().block_dim)
#define gridDim   (emulation::here().grid_dim)

#define LH_SHARED(type, name)                                                                      \
    static const char lh_key_of_##name = 0;                                                        \
    type &name = *static_cast<type *>(emulation::shared_memory(&lh_key_of_##name, sizeof(type)))

template <typename... P, typename... A>
int lh_launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments) {
    emulation::launch(stream, grid, block, [=] { kernel(arguments...); });
    return 0;
}

inline void __syncthreads() {
    emulation::wait_for_block();
}
inline void __syncwarp(uint32_t mask = ~0u) {
    emulation::ballot(mask, true);
}
/* A thread gives way at barriers and operations of its warp alone, so an atomic is what it says. */
inline void __threadfence() {
}
template <typename T> T atomicAdd(T *at, T value) {
    static_assert(std::is_integral<T>::value, "floats have no sum that is the same in any order");
    const T before = *at;
    *at += value;
    return before;
}
template <typename T> T atomicExch(T *at, T value) {
    const T before = *at;
    *at = value;
    return before;
}
template <typename T> T __shfl_sync(uint32_t mask, T value, int lane) {
    return emulation::shuffle_of(mask, value, static_cast<uint32_t>(lane) % 32);
}
template <typename T> T __shfl_xor_sync(uint32_t mask, T value, int lanes) {
    return emulation::shuffle_of(mask, value, threadIdx.x % 32 ^ static_cast<uint32_t>(lanes) % 32);
}
inline uint32_t __ballot_sync(uint32_t mask, int vote) {
    return emulation::ballot(mask, vote != 0);
}
inline int __any_sync(uint32_t mask, int vote) {
    return emulation::ballot(mask, vote != 0) != 0;
}
inline int __all_sync(uint32_t mask, int vote) {
    return emulation::ballot(mask, vote != 0) == ~0u;
}

/* c + the dot product of four int8 with four. */
int __dp4a(int a, int b, int c);
/* Bytes of y:x by the nibbles of `selector`; bit 3 of one repeats the byte's sign. */
uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector);

inline float __int2float_rn(int value) {
    return static_cast<float>(value);
}
inline int __float2int_rn(float value) {
    return static_cast<int>(nearbyintf(value));
}
inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline int __float_as_int(float value) {
    int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline uint32_t __float_as_uint(float value) {
    return static_cast<uint32_t>(__float_as_int(value));
}
inline float __uint_as_float(uint32_t bits) {
    return __int_as_float(static_cast<int>(bits));
}
