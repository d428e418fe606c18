/* The order of the compute thread's work: what has to wait for what, and whose turn it is (the essay is in
 * pipeline_run.c). Private to pipeline*.c. Thread: the compute thread. */
#pragma once

#include "worker/pipeline/pipeline_state.h"

/* Steps that have to begin before this one: earlier ones of its class or of one of its sequences. Those that write what
 * it forks have to end. */
bool lh_pipeline_must_wait_to_begin(const lh_pipeline *pipeline, const lh_pipeline_step *step);
/* An earlier step of one of its sequences is not over. */
bool lh_pipeline_must_wait_to_finish(const lh_pipeline *pipeline, const lh_pipeline_step *step);
/* Whether a step that came before `step` still works on the sequence or is to fork from it. */
bool lh_pipeline_is_in_use_before(const lh_pipeline *pipeline, const lh_pipeline_step *step,
                                  uint64_t sequence);
/* An earlier one that is doomed has a segment of a sequence of its. */
bool lh_pipeline_shares_with_doomed(const lh_pipeline *pipeline, const lh_pipeline_step *step);

/* Whether there is a panel for it to begin in. One is kept for decode steps; but the first prefill step may have the last
 * one, and when it is prefill's turn decode steps leave it one. */
bool lh_pipeline_has_panel(const lh_pipeline *pipeline, const lh_pipeline_step *step);
/* So many decode steps have gone before it that prefill goes first now. */
bool lh_pipeline_is_prefills_turn(const lh_pipeline *pipeline);
/* Tells of a step that is about to finish. */
void lh_pipeline_count_overtakes(lh_pipeline *pipeline, const lh_pipeline_step *finished);
