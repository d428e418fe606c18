/* Memory for activations: arrays that start at cache lines. Thread: any. */
#pragma once

#include "worker/compute/stage/ops.h"

/* count elements of `size` bytes, 64-byte aligned, for free(); NULL: out of memory. */
void *lh_aligned_array_allocate(size_t count, size_t size);
/* The same for floats [rows][width]; false: out of memory, and *array is NULL. */
bool lh_floats_allocate(float **array, size_t rows, size_t width);
/* Allocates the packed form that `matrix` reads, unless it is there; false: out of memory. */
bool lh_packed_add(lh_packed *packed, const lh_matrix *matrix, lh_activation_kind activations,
                   uint32_t rows);
void lh_packed_reset(lh_packed *packed);
