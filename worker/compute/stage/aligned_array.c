/* What is never touched costs no memory. */
#include "worker/compute/stage/aligned_array.h"

#include <stdlib.h>

void *lh_aligned_array_allocate(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0));
}

bool lh_floats_allocate(float **array, size_t rows, size_t width) {
    size_t count;
    *array = __builtin_mul_overflow(rows, width, &count)
                 ? NULL
                 : lh_aligned_array_allocate(count, sizeof **array);
    return *array;
}

bool lh_packed_add(lh_packed *packed, const lh_matrix *matrix, lh_activation_kind activations,
                   uint32_t rows) {
    lh_activation_kind kind = lh_activation_kind_for(matrix->dtype, activations);
    packed->width = matrix->inputs;
    if (!packed->data[kind]) {
        packed->data[kind] =
            lh_aligned_array_allocate(lh_activations_bytes(kind, rows, matrix->inputs), 1);
    }
    return packed->data[kind];
}

void lh_packed_reset(lh_packed *packed) {
    for (unsigned kind = 0; kind < LH_ACTIVATION_KINDS; kind++)
        free(packed->data[kind]);
    *packed = (lh_packed){0};
}
