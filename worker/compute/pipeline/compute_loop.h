/* The compute thread: takes steps and their shards out of the inbox, does one piece of work after
 * the other on the stage, and puts encoded shards and ends into the outbox. The pipeline's own.
 * Thread: the I/O thread; everything else about the loop is the compute thread's. */
#pragma once

#include "worker/compute/pipeline/pipeline.h"
#include "worker/compute/pipeline/shard_queue.h"

typedef struct lh_compute_loop lh_compute_loop;

/* Starts the thread. Options and queues stay the caller's and outlive the loop. LH_ERR_NO_MEMORY,
 * LH_ERR_IO. */
lh_status lh_compute_loop_start(const lh_pipeline_options *options, lh_shard_queue *inbox,
                                lh_shard_queue *outbox, lh_compute_loop **loop, lh_error *error);
/* Ends the thread after the work that it has in hand: all steps have ended then, the stage is
 * destroyed, and the inbox is empty. */
void lh_compute_loop_stop(lh_compute_loop *loop);
/* Frees a stopped loop and its steps, none of which may be in the outbox any more. */
void lh_compute_loop_destroy(lh_compute_loop *loop);
