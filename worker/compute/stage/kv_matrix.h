/* Latent attention's matrix of keys and values where a file has it whole (attn_kv_b): for each head
 * the rows of its key, then those of its value, [key_dim + value_dim][rank]. The absorbed form
 * (latent.h) multiplies queries with the first turned over, so that is how it is kept: in floats,
 * since quantized blocks cannot be turned. Thread: any. */
#pragma once

#include "kernels/kernels.h"

typedef struct lh_kv_matrix {
    lh_dtype dtype; /* of the file */
    uint32_t rank, key_dim, value_dim;
} lh_kv_matrix;

/* Of one head, packed: keys F32 [rank][key_dim], values [value_dim][rank]. 0: as
 * lh_matrix_bytes. */
size_t lh_kv_matrix_key_bytes(const lh_kv_matrix *shape);
size_t lh_kv_matrix_value_bytes(const lh_kv_matrix *shape);
/* What lh_kv_matrix_split needs besides. */
size_t lh_kv_matrix_scratch_bytes(const lh_kv_matrix *shape);
/* Packs one head from its rows as they are in the file, any alignment. scratch: 64-byte aligned. */
void lh_kv_matrix_split(const lh_kv_matrix *shape, const void *rows, size_t row_bytes, void *keys,
                        void *values, void *scratch);
