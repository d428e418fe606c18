/* The way of requests from any thread to the engine's, where they become sequences, and of events
 * back. It decides on admission at once, by its places: each sequence holds one from its submission
 * to its last event.
 *
 * Its lock is never held while an event is delivered. It has two sides: "any thread" below, and the
 * engine's own thread. */
#pragma once

#include "gateway/schedule/sequence.h"

typedef struct lh_submission_queue lh_submission_queue;

/* places > 0: sequences that may run or wait. wake is called by any thread when there is something
 * to take. LH_ERR_NO_MEMORY. */
lh_status lh_submission_queue_create(uint32_t places, uint32_t context_positions,
                                     void (*wake)(void *), void *wake_context,
                                     lh_submission_queue **submissions, lh_error *error);
/* No other thread may use it any more. Submissions not taken are dropped. NULL is allowed. */
void lh_submission_queue_destroy(lh_submission_queue *submissions);

/* ---- Any thread: as lh_engine_submit, _cancel and _cancel_later ---- */

/* Sequences that are submitted together are of one tenant. One tenant alone cannot have the last
 * eighth of the places: LH_ERR_BUSY then, as where all are taken. */
lh_status lh_submission_queue_submit(lh_submission_queue *submissions,
                                     const lh_sequence_request *requests, uint32_t count,
                                     int64_t now_us, uint64_t *handles, lh_error *error);
void lh_submission_queue_cancel(lh_submission_queue *submissions, uint64_t handle);
void lh_submission_queue_cancel_later(lh_submission_queue *submissions, uint64_t handle);
/* The gate's present refusal, whether it is open or not. */
void lh_submission_queue_refusal(lh_submission_queue *submissions, lh_error *refusal);
/* Sequences that hold a place. */
uint32_t lh_submission_queue_count(lh_submission_queue *submissions);

/* ---- The engine's thread ---- */

/* Submissions are admitted until open_until_us (INT64_MAX: for good; 0: refused). positions: what
 * one sequence may come to, UINT64_MAX where that is not known. refusal, which is copied, is the
 * error afterwards. */
void lh_submission_queue_set_gate(lh_submission_queue *submissions, int64_t open_until_us,
                                  uint64_t positions, const lh_error *refusal);
/* The next submission, which the caller owns; NULL: none. Its handle is set. */
lh_sequence *lh_submission_queue_take_submission(lh_submission_queue *submissions);
/* The next handle to be cancelled, of those whose submission was taken; its place is free then.
 * False: none. */
bool lh_submission_queue_take_cancel(lh_submission_queue *submissions, uint64_t *handle);
/* Hands the event to the request's on_event, unless it was cancelled. The last one of a sequence
 * frees its place. */
void lh_submission_queue_deliver(lh_submission_queue *submissions, uint64_t handle,
                                 const lh_sequence_event *event);
/* Delivers LH_SEQUENCE_FAILED to every sequence that is left, and admits none afterwards. */
void lh_submission_queue_close(lh_submission_queue *submissions, lh_status status,
                               const char *message);
