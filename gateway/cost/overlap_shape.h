/* The shape of a cut, apart from the length of the prompt that it is for: lengths of chunks, ramps,
 * column shards. Thread: any. */
#pragma once

#include "gateway/cost/cost_model.h"

#include <stdbool.h>

#define LH_OVERLAP_RAMP_MAX 3u

typedef struct lh_overlap_shape {
    uint32_t body_rows; /* of a chunk; 0: whole */
    /* ramps: so many chunks of body_rows / 2, / 4 ... before the body and after it */
    uint8_t head, tail;
    uint8_t cuts[LH_COST_STAGES_MAX]; /* of each hop between workers: for lh_overlap_cut */
} lh_overlap_shape;

/* A cut as one byte: the number of shards, 1..LH_STEP_COLUMN_SHARDS_MAX, 0 being 1, and which ones
 * are half as wide. */
#define LH_OVERLAP_CUT_COUNT 0x1fu
#define LH_OVERLAP_CUT_FIRST 0x20u
#define LH_OVERLAP_CUT_LAST  0x40u

/* The shards are whole blocks of columns, no more of them than there are blocks. */
lh_step_cut lh_overlap_cut(uint8_t code, uint32_t width);
uint32_t lh_overlap_cut_shards(uint8_t code);

/* The chunks of so many rows, each of at most rows_max: multiples of 8 or 4, as kernels like them.
 * False: this prompt is too short for the ramps, or too long for LH_COST_CHUNKS_MAX. */
bool lh_overlap_shape_chunks(const lh_overlap_shape *shape, uint32_t rows, uint32_t rows_max,
                             uint32_t chunks[LH_COST_CHUNKS_MAX], uint32_t *count);
