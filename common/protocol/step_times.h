/* When things happened to a step on each worker: the answer to a step whose manifest says `timed`
 * is a sequence of times frames (PROTOCOL.md), the answering worker's own first and then those of
 * the workers after it, in the order of the chain. A pure codec. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define LH_STEP_TIMES_NEVER       UINT32_MAX /* it did not happen, or more than 71 minutes later */
#define LH_STEP_TIMES_SHARDS_MAX  128u /* listed of each direction; later ones are only counted */
#define LH_STEP_TIMES_GATHERS_MAX 256u /* likewise */
#define LH_STEP_TIMES_NAME_BYTES  64u  /* a worker's name and its end */
/* The largest payload of one frame, and the largest body: what 64 stages may have to say. */
#define LH_STEP_TIMES_BYTES_MAX                                                                    \
    (64u + LH_STEP_TIMES_NAME_BYTES + 2u * LH_STEP_TIMES_SHARDS_MAX * 32u +                        \
     LH_STEP_TIMES_GATHERS_MAX * 20u)
#define LH_STEP_TIMES_BODY_BYTES_MAX (64u * (16u + LH_STEP_TIMES_BYTES_MAX))

/* Times are microseconds after `base_us`, or LH_STEP_TIMES_NEVER. */
typedef struct lh_step_shard_taken {
    uint32_t first_row, rows, first_column, columns;
    uint32_t bytes;                  /* of its frame */
    uint32_t came_us;                /* whole */
    uint32_t accept_us, accepted_us; /* the compute thread worked on it */
} lh_step_shard_taken;

typedef struct lh_step_shard_given {
    uint32_t first_row, rows, first_column, columns;
    uint32_t bytes;      /* of its frames */
    uint32_t emitted_us; /* computed */
    uint32_t handed_us;  /* to the connection of the next hop */
    uint32_t left_us;    /* the connection has taken its last byte from the stream */
} lh_step_shard_given;

/* Of a stage that this worker and others compute together: what all of them had computed of an
 * activation came together. */
typedef struct lh_step_gather {
    uint32_t bytes;     /* of the worker's own part, to each of the others */
    uint32_t posted_us; /* the own part was computed */
    uint32_t there_us;  /* the last of the others' parts had come */
    uint32_t taken_us;  /* the compute thread asked for the first of them */
    uint32_t waited_us; /* so long, all together, it had to wait for them: a duration */
} lh_step_gather;

typedef struct lh_step_times {
    char worker[LH_STEP_TIMES_NAME_BYTES];
    uint64_t base_us;     /* the first byte of the body came: in the worker's monotonic clock */
    uint32_t manifest_us; /* whole */
    uint32_t body_end_us;
    uint32_t begin_us, begun_us;     /* compute: pages reserved, the first stage's embedding */
    uint32_t finish_us, finished_us; /* compute: the layers */
    uint32_t submitted_us;           /* the request to the next hop was opened */
    uint32_t sent_us;                /* the last byte of its body was taken by the connection */
    uint32_t passed_us;              /* the next hop's answer came */
    uint32_t answered_us;
    /* shards and gathers; the first LH_STEP_TIMES_SHARDS_MAX, and LH_STEP_TIMES_GATHERS_MAX, of
     * them are listed */
    uint32_t taken_count, given_count, gather_count;
    lh_step_shard_taken taken[LH_STEP_TIMES_SHARDS_MAX];
    lh_step_shard_given given[LH_STEP_TIMES_SHARDS_MAX];
    lh_step_gather gathers[LH_STEP_TIMES_GATHERS_MAX];
} lh_step_times;

/* Microseconds from base to now, as they go into a frame. */
uint32_t lh_step_times_offset(uint64_t base_us, int64_t now_us);

/* Bytes of the frame. */
size_t lh_step_times_bytes(const lh_step_times *times);
/* Appends the frame to a caller's buffer. LH_ERR_LIMIT: the buffer is too small; LH_ERR_INVALID:
 * the name is empty. */
lh_status lh_step_times_encode(const lh_step_times *times, uint8_t *buffer, size_t capacity,
                               size_t *length, lh_error *error);

/* Reads the frame at *offset of a body and moves *offset behind it. LH_AGAIN: the body ends there.
 * LH_ERR_CORRUPT, LH_ERR_MALFORMED, LH_ERR_LIMIT: nothing behind it can be read. What is not
 * listed is zero. */
lh_status lh_step_times_read(const uint8_t *body, size_t length, size_t *offset,
                             lh_step_times *times, lh_error *error);

/* How much of a body may be passed on within `bytes_max` bytes: whole frames, looked at no further
 * than their heads. 0 where it does not begin with a times frame. */
size_t lh_step_times_fitting(const uint8_t *body, size_t length, size_t bytes_max);
