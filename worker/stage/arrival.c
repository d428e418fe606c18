/* A byte a cell: some hundred kilobytes for the largest step, and nothing to unpack. */
#include "worker/stage/arrival.h"

#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

lh_status lh_arrival_init(lh_arrival *arrival, uint32_t rows_max, uint32_t width, lh_error *error) {
    uint32_t blocks = (width + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS;
    *arrival = (lh_arrival){.width = width, .blocks = blocks};
    arrival->row_counts = calloc(blocks, sizeof *arrival->row_counts);
    arrival->cells = calloc(rows_max, blocks);
    if (arrival->row_counts == NULL || arrival->cells == NULL) {
        lh_arrival_reset(arrival);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows_max);
    }
    return LH_OK;
}

void lh_arrival_reset(lh_arrival *arrival) {
    free(arrival->cells);
    free(arrival->row_counts);
    *arrival = (lh_arrival){0};
}

void lh_arrival_start(lh_arrival *arrival, uint32_t rows) {
    arrival->rows = rows;
    arrival->complete = 0;
    memset(arrival->row_counts, 0, arrival->blocks * sizeof *arrival->row_counts);
    memset(arrival->cells, 0, (size_t)arrival->blocks * rows);
}

static uint8_t *cells_of(const lh_arrival *arrival, uint32_t block, uint32_t row) {
    return arrival->cells + (size_t)block * arrival->rows + row;
}

static lh_span blocks_of(const lh_rectangle *part) {
    uint32_t end = part->first_column + part->columns;
    return (lh_span){part->first_column / LH_SPAN_COLUMNS, (end + LH_SPAN_COLUMNS - 1) / LH_SPAN_COLUMNS};
}

static lh_status refuse(const lh_arrival *arrival, const lh_rectangle *part, const char *why,
                        lh_error *error) {
    return lh_fail(error, LH_ERR_INVALID, "shard: rows %u + %u, columns %u + %u of an activation [%u][%u] %s",
                   part->first_row, part->rows, part->first_column, part->columns, arrival->rows,
                   arrival->width, why);
}

lh_status lh_arrival_check(const lh_arrival *arrival, const lh_rectangle *part, lh_error *error) {
    uint64_t end_row = (uint64_t)part->first_row + part->rows;
    uint64_t end_column = (uint64_t)part->first_column + part->columns;
    if (part->rows == 0 || part->columns == 0 || end_row > arrival->rows || end_column > arrival->width) {
        return refuse(arrival, part, "are empty or outside", error);
    }
    if (part->first_column % LH_SPAN_COLUMNS != 0 ||
        (end_column % LH_SPAN_COLUMNS != 0 && end_column != arrival->width)) {
        return refuse(arrival, part, "are no whole blocks of columns", error);
    }
    lh_span blocks = blocks_of(part);
    for (uint32_t block = blocks.begin; block < blocks.end; block++) {
        if (memchr(cells_of(arrival, block, part->first_row), 1, part->rows) != NULL) {
            return refuse(arrival, part, "have come already, at least in part", error);
        }
    }
    return LH_OK;
}

void lh_arrival_note(lh_arrival *arrival, const lh_rectangle *part) {
    lh_span blocks = blocks_of(part);
    for (uint32_t block = blocks.begin; block < blocks.end; block++) {
        memset(cells_of(arrival, block, part->first_row), 1, part->rows);
        arrival->row_counts[block] += part->rows;
    }
    while (arrival->complete < arrival->blocks && arrival->row_counts[arrival->complete] == arrival->rows) {
        arrival->complete++;
    }
}

uint32_t lh_arrival_complete_columns(const lh_arrival *arrival) {
    uint32_t columns = arrival->complete * LH_SPAN_COLUMNS;
    return columns < arrival->width ? columns : arrival->width;
}
