/* Matrices of rows, one after the other. */
#include "common/gguf/tensor_blocks.h"

#include <assert.h>

lh_tensor_blocks lh_tensor_blocks_of(const lh_gguf_tensor *tensor, uint32_t rows) {
    const uint64_t all_rows = tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
    lh_tensor_blocks blocks = {.rows = rows, .matrix_rows = tensor->shape[1]};
    assert(rows > 0);
    if (tensor->bytes == 0 || all_rows == 0)
        return blocks;
    blocks.row_bytes = tensor->bytes / all_rows;
    blocks.each = (blocks.matrix_rows + rows - 1) / rows;
    blocks.count = blocks.each * (all_rows / blocks.matrix_rows);
    return blocks;
}

lh_block_extent lh_tensor_block_at(const lh_tensor_blocks *blocks, uint64_t number) {
    assert(number < blocks->count);
    const uint64_t first = number % blocks->each * blocks->rows, left = blocks->matrix_rows - first,
                   rows = left < blocks->rows ? left : blocks->rows,
                   before = number / blocks->each * blocks->matrix_rows + first;
    return (lh_block_extent){before * blocks->row_bytes, rows * blocks->row_bytes};
}

static uint64_t block_of_byte(const lh_tensor_blocks *blocks, uint64_t offset) {
    const uint64_t row = offset / blocks->row_bytes;
    return row / blocks->matrix_rows * blocks->each + row % blocks->matrix_rows / blocks->rows;
}

lh_block_run lh_tensor_blocks_with(const lh_tensor_blocks *blocks, uint64_t offset,
                                   uint64_t bytes) {
    assert(bytes > 0 && blocks->count > 0);
    const lh_block_run run = {block_of_byte(blocks, offset),
                              block_of_byte(blocks, offset + bytes - 1) + 1};
    assert(run.last <= blocks->count);
    return run;
}
