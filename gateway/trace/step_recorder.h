/* Follows the traced steps of the chain from the gateway's side and puts each into the trace store
 * when it is over: the gateway's own times, the workers' times from the answer, and how the clocks
 * of the ring stood. Thread: the engine's. */
#pragma once

#include "gateway/trace/trace_store.h"

typedef struct lh_step_recorder lh_step_recorder;

/* The store outlives the recorder. */
lh_status lh_step_recorder_create(lh_trace_store *store, lh_step_recorder **recorder,
                                  lh_error *error);
/* Steps that are under way are forgotten. NULL is allowed. */
void lh_step_recorder_destroy(lh_step_recorder *recorder);

/* A timed step was formed and handed to the first hop. parts[count] are copied. Without memory it
 * is not traced. */
void lh_step_recorder_submit(lh_step_recorder *recorder, const lh_step_manifest *manifest,
                             const lh_trace_part *parts, uint32_t count, int64_t formed_us,
                             int64_t now_us);
/* What each of the chain's stages is believed to compute for it. */
void lh_step_recorder_believe(lh_step_recorder *recorder, uint32_t epoch, uint64_t step,
                              const double *us, uint32_t stage_count);
/* Its results came around the ring; the answer brought times; it is over. Steps that are not traced
 * are ignored. */
void lh_step_recorder_results(lh_step_recorder *recorder, uint32_t epoch, uint64_t step,
                              int64_t now_us);
void lh_step_recorder_times(lh_step_recorder *recorder, uint32_t epoch, uint64_t step,
                            const uint8_t *frames, size_t length);
void lh_step_recorder_done(lh_step_recorder *recorder, uint32_t epoch, uint64_t step,
                           lh_status status, int64_t now_us);
