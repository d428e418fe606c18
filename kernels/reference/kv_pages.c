/* The KV pages: how numbers lie in them, and are rounded. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <string.h>

bool lh_kv_type_parse(const char *name, lh_kv_type *type) {
    static const char *const names[] = {
        [LH_KV_F32] = "f32", [LH_KV_F16] = "f16", [LH_KV_Q8] = "q8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            *type = (lh_kv_type)i;
            return true;
        }
    return false;
}

static void store_blocks(int8_t *row, float *scales, size_t step, const float *x, uint32_t dim) {
    for (uint32_t done = 0, count; done < dim; done += count, scales += step) {
        lh_q8_block block;
        float v[LH_BLOCK] = {0};
        count = dim - done < LH_BLOCK ? dim - done : LH_BLOCK;
        memcpy(v, x + done, count * sizeof *v);
        lh_reference_quantize(&block, v);
        *scales = block.d;
        for (uint32_t i = 0; i < count; i++)
            row[(done + i) * step] = block.q[i];
    }
}

/* Number i of a row goes to place i * step behind `row`, the scale of block b to scales[b *
 * step]. Inline: floats are stored by this in every instruction set. */
static inline __attribute__((always_inline)) void
store_row(lh_kv_type type, void *row, float *scales, size_t step, const float *x, uint32_t dim) {
    if (type == LH_KV_Q8)
        store_blocks(row, scales, step, x, dim);
    for (uint32_t i = 0; i < dim && type == LH_KV_F32; i++)
        ((float *)row)[i * step] = x[i];
    for (uint32_t i = 0; i < dim && type == LH_KV_F16; i++)
        ((uint16_t *)row)[i * step] = lh_reference_round_f16(x[i]);
}

void lh_reference_kv_store(const lh_kv_view *view, uint32_t first, uint32_t rows, const float *keys,
                           size_t key_stride, const float *values, size_t value_stride) {
    const lh_kv_shape *shape = &view->shape;
    for (uint32_t row = 0; row < rows; row++, keys += key_stride, values += value_stride)
        for (uint32_t head = 0; head < shape->kv_heads; head++) {
            uint32_t position = first + row, lane = position % LH_LANES;
            uint8_t *lines = lh_kv_keys(view, head, position);
            store_row(shape->type, lines + lane * lh_kv_number_bytes(shape->type),
                      lh_kv_key_scales(view, lines) + lane, LH_LANES,
                      keys + (size_t)head * shape->key_dim, shape->key_dim);
            store_row(shape->type, lh_kv_value(view, head, position),
                      lh_kv_value_scales(view, head, position), 1,
                      values + (size_t)head * shape->value_dim, shape->value_dim);
        }
}

/* Number i of a row that lies as store_row says. */
static float number_at(lh_kv_type type, const void *row, const float *scales, size_t step,
                       uint32_t i) {
    if (type == LH_KV_F32)
        return ((const float *)row)[i * step];
    if (type == LH_KV_F16)
        return lh_reference_widen_f16(((const uint16_t *)row)[i * step]);
    return (float)((const int8_t *)row)[i * step] * scales[i / LH_BLOCK * step];
}

float lh_reference_key_number(const lh_kv_view *view, uint32_t kv_head, uint32_t t, uint32_t d) {
    uint8_t *lines = lh_kv_keys(view, kv_head, t);
    return number_at(view->shape.type, lines + t % LH_LANES * lh_kv_number_bytes(view->shape.type),
                     lh_kv_key_scales(view, lines) + t % LH_LANES, LH_LANES, d);
}

float lh_reference_value_number(const lh_kv_view *view, uint32_t kv_head, uint32_t t, uint32_t d) {
    return number_at(view->shape.type, lh_kv_value(view, kv_head, t),
                     lh_kv_value_scales(view, kv_head, t), 1, d);
}
