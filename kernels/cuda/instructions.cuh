/* The instructions that kernels ask for by name, the only PTX there is, and how kernels are
 * launched. The emulation (tests/cuda/emulation) has its own bodies of them.
 *
 * A sum of products is fused where kernels.h writes fma and nowhere else: fma comes from lh_fma,
 * the compiler makes none (-fmad=false), and tests/cuda/test_ptx.py reads what it made. */
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>

#define LH_SHARED(type, name) __shared__ type name

/* Since 9.0 a grid may begin before the one before it has ended. LH_CUDA_EARLY: all code that such
 * GPUs run has the instructions by which it waits then (cmake/cuda.cmake). Not on 12.0, of which
 * others report that such launches cannot be recorded. */
static inline bool lh_begins_early() {
#ifdef LH_CUDA_EARLY
    int device, major;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           (major == 9 || major == 10);
#else
    return false;
#endif
}

/* Enqueues the kernel; the CUDA runtime's error number, 0 where there is none. */
template <typename... P, typename... A>
int lh_launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = grid;
    launch.blockDim = block;
    launch.stream = stream;
    launch.attrs = &early;
    launch.numAttrs = lh_begins_early() ? 1 : 0;
    return (int)cudaLaunchKernelEx(&launch, kernel, arguments...);
}

#define INSTRUCTION __device__ __forceinline__
#else
#define INSTRUCTION
#endif

/* How grids of a stream follow each other ("Programmatic Dependent Launch" in CUDA's programming
 * guide), which hides the start of a short one behind the end of another. Once every block of a
 * grid has let the next one begin, blocks of that take what room is left, and go as far as they do
 * not need what the grids before have written: weights are read ahead so. Every thread waits once,
 * also one that has nothing to do; then all that the grids before wrote is there. */
INSTRUCTION void lh_let_next_begin();
INSTRUCTION void lh_await_grids_before();
/* Of kernels that have nothing to do ahead. */
__device__ inline void lh_begin() {
    lh_let_next_begin();
    lh_await_grids_before();
}

/* a * b + c, rounded once. */
INSTRUCTION float lh_fma(float a, float b, float c);

INSTRUCTION float lh_widen_f16(uint16_t half);
/* To nearest even; infinity beyond 65504. */
INSTRUCTION uint16_t lh_round_f16(float value);

/* Products of int8 by a whole warp: d[16 outputs][8 rows] = a[16][32] b[32][8], in the fragments of
 * mma.m16n8k32 (PTX ISA): the thread at `lane` has
 *   a  of outputs lane / 4 (words 0, 2) and lane / 4 + 8 (1, 3), of inputs 4 * (lane % 4) and the
 *      next three (0, 1), and those 16 further (2, 3)
 *   b  of row lane / 4, the same inputs (word 0, and 1)
 *   d  of outputs lane / 4 (0, 1) and lane / 4 + 8 (2, 3), rows 2 * (lane % 4) (0, 2) and the
 *      next (1, 3) */
INSTRUCTION void lh_multiply_block(int32_t d[4], const uint32_t a[4], const uint32_t b[2]);
/* The same of 16 inputs: the first two words of a, the first of b. */
INSTRUCTION void lh_multiply_half(int32_t d[4], const uint32_t a[2], uint32_t b);

#ifdef __CUDACC__
INSTRUCTION void lh_let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

INSTRUCTION void lh_await_grids_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

INSTRUCTION float lh_fma(float a, float b, float c) {
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

INSTRUCTION float lh_widen_f16(uint16_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

INSTRUCTION uint16_t lh_round_f16(float value) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

#if __CUDA_ARCH__ >= 800
INSTRUCTION void lh_multiply_block(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}

INSTRUCTION void lh_multiply_half(int32_t d[4], const uint32_t a[2], uint32_t b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%7, %7, %7, %7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "r"(0));
}
#else
/* Turing has tiles of 8 outputs and 16 inputs, whose fragments are the parts of the larger ones. */
INSTRUCTION void lh_multiply_eighth(int32_t d[2], uint32_t a, uint32_t b, const int32_t c[2]) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a), "r"(b), "r"(c[0]), "r"(c[1]));
}

INSTRUCTION void lh_multiply_half(int32_t d[4], const uint32_t a[2], uint32_t b) {
    const int32_t zero[2] = {0, 0};
    lh_multiply_eighth(d, a[0], b, zero);
    lh_multiply_eighth(d + 2, a[1], b, zero);
}

INSTRUCTION void lh_multiply_block(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) {
    int32_t first[4];
    lh_multiply_half(first, a, b[0]);
    lh_multiply_eighth(d, a[2], b[1], first);
    lh_multiply_eighth(d + 2, a[3], b[1], first + 2);
}
#endif
#endif
