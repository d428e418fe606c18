/* The rows of one step as the compute side takes them: no bytes of the wire, no stream, no URL.
 *
 * A batch holds segments: a segment is a run of consecutive positions of one sequence. Row r of the
 * step's activation is the r-th position, segments in order. */
#pragma once

#include "worker/compute/stage/sampler.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_batch_segment {
    uint64_t sequence; /* the gateway's number for it, unique within the life of a chain */
    /* must be the number of positions that the sequence holds already, or forks */
    uint32_t first_position;
    uint32_t rows; /* > 0 */
    /* the sequence is new, and shares the positions before the first with: */
    bool forks;
    uint64_t source;
    bool sample;          /* draw a token from the logits of the last row */
    lh_sampling sampling; /* where sample is set */
} lh_batch_segment;

/* Shortens a sequence to the whole pages of its first `keep` positions; 0: forgets it. In a KV
 * resync (stage.h): it goes on from exactly these. */
typedef struct lh_batch_release {
    uint64_t sequence;
    uint32_t keep;
} lh_batch_release;

#define LH_COLUMN_SHARDS_MAX 16u

/* The column shards of a result: shard i goes from the end of the one before it to column ends[i].
 * Ends ascend, are multiples of LH_SPAN_COLUMNS, and the last one is the width. count = 0: one
 * shard of all columns. */
typedef struct lh_column_cut {
    uint32_t count;
    uint32_t ends[LH_COLUMN_SHARDS_MAX];
} lh_column_cut;

typedef struct lh_batch {
    uint32_t rows;
    const uint32_t *tokens; /* [rows] */
    uint32_t segment_count;
    const lh_batch_segment *segments;
    lh_column_cut cut; /* of the stage's result; the last stage has none */
    /* nobody wants a result: the rows are for the KV cache alone, and none draws */
    bool ends_here;
} lh_batch;

/* What a stage takes. */
typedef struct lh_batch_limits {
    uint32_t rows_max;
    uint32_t context; /* positions of one sequence */
    uint32_t width, vocabulary;
    bool samples; /* the last stage: sampling parameters matter */
} lh_batch_limits;

/* Whether the batch is within the limits. LH_ERR_LIMIT: rows, positions or tokens are out of range;
 * LH_ERR_INVALID: the cut does not fit the width; and those of lh_sampling_check. */
lh_status lh_batch_check(const lh_batch *batch, const lh_batch_limits *limits, lh_error *error);
