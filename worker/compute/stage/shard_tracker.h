/* Which cells of a step's activation have come: a cell is one row of one block of LH_SPAN_COLUMNS
 * columns. Shards may be any rectangles of cells in any order; the arithmetic goes on over the
 * columns that are complete in all rows, ascending. Thread: the compute thread. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_shard_tracker {
    uint32_t rows, width, blocks;
    uint32_t complete;    /* blocks that have come in all rows, from the first on */
    uint32_t *row_counts; /* [blocks]: rows that have come */
    uint8_t *cells;       /* [blocks][rows] */
} lh_shard_tracker;

/* For activations of at most so many rows. LH_ERR_NO_MEMORY. */
lh_status lh_shard_tracker_init(lh_shard_tracker *tracker, uint32_t rows_max, uint32_t width,
                                lh_error *error);
void lh_shard_tracker_reset(lh_shard_tracker *tracker);
/* Nothing has come yet of an activation of `rows` rows. */
void lh_shard_tracker_start(lh_shard_tracker *tracker, uint32_t rows);

typedef struct lh_rectangle {
    uint32_t first_row, rows, first_column, columns;
} lh_rectangle;

/* Whether a rectangle may come. LH_ERR_INVALID: outside, not whole blocks, or overlapping what
 * came. */
lh_status lh_shard_tracker_check(const lh_shard_tracker *tracker, const lh_rectangle *part,
                                 lh_error *error);
/* Notes a rectangle that has passed the check. */
void lh_shard_tracker_note(lh_shard_tracker *tracker, const lh_rectangle *part);
/* Columns [0, n) are complete. */
uint32_t lh_shard_tracker_complete_columns(const lh_shard_tracker *tracker);
