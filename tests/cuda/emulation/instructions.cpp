/* What single instructions compute, as the PTX manual has it: operations of a warp, products of
 * int8, permuted bytes, and the named wrappers of kernels/cuda/instructions.cuh. */
#include "kernels/cuda/instructions.cuh"

extern "C" {
#include "kernels/reference/reference.h"
}

namespace emulation {

static void move_words(warp_words *words) {
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        words->taken[lane][0] = words->given[words->given[lane][1]][0];
}

uint32_t shuffle(uint32_t mask, uint32_t word, uint32_t source_lane) {
    check(mask == ~0u, "a shuffle of a part of a warp");
    const uint32_t given[2] = {word, source_lane};
    uint32_t taken;
    run_in_warp(move_words, given, 2, &taken, 1);
    return taken;
}

static void count_votes(warp_words *words) {
    uint32_t votes = 0;
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        votes |= words->given[lane][0] << lane;
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        words->taken[lane][0] = votes;
}

uint32_t ballot(uint32_t mask, bool vote) {
    check(mask == ~0u, "a vote of a part of a warp");
    const uint32_t given = vote;
    uint32_t taken;
    run_in_warp(count_votes, &given, 1, &taken, 1);
    return taken;
}

static int32_t signed_byte(uint32_t word, uint32_t byte) {
    return static_cast<int8_t>(word >> 8 * byte);
}

/* D[16][8] = A[16][16 * HALVES] B[16 * HALVES][8] with the fragments of mma.m16n8k32 and, with one
 * half, m16n8k16 (PTX ISA, "Matrix fragments"): thread `lane` has
 *   in word i of A  row lane / 4 + 8 * (i % 2), column 16 * (i / 2) + 4 * (lane % 4) and three more
 *   in word i of B  rows 16 * i + 4 * (lane % 4) and three more, column lane / 4
 *   in word i of D  row lane / 4 + 8 * (i / 2), column 2 * (lane % 4) + i % 2 */
template <uint32_t HALVES> static void multiply_tiles(warp_words *words) {
    int32_t a[16][16 * HALVES], b[16 * HALVES][8];
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        for (uint32_t i = 0; i < 2 * HALVES; i++)
            for (uint32_t byte = 0; byte < 4; byte++) {
                const uint32_t k = 16 * (i / 2) + 4 * (lane % 4) + byte;
                a[lane / 4 + 8 * (i % 2)][k] = signed_byte(words->given[lane][i], byte);
            }
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        for (uint32_t i = 0; i < HALVES; i++)
            for (uint32_t byte = 0; byte < 4; byte++)
                b[16 * i + 4 * (lane % 4) + byte][lane / 4] =
                    signed_byte(words->given[lane][2 * HALVES + i], byte);
    for (uint32_t lane = 0; lane < WARP_THREADS; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < 16 * HALVES; k++)
                sum += a[lane / 4 + 8 * (i / 2)][k] * b[k][2 * (lane % 4) + i % 2];
            words->taken[lane][i] = static_cast<uint32_t>(sum);
        }
}

} // namespace emulation

int __dp4a(int a, int b, int c) {
    for (uint32_t byte = 0; byte < 4; byte++)
        c += emulation::signed_byte(static_cast<uint32_t>(a), byte) *
             emulation::signed_byte(static_cast<uint32_t>(b), byte);
    return c;
}

uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
    const uint64_t bytes = uint64_t{y} << 32 | x;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t nibble = selector >> 4 * i & 15;
        uint32_t byte = static_cast<uint32_t>(bytes >> 8 * (nibble & 7)) & 0xff;
        if (nibble & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

void lh_let_next_begin() {
}

void lh_await_grids_before() {
    emulation::wait_for_grids_before();
}

float lh_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}

float lh_widen_f16(uint16_t half) {
    return lh_reference_widen_f16(half);
}

uint16_t lh_round_f16(float value) {
    return lh_reference_round_f16(value);
}

void lh_multiply_block(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) {
    const uint32_t given[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    uint32_t taken[4];
    emulation::run_in_warp(emulation::multiply_tiles<2>, given, 6, taken, 4);
    memcpy(d, taken, sizeof taken);
}

void lh_multiply_half(int32_t d[4], const uint32_t a[2], uint32_t b) {
    const uint32_t given[3] = {a[0], a[1], b};
    uint32_t taken[4];
    emulation::run_in_warp(emulation::multiply_tiles<1>, given, 3, taken, 4);
    memcpy(d, taken, sizeof taken);
}
