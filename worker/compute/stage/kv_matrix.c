/* The key's rows are packed as they are, dequantized one by one, turned over and packed again. */
#include "worker/compute/stage/kv_matrix.h"

static lh_matrix keys_of(const lh_kv_matrix *shape, void *data) {
    return (lh_matrix){LH_DTYPE_F32, shape->rank, shape->key_dim, data};
}

static lh_matrix values_of(const lh_kv_matrix *shape, void *data) {
    return (lh_matrix){shape->dtype, shape->value_dim, shape->rank, data};
}

size_t lh_kv_matrix_key_bytes(const lh_kv_matrix *shape) {
    return lh_matrix_bytes(LH_DTYPE_F32, shape->rank, shape->key_dim);
}

size_t lh_kv_matrix_value_bytes(const lh_kv_matrix *shape) {
    return lh_matrix_bytes(shape->dtype, shape->value_dim, shape->rank);
}

/* The rows packed, one row as floats, all of them turned over. */
size_t lh_kv_matrix_scratch_bytes(const lh_kv_matrix *shape) {
    return lh_matrix_bytes(shape->dtype, shape->key_dim, shape->rank) +
           ((size_t)shape->key_dim + 1) * shape->rank * sizeof(float);
}

void lh_kv_matrix_split(const lh_kv_matrix *shape, const void *rows, size_t row_bytes, void *keys,
                        void *values, void *scratch) {
    const lh_matrix made = keys_of(shape, keys), kept = values_of(shape, values),
                    packed = {shape->dtype, shape->key_dim, shape->rank, scratch};
    size_t packed_bytes = lh_matrix_bytes(shape->dtype, shape->key_dim, shape->rank);
    float *row = (float *)(void *)((char *)scratch + packed_bytes), *turned = row + shape->rank;
    lh_matrix_pack(&packed, rows, (lh_span){0, shape->key_dim});
    for (uint32_t i = 0; i < shape->key_dim; i++) {
        lh_matrix_row(&packed, i, row);
        for (uint32_t r = 0; r < shape->rank; r++)
            turned[(size_t)r * shape->key_dim + i] = row[r];
    }
    lh_matrix_pack(&made, turned, (lh_span){0, shape->rank});
    lh_matrix_pack(&kept, (const char *)rows + shape->key_dim * row_bytes,
                   (lh_span){0, shape->value_dim});
}
