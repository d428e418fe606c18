/* What one step costs, put together from what is seen of it, for the meter.
 * Thread: the loop's. */
#pragma once

#include "common/protocol/step.h"
#include "worker/compute/pipeline/pipeline.h"
#include "worker/serve/meter.h"

/* Zeroed: nothing has come. */
typedef struct lh_step_stopwatch {
    lh_step_cost cost;
    uint32_t taken_shards, given_shards; /* of columns */
    int64_t fed_us;                      /* when the last piece of the body came */
    int64_t busy_since_us;               /* the compute thread's time after that */
    bool disturbed;                      /* other steps were worked on meanwhile */
} lh_step_stopwatch;

/* The manifest is here; is_last: the stage draws the tokens. */
void lh_step_stopwatch_start(lh_step_stopwatch *watch, const lh_step_manifest *manifest,
                             bool is_last);
/* A piece of the body has come and is about to be looked at. */
void lh_step_stopwatch_feed(lh_step_stopwatch *watch, int64_t now_us);
void lh_step_stopwatch_worked(lh_step_stopwatch *watch, const lh_pipeline_span *span);
/* The step has ended well. */
void lh_step_stopwatch_stop(lh_step_stopwatch *watch, lh_stage_meter *meter, int64_t now_us);
