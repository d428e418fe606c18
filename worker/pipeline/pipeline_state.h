/* The pipeline's two sides in one struct. Private to pipeline*.c. */
#pragma once

#include "worker/pipeline/pipeline_step.h"

#include <pthread.h>

typedef TAILQ_HEAD(lh_pipeline_steps, lh_pipeline_step) lh_pipeline_steps;

struct lh_pipeline {
    lh_pipeline_options options; /* read-only */
    lh_shard_queue *inbox, *outbox;
    pthread_t thread;
    lh_control_message stop_message;
    bool polling; /* the I/O thread's */

    /* The compute thread's. */
    lh_stage *stage;
    uint32_t steps_max, begun_count;
    bool stopping;
    uint32_t overtakes;      /* decode steps in a row that have finished while a prefill step was there */
    lh_pipeline_steps steps; /* those that have not been freed, in the order of arrival */
};

/* The compute thread's function; the argument is the pipeline. */
void *lh_pipeline_run(void *pipeline);

/* The message that a member `head` belongs to. */
#define LH_MESSAGE_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
