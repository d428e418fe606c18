/* Packed activations as another machine gets them: what the sums of a block are follows from its
 * quants, so they do not travel. */
#include "kernels/layout.h"

#include <assert.h>
#include <string.h>

/* Of a block: d, then the quants. */
enum { ENCODED_BLOCK = sizeof(float) + LH_BLOCK };

static void check_span(const lh_activations *x, lh_span columns) {
    assert(columns.begin % LH_SPAN_COLUMNS == 0 && columns.begin < columns.end);
    assert(columns.end % LH_SPAN_COLUMNS == 0 || columns.end == x->width);
    (void)x;
    (void)columns;
}

/* Of `columns` of one row. */
static uint32_t blocks_in(lh_activation_kind kind, lh_span columns) {
    return (columns.end - columns.begin) / LH_BLOCK * lh_activations_parts(kind);
}

size_t lh_activations_encoded_bytes(lh_activation_kind kind, uint32_t rows, lh_span columns) {
    const size_t row = kind == LH_ACTIVATION_F32 ? (columns.end - columns.begin) * sizeof(float)
                                                 : (size_t)blocks_in(kind, columns) * ENCODED_BLOCK;
    return rows * row;
}

void lh_activations_encode(void *bytes, const lh_activations *x, lh_span columns) {
    uint8_t *to = bytes;
    const uint32_t blocks = blocks_in(x->kind, columns);
    const size_t row_bytes = lh_activations_encoded_bytes(x->kind, 1, columns);
    check_span(x, columns);
    for (uint32_t row = 0; row < x->rows; row++, to += row_bytes) {
        if (x->kind == LH_ACTIVATION_F32) {
            memcpy(to, lh_activations_value(x, row, columns.begin), row_bytes);
            continue;
        }
        const lh_q8_block *block = lh_activations_block(x, row, columns.begin / LH_BLOCK);
        for (uint32_t i = 0; i < blocks; i++) {
            memcpy(to + (size_t)i * ENCODED_BLOCK, &block[i].d, sizeof block->d);
            memcpy(to + (size_t)i * ENCODED_BLOCK + sizeof block->d, block[i].q, LH_BLOCK);
        }
    }
}

static void decode_block(lh_q8_block *block, const uint8_t *bytes) {
    int sums[4] = {0};
    memcpy(&block->d, bytes, sizeof block->d);
    memcpy(block->q, bytes + sizeof block->d, LH_BLOCK);
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t k = LH_BLOCK / 2 * half; k < LH_BLOCK / 2 * (half + 1); k += 4) {
            sums[2 * half] += block->q[k] + block->q[k + 1];
            sums[2 * half + 1] += block->q[k + 2] + block->q[k + 3];
        }
    }
    lh_q8_block_set_sums(block, sums);
}

void lh_activations_decode(const lh_activations *x, lh_span columns, const void *bytes) {
    const uint8_t *from = bytes;
    const uint32_t blocks = blocks_in(x->kind, columns);
    const size_t row_bytes = lh_activations_encoded_bytes(x->kind, 1, columns);
    check_span(x, columns);
    for (uint32_t row = 0; row < x->rows; row++, from += row_bytes) {
        if (x->kind == LH_ACTIVATION_F32) {
            memcpy(lh_activations_value(x, row, columns.begin), from, row_bytes);
            continue;
        }
        lh_q8_block *block = lh_activations_block(x, row, columns.begin / LH_BLOCK);
        for (uint32_t i = 0; i < blocks; i++)
            decode_block(&block[i], from + (size_t)i * ENCODED_BLOCK);
    }
}
