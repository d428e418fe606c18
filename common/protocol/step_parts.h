/* The parts of a step as plain data: the gateway fills them in, the step format carries them, a
 * stage obeys them. No ranges are checked here. */
#pragma once

#include "common/protocol/row_answer.h"

#include <stdbool.h>
#include <stdint.h>

/* Segments of one step that may be pooled: a model of the greatest width fills 4 MiB with so many
 * sums. */
#define LH_STEP_POOLED_MAX 8u
/* Of one step. */
#define LH_STEP_SEGMENTS_MAX 1024u

/* A run of consecutive positions of one sequence. */
typedef struct lh_step_segment {
    uint64_t sequence; /* the gateway's number for it, unique within the life of a chain */
    uint32_t first_position, rows; /* it goes on from the positions that it has, or forks */
    /* the sequence is new: its positions before the first are the source's, whose pages the two
     * then share */
    bool forks;
    uint64_t source; /* where forks is set */
    lh_row_ask ask;
} lh_step_segment;

/* Column bounds are multiples of it, except the width itself. */
#define LH_STEP_COLUMN_BLOCK      32u
#define LH_STEP_COLUMN_SHARDS_MAX 16u

/* How values of a result travel: wire_type.h. */
typedef enum lh_wire_type { LH_WIRE_F32 = 0, LH_WIRE_F16 = 1, LH_WIRE_Q8 = 2 } lh_wire_type;

/* The column shards of a result: shard i goes from the end of the one before it to column ends[i].
 * Ends ascend and are multiples of LH_STEP_COLUMN_BLOCK, but for the last one, which is the width.
 */
typedef struct lh_step_cut {
    uint32_t count; /* 1 .. LH_STEP_COLUMN_SHARDS_MAX */
    uint32_t ends[LH_STEP_COLUMN_SHARDS_MAX];
} lh_step_cut;

/* Truncates a sequence to the whole pages of its first `length` positions; 0 frees it. In a KV
 * resync: the sequence goes on from exactly its first `length` positions, at least 1. */
typedef struct lh_step_truncation {
    uint64_t sequence;
    uint32_t length;
} lh_step_truncation;

/* A mask that the last worker is to keep: segments name it by its number from then on. */
typedef struct lh_step_mask {
    uint64_t number;     /* not 0; the gateway's, unique within an epoch */
    uint32_t vocabulary; /* tokens; the model's */
    uint32_t code_bytes;
    const uint8_t *code; /* [code_bytes]: mask_code.h */
} lh_step_mask;

/* What a step brings the last worker of masks: first it forgets some, which no step under way
 * names, then it gets new ones; both before anything else of the step. */
typedef struct lh_step_masks {
    uint32_t drop_count, count;
    const uint64_t *drops;    /* [drop_count]: numbers */
    const lh_step_mask *list; /* [count] */
} lh_step_masks;

/* That the last worker keeps: 64 MiB of the largest vocabulary's. */
#define LH_STEP_MASKS_KEPT_MAX 2048u

/* The answer to a segment that asks for one. */
typedef struct lh_step_result {
    uint64_t sequence;
    uint32_t position; /* after the segment's last row: that of the drawn token */
    lh_row_answer answer;
} lh_step_result;
