/* What is never touched costs no memory. */
#include "worker/compute/stage/aligned_array.h"

#include <stdlib.h>

void *lh_aligned_array_allocate(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, lh_aligned_bytes(bytes) + (bytes == 0 ? 64 : 0));
}

bool lh_floats_allocate(const lh_compute *compute, float **array, size_t rows, size_t width) {
    size_t count, bytes;
    *array = __builtin_mul_overflow(rows, width, &count) ||
                     __builtin_mul_overflow(count, sizeof **array, &bytes)
                 ? NULL
                 : compute->ops->allocate(compute, bytes);
    return *array;
}

bool lh_own_columns_allocate(const lh_compute *compute, float **array, size_t rows, size_t width,
                             lh_span own) {
    size_t count;
    return !__builtin_mul_overflow(rows, width, &count) &&
           lh_floats_allocate(compute, array, 1, count + own.begin);
}

bool lh_packed_add(const lh_compute *compute, lh_packed *packed, const lh_matrix *matrix,
                   uint32_t rows) {
    lh_activation_kind kind = lh_activation_kind_for(matrix->dtype, compute->activations);
    packed->width = matrix->inputs;
    if (!packed->data[kind]) {
        packed->data[kind] =
            compute->ops->allocate(compute, lh_activations_bytes(kind, rows, matrix->inputs));
    }
    return packed->data[kind];
}

void lh_packed_reset(const lh_compute *compute, lh_packed *packed) {
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++)
        compute->ops->release(compute, packed->data[kind]);
    *packed = (lh_packed){0};
}
