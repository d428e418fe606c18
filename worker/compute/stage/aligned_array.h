/* Memory for activations: arrays that start at cache lines. Thread: any, where it is the host's;
 * else the compute thread. */
#pragma once

#include "worker/compute/stage/ops.h"

/* Bytes up to the next cache line. */
static inline size_t lh_aligned_bytes(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* count elements of `size` bytes of the host, 64-byte aligned, for free(); NULL: out of memory. */
void *lh_aligned_array_allocate(size_t count, size_t size);
/* Floats [rows][width] where `compute` computes, for its `release`; false: out of memory, and
 * *array is NULL. */
bool lh_floats_allocate(const lh_compute *compute, float **array, size_t rows, size_t width);
/* The same behind those of the columns before a member's own: [rows][width], and own.begin floats
 * before them. */
bool lh_own_columns_allocate(const lh_compute *compute, float **array, size_t rows, size_t width,
                             lh_span own);
/* Allocates the packed form that `matrix` reads, unless it is there; false: out of memory. */
bool lh_packed_add(const lh_compute *compute, lh_packed *packed, const lh_matrix *matrix,
                   uint32_t rows);
void lh_packed_reset(const lh_compute *compute, lh_packed *packed);
