/* A step in the pipeline, and the messages about it between the two threads. The pipeline's own. */
#pragma once

#include "worker/compute/pipeline/pipeline.h"
#include "worker/compute/pipeline/shard_queue.h"

#include <stdatomic.h>
#include <sys/queue.h>

typedef enum lh_pipeline_message_kind {
    /* to the compute thread */
    LH_MESSAGE_BEGIN,
    LH_MESSAGE_SHARD,
    LH_MESSAGE_FORGET, /* the I/O thread knows of the step's end and will not name it again */
    LH_MESSAGE_INSTALL,
    LH_MESSAGE_REMOVE,
    LH_MESSAGE_RESET,
    LH_MESSAGE_STOP,
    /* from it */
    LH_MESSAGE_CONSUMED,
    LH_MESSAGE_FRAME,
    LH_MESSAGE_ENDED,
    LH_MESSAGE_REMOVED
} lh_pipeline_message_kind;

/* SHARD, and CONSUMED when it comes back. */
typedef struct lh_shard_message {
    lh_message head;
    lh_pipeline_step *step; /* CONSUMED: NULL when the step had ended */
    lh_stage_shard shard;   /* values point behind this struct */
    /* of the values: the inbox's charge, also when it comes back through the outbox */
    size_t bytes;
    int64_t accept_us, accepted_us; /* CONSUMED: 0: it was dropped */
} lh_shard_message;

typedef struct lh_frame_message {
    lh_message head;
    lh_pipeline_step *step;
    void *bytes;
    lh_pipeline_span span; /* EMIT */
} lh_frame_message;

/* INSTALL, REMOVE and its answer REMOVED, RESET, STOP. */
typedef struct lh_control_message {
    lh_message head;
    lh_stage *stage;
    uint32_t steps_max;
    bool keeps_kv;
} lh_control_message;

/* The message that a member `head` belongs to. */
#define LH_MESSAGE_OF(pointer, type, member)                                                       \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* Made by the I/O thread, which keeps the pointer until on_ended; all fields but the first group
 * are the compute thread's once BEGIN is pushed. The compute thread frees it after FORGET. */
struct lh_pipeline_step {
    lh_shard_queue *inbox; /* where messages about it go */
    void *context;
    atomic_bool cancelled;

    bool decode;
    lh_wire_type wire;
    lh_batch batch; /* its arrays, the truncations and the masks lie behind this struct */
    uint32_t truncation_count;
    const lh_step_truncation *truncations;
    lh_step_masks masks;
    bool resyncs;
    uint32_t result_count;
    lh_step_result *results; /* one for each segment that asks for something */

    TAILQ_ENTRY(lh_pipeline_step) links; /* steps in the order of arrival */
    lh_stage_step *stage_step;           /* NULL: not begun */
    lh_message *shards, **shards_tail;   /* come and not accepted yet */
    lh_error failure;                    /* status is LH_OK while there is none */
    bool doomed;                         /* shares a sequence with one that has failed */
    bool ended;                          /* ENDED is on its way; its rows concern nobody any more */
    bool forgotten;                      /* FORGET has come */
    bool truncated;                      /* its truncations are done */
    int64_t begin_us, begun_us, finish_us, finished_us; /* 0: not yet */
    lh_gather_times *gathers; /* [LH_PIPELINE_GATHERS_MAX]; NULL: they are not told */
    uint32_t gather_count;
    lh_message begin_message, forget_message, ended_message;
};

/* Copies the batch, the truncations and the masks; one block, for free(). LH_ERR_NO_MEMORY. */
lh_status lh_pipeline_step_create(lh_shard_queue *inbox, const lh_pipeline_begin_options *options,
                                  lh_pipeline_step **step, lh_error *error);

/* That of a segment of the batch, which asks for something. */
lh_step_result *lh_pipeline_step_result(lh_pipeline_step *step, uint32_t segment);

/* Compute thread: whether nothing is left but to finish it: all shards have been accepted. */
bool lh_pipeline_step_is_complete(const lh_pipeline_step *step);

/* Whether one of its segments is of the sequence, or forks from it. */
bool lh_pipeline_step_needs(const lh_pipeline_step *step, uint64_t sequence);
/* Whether it forks positions that `earlier` writes. */
bool lh_pipeline_step_forks_from(const lh_pipeline_step *step, const lh_pipeline_step *earlier);
/* Whether both have a segment of the same sequence. */
bool lh_pipeline_step_shares(const lh_pipeline_step *step, const lh_pipeline_step *other);
