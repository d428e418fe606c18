/* A double of worker/compute/stage/stage.h for tests of order and failure: it computes nothing,
 * writes down what is asked of it, and does what the script says. A step is named by its first
 * token. Linked in place of the real stage. */
#pragma once

#include "worker/compute/stage/stage.h"

#include <stdbool.h>

/* A fresh log and no script. */
void scripted_stage_reset(void);
lh_stage *scripted_stage_make(void);

/* Steps wait in finish while this holds: before their first shard, or after it. */
void scripted_stage_hold(bool hold);
void scripted_stage_hold_after_first_shard(bool hold);
/* Returns when a step is in finish and held. */
void scripted_stage_wait_held(void);
/* What begin, accept or finish of the step returns. */
void scripted_stage_fail(const char *call, uint32_t step, lh_status status);
/* How many shards a step accepts before it is ready. */
void scripted_stage_need_shards(uint32_t shards);
/* Shards that finish emits, each of one row and 32 columns; default 0. */
void scripted_stage_emit(uint32_t shards);

/* A step draws 1000 and its name; where there are biases, the token of the first instead.
 *
 * Each step has had two gathers, of 10 and of 20 bytes.
 *
 * "begin 1, accept 1, finish 1, end 1, ": valid until the next call. */
const char *scripted_stage_log(void);
