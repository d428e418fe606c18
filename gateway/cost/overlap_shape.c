/* Shapes become chunks and cuts. */
#include "gateway/cost/overlap_shape.h"

#include "common/base/arithmetic.h"

#include <assert.h>

#define RAMP_ROWS_MIN 4u /* of the shortest chunk of a ramp */

uint32_t lh_overlap_cut_shards(uint8_t code) {
    uint32_t count = code & LH_OVERLAP_CUT_COUNT;
    return count > LH_STEP_COLUMN_SHARDS_MAX ? LH_STEP_COLUMN_SHARDS_MAX : count ? count : 1;
}

/* The part of the columns that shard i has: 1 or 2 shares. */
static uint32_t share(uint8_t code, uint32_t i, uint32_t count) {
    bool is_half = (i == 0 && (code & LH_OVERLAP_CUT_FIRST)) ||
                   (i + 1 == count && (code & LH_OVERLAP_CUT_LAST));
    return is_half ? 1 : 2;
}

lh_step_cut lh_overlap_cut(uint8_t code, uint32_t width) {
    uint32_t blocks = (width + LH_STEP_COLUMN_BLOCK - 1) / LH_STEP_COLUMN_BLOCK;
    uint32_t wanted = lh_overlap_cut_shards(code), shares = 0, taken = 0, end = 0;
    lh_step_cut cut = {.count = 0};
    for (uint32_t i = 0; i < wanted; i++)
        shares += share(code, i, wanted);
    for (uint32_t i = 0; i < wanted; i++) {
        taken += share(code, i, wanted);
        uint32_t next = (uint32_t)((uint64_t)blocks * taken / shares);
        if (next == end)
            continue;
        end = next;
        cut.ends[cut.count++] = end < blocks ? end * LH_STEP_COLUMN_BLOCK : width;
    }
    return cut;
}

static uint32_t rounded(uint32_t rows) {
    return rows >= 16 ? (rows + 4) / 8 * 8 : rows >= 6 ? (rows + 2) / 4 * 4 : rows;
}

static uint32_t ramp_rows(const lh_overlap_shape *shape, uint32_t halvings) {
    return rounded(shape->body_rows >> halvings);
}

/* `rows` in `parts` of nearly one length, the longer ones last; where that leaves room below
 * rows_max, all but the last one are multiples of 8, or of 4 where they are short. */
static void divide(uint32_t rows, uint32_t parts, uint32_t rows_max, uint32_t *chunks) {
    assert(parts > 0);
    uint32_t unit = rows / parts + 16 > rows_max ? 1
                    : rows / parts >= 16         ? 8
                    : rows / parts >= 8          ? 4
                                                 : 1;
    uint32_t length = rows / parts / unit * unit, longer = (rows - length * parts) / unit;
    for (uint32_t i = 0; i < parts; i++)
        chunks[i] = length + (i + longer >= parts ? unit : 0);
    chunks[parts - 1] += (rows - length * parts) % unit;
}

static bool has_ramps_in(const lh_overlap_shape *shape, uint32_t rows_max) {
    uint32_t longest = lh_max_u32(shape->head, shape->tail);
    return longest <= LH_OVERLAP_RAMP_MAX &&
           (longest == 0 ||
            (shape->body_rows >> longest >= RAMP_ROWS_MIN && ramp_rows(shape, 1) <= rows_max));
}

bool lh_overlap_shape_chunks(const lh_overlap_shape *shape, uint32_t rows, uint32_t rows_max,
                             uint32_t chunks[LH_COST_CHUNKS_MAX], uint32_t *count) {
    uint32_t body = shape->body_rows && shape->body_rows < rows ? shape->body_rows : rows,
             ramps = 0, n = 0;
    assert(rows > 0 && rows_max > 0);
    if (!has_ramps_in(shape, rows_max))
        return false;
    for (uint32_t i = 1; i <= shape->head; i++)
        ramps += ramp_rows(shape, i);
    for (uint32_t i = 1; i <= shape->tail; i++)
        ramps += ramp_rows(shape, i);
    if (ramps > 0 && rows < ramps + body / 2)
        return false;
    uint32_t rest = rows - ramps, least = rest / rows_max + (rest % rows_max != 0);
    uint32_t parts = (uint32_t)(((uint64_t)rest + body / 2) / body);
    parts = lh_max_u32(parts, least);
    if (parts + shape->head + shape->tail > LH_COST_CHUNKS_MAX)
        return false;
    for (uint32_t i = shape->head; i > 0; i--)
        chunks[n++] = ramp_rows(shape, i);
    divide(rest, parts, rows_max, chunks + n);
    n += parts;
    for (uint32_t i = 1; i <= shape->tail; i++)
        chunks[n++] = ramp_rows(shape, i);
    *count = n;
    return true;
}
