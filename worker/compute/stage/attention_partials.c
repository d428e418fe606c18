/* Sizes, room, and which rows are divided. */
#include "worker/compute/stage/attention_partials.h"

#include "common/base/arithmetic.h"
#include "worker/compute/stage/aligned_array.h"

#include <assert.h>

/* With so many parts for each thread nobody waits long for the last one. */
#define PARTS_ENOUGH 2u

lh_attention_partials lh_attention_partials_of(uint32_t heads, uint32_t units, uint32_t value_dim,
                                               uint32_t rows, uint32_t context, uint32_t threads) {
    lh_attention_partials p = {.units = units, .threads = threads};
    p.blocks = lh_attention_blocks(context - 1, LH_ATTENTION_ALL).end;
    p.head_floats = lh_attention_partial_floats(value_dim);
    p.block_floats = heads * p.head_floats;
    p.row_floats = p.blocks * p.block_floats;
    if (threads > 1)
        p.rows =
            lh_min_u32(lh_min_u32(rows, LH_DIVIDED_ROWS), (PARTS_ENOUGH * threads - 1) / units);
    return p;
}

uint64_t lh_attention_partials_bytes(const lh_attention_partials *partials) {
    return (uint64_t)partials->rows * partials->row_floats * sizeof(float);
}

bool lh_attention_partials_allocate(lh_attention_partials *partials) {
    if (partials->rows > 0)
        partials->data =
            lh_aligned_array_allocate(partials->rows, partials->row_floats * sizeof(float));
    return partials->rows == 0 || partials->data;
}

uint32_t lh_attention_partials_divide(const lh_attention_partials *partials,
                                      const lh_position_run *runs, uint32_t count,
                                      uint32_t window) {
    uint32_t rows = 0, blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (runs[i].rows > partials->rows - rows)
            return 0;
        rows += runs[i].rows;
        for (uint32_t row = 0; row < runs[i].rows; row++) {
            const lh_span seen = lh_attention_blocks(runs[i].first_position + row, window);
            blocks = lh_max_u32(blocks, seen.end - seen.begin);
        }
    }
    return blocks > 1 ? blocks : 0;
}

lh_position_run lh_attention_partials_row(const lh_position_run *runs, uint32_t row) {
    for (; row >= runs->rows; runs++)
        row -= runs->rows;
    return (lh_position_run){.sequence = runs->sequence,
                             .first_row = runs->first_row + row,
                             .rows = 1,
                             .first_position = runs->first_position + row};
}

float *lh_attention_partials_at(const lh_attention_partials *partials, uint32_t row, uint32_t block,
                                uint32_t head) {
    assert(row < partials->rows && block < partials->blocks);
    return partials->data + row * partials->row_floats + block * partials->block_floats +
           head * partials->head_floats;
}
