/* The lesser and the greater of two numbers, and the nearest one within bounds. */
#pragma once

#include <stdint.h>

static inline uint32_t lh_min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t lh_max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static inline uint64_t lh_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline int64_t lh_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t lh_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline double lh_max_f64(double a, double b) {
    return a > b ? a : b;
}

/* least <= most; of what is no number it is that. */
static inline double lh_bounded_f64(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}
