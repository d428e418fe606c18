/* The rows of one step as the compute side takes them: no bytes of the wire, no stream, no URL.
 *
 * Row r of the step's activation is the r-th position of its segments, in order. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step_parts.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_batch {
    uint32_t rows;
    const uint32_t *tokens; /* [rows] */
    uint32_t segment_count;
    const lh_step_segment *segments;
    /* of the stage's result; the last stage has none. count = 0: one shard of all columns */
    lh_step_cut cut;
    /* nobody wants a result: the rows are for the KV cache alone, and none draws */
    bool ends_here;
} lh_batch;

/* What a stage takes. */
typedef struct lh_batch_limits {
    uint32_t rows_max;
    uint32_t context; /* positions of one sequence */
    uint32_t width, vocabulary;
    bool is_last; /* the stage: what rows ask matters */
} lh_batch_limits;

/* Whether the batch is within the limits. LH_ERR_LIMIT: rows, positions or tokens are out of range;
 * LH_ERR_INVALID: the cut does not fit the width; and those of lh_head_check. */
lh_status lh_batch_check(const lh_batch *batch, const lh_batch_limits *limits, lh_error *error);
