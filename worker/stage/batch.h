/* The rows of one step as the compute side takes them: no bytes of the wire, no stream, no URL.
 *
 * A batch holds segments: a segment is a run of consecutive positions of one sequence. Row r of the step's
 * activation is the r-th position, segments in order. */
#pragma once

#include "worker/stage/sampler.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_batch_segment {
    uint64_t sequence;       /* the gateway's number for it, unique within the life of a chain */
    uint32_t first_position; /* must be the number of positions that the sequence holds already, or forks */
    uint32_t rows;           /* > 0 */
    bool forks;              /* the sequence is new, and shares the positions before the first with: */
    uint64_t source;
    bool sample;               /* draw a token from the logits of the last row */
    lh_sample_request request; /* where sample is set */
} lh_batch_segment;

/* Shortens a sequence to the whole pages of its first `keep` positions; 0: forgets it. In a roll call (stage.h): it goes on from
 * exactly these. */
typedef struct lh_batch_release {
    uint64_t sequence;
    uint32_t keep;
} lh_batch_release;

#define LH_COLUMN_SHARDS_MAX 16u

/* The column shards of a result: shard i goes from the end of the one before it to column ends[i]. Ends ascend,
 * are multiples of LH_SPAN_COLUMNS, and the last one is the width. count = 0: one shard of all columns. */
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
    bool ends_here;    /* nobody wants a result: the rows are for the KV cache alone, and none draws */
} lh_batch;
