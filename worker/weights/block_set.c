/* A byte for each block. */
#include "worker/weights/block_set.h"

#include <assert.h>
#include <stdlib.h>

lh_status lh_block_set_init(lh_block_set *set, const lh_gguf_tensor *tensor, uint32_t rows,
                            lh_error *error) {
    *set = (lh_block_set){.blocks = lh_tensor_blocks_of(tensor, rows)};
    set->digests = calloc(set->blocks.count + 1, sizeof *set->digests);
    set->states = calloc(set->blocks.count + 1, sizeof *set->states);
    if (set->digests && set->states)
        return LH_OK;
    lh_block_set_reset(set);
    return lh_fail(error, LH_ERR_NO_MEMORY, "weights: out of memory for the blocks of a tensor");
}

void lh_block_set_reset(lh_block_set *set) {
    free(set->states);
    free(set->digests);
    *set = (lh_block_set){0};
}

static void need(lh_block_set *set, uint64_t number) {
    if (set->states[number] & LH_BLOCK_NEEDED)
        return;
    set->states[number] |= LH_BLOCK_NEEDED;
    set->missing++;
    set->missing_bytes += lh_tensor_block_at(&set->blocks, number).bytes;
}

void lh_block_set_need(lh_block_set *set, const lh_tensor_slice *slice) {
    for (uint64_t i = 0; i < slice->count; i++) {
        const lh_block_run run =
            lh_tensor_blocks_with(&set->blocks, slice->offset + i * slice->stride, slice->bytes);
        for (uint64_t number = run.first; number < run.last; number++)
            need(set, number);
    }
}

void lh_block_set_found(lh_block_set *set, uint64_t number) {
    assert(set->states[number] == LH_BLOCK_NEEDED && set->missing > 0);
    set->states[number] |= LH_BLOCK_HERE;
    set->missing--;
    set->missing_bytes -= lh_tensor_block_at(&set->blocks, number).bytes;
}

void lh_block_set_lose(lh_block_set *set) {
    set->missing = set->missing_bytes = 0;
    for (uint64_t i = 0; i < set->blocks.count; i++) {
        const bool is_needed = set->states[i] & LH_BLOCK_NEEDED;
        set->states[i] = 0;
        if (is_needed)
            need(set, i);
    }
}

uint64_t lh_block_set_next_missing(const lh_block_set *set, uint64_t number) {
    while (number < set->blocks.count && set->states[number] != LH_BLOCK_NEEDED)
        number++;
    return number;
}

bool lh_block_set_covers(const lh_block_set *set, uint64_t offset, uint64_t bytes) {
    const lh_block_run run = lh_tensor_blocks_with(&set->blocks, offset, bytes);
    for (uint64_t number = run.first; number < run.last; number++)
        if (!(set->states[number] & LH_BLOCK_HERE))
            return false;
    return true;
}
