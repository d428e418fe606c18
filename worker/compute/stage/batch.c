/* Says of a batch what the stage cannot do with it, before anything is changed. */
#include "worker/compute/stage/batch.h"

#include "kernels/kernels.h"
#include "worker/compute/stage/head.h"

static lh_status check_segment(const lh_batch_limits *limits, const lh_step_segment *segment,
                               lh_error *error) {
    uint64_t end = (uint64_t)segment->first_position + segment->rows;
    if (segment->rows == 0 || end > limits->context) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "sequence %llu: positions %u + %u are empty or over the context of %u",
                       (unsigned long long)segment->sequence, segment->first_position,
                       segment->rows, limits->context);
    }
    return limits->is_last ? lh_head_check(&segment->ask, segment->rows, limits->vocabulary, error)
                           : LH_OK;
}

static lh_status check_cut(uint32_t width, const lh_step_cut *cut, lh_error *error) {
    uint32_t begin = 0;
    if (cut->count > LH_STEP_COLUMN_SHARDS_MAX) {
        return lh_fail(error, LH_ERR_INVALID, "cut: %u column shards; the limit is %u", cut->count,
                       LH_STEP_COLUMN_SHARDS_MAX);
    }
    for (uint32_t i = 0; i < cut->count; i++) {
        uint32_t end = cut->ends[i];
        if (end <= begin || end > width || (end % LH_SPAN_COLUMNS != 0 && end != width)) {
            return lh_fail(error, LH_ERR_INVALID,
                           "cut: shard %u from column %u to %u of a width of %u", i, begin, end,
                           width);
        }
        begin = end;
    }
    if (cut->count > 0 && begin != width) {
        return lh_fail(error, LH_ERR_INVALID, "cut: it ends at column %u of a width of %u", begin,
                       width);
    }
    return LH_OK;
}

lh_status lh_batch_check(const lh_batch *batch, const lh_batch_limits *limits, lh_error *error) {
    if (batch->rows == 0 || batch->rows > limits->rows_max || batch->segment_count > batch->rows) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "step: %u rows in %u segments; this stage takes 1..%u rows", batch->rows,
                       batch->segment_count, limits->rows_max);
    }
    uint64_t rows = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        lh_status status = check_segment(limits, &batch->segments[i], error);
        if (status != LH_OK)
            return status;
        rows += batch->segments[i].rows;
    }
    if (rows != batch->rows) {
        return lh_fail(error, LH_ERR_LIMIT, "step: %u rows, but its segments have %llu",
                       batch->rows, (unsigned long long)rows);
    }
    lh_status status = check_cut(limits->width, &batch->cut, error);
    if (status != LH_OK)
        return status;
    for (uint32_t i = 0; i < batch->rows; i++) {
        if (batch->tokens[i] >= limits->vocabulary) {
            return lh_fail(error, LH_ERR_LIMIT,
                           "step: token %u in row %u is not in the vocabulary of %u",
                           batch->tokens[i], i, limits->vocabulary);
        }
    }
    return LH_OK;
}
