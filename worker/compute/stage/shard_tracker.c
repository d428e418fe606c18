/* A byte a cell: some hundred kilobytes for the largest step, and nothing to unpack. */
#include "worker/compute/stage/shard_tracker.h"

#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

lh_status lh_shard_tracker_init(lh_shard_tracker *tracker, uint32_t rows_max, uint32_t width,
                                lh_error *error) {
    uint32_t blocks = (width + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS;
    *tracker = (lh_shard_tracker){.width = width, .blocks = blocks};
    tracker->row_counts = calloc(blocks, sizeof *tracker->row_counts);
    tracker->cells = calloc(rows_max, blocks);
    if (!tracker->row_counts || !tracker->cells) {
        lh_shard_tracker_reset(tracker);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows_max);
    }
    return LH_OK;
}

void lh_shard_tracker_reset(lh_shard_tracker *tracker) {
    free(tracker->cells);
    free(tracker->row_counts);
    *tracker = (lh_shard_tracker){0};
}

void lh_shard_tracker_start(lh_shard_tracker *tracker, uint32_t rows) {
    tracker->rows = rows;
    tracker->complete = 0;
    memset(tracker->row_counts, 0, tracker->blocks * sizeof *tracker->row_counts);
    memset(tracker->cells, 0, (size_t)tracker->blocks * rows);
}

static uint8_t *cells_of(const lh_shard_tracker *tracker, uint32_t block, uint32_t row) {
    return tracker->cells + (size_t)block * tracker->rows + row;
}

static lh_span blocks_of(const lh_rectangle *part) {
    uint32_t end = part->first_column + part->columns;
    return (lh_span){part->first_column / LH_SPAN_COLUMNS,
                     (end + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS};
}

static lh_status refuse(const lh_shard_tracker *tracker, const lh_rectangle *part, const char *why,
                        lh_error *error) {
    return lh_fail(error, LH_ERR_INVALID,
                   "shard: rows %u + %u, columns %u + %u of an activation [%u][%u] %s",
                   part->first_row, part->rows, part->first_column, part->columns, tracker->rows,
                   tracker->width, why);
}

lh_status lh_shard_tracker_check(const lh_shard_tracker *tracker, const lh_rectangle *part,
                                 lh_error *error) {
    uint64_t end_row = (uint64_t)part->first_row + part->rows;
    uint64_t end_column = (uint64_t)part->first_column + part->columns;
    if (part->rows == 0 || part->columns == 0 || end_row > tracker->rows ||
        end_column > tracker->width) {
        return refuse(tracker, part, "are empty or outside", error);
    }
    if (part->first_column % LH_SPAN_COLUMNS != 0 ||
        (end_column % LH_SPAN_COLUMNS != 0 && end_column != tracker->width)) {
        return refuse(tracker, part, "are no whole blocks of columns", error);
    }
    lh_span blocks = blocks_of(part);
    for (uint32_t block = blocks.begin; block < blocks.end; block++)
        if (memchr(cells_of(tracker, block, part->first_row), 1, part->rows))
            return refuse(tracker, part, "have come already, at least in part", error);
    return LH_OK;
}

void lh_shard_tracker_note(lh_shard_tracker *tracker, const lh_rectangle *part) {
    lh_span blocks = blocks_of(part);
    for (uint32_t block = blocks.begin; block < blocks.end; block++) {
        memset(cells_of(tracker, block, part->first_row), 1, part->rows);
        tracker->row_counts[block] += part->rows;
    }
    while (tracker->complete < tracker->blocks &&
           tracker->row_counts[tracker->complete] == tracker->rows) {
        tracker->complete++;
    }
}

uint32_t lh_shard_tracker_complete_columns(const lh_shard_tracker *tracker) {
    uint32_t columns = tracker->complete * LH_SPAN_COLUMNS;
    return columns < tracker->width ? columns : tracker->width;
}
