/* Where requests of any thread become sequences of the engine's thread, and events find their way back. It decides on admission at once, by the
 * places it has: each sequence holds one from its submission to its last event.
 *
 * Its lock is never held while an event is delivered. Two sides: "any thread" below, and the engine's own thread. */
#pragma once

#include "gateway/engine/engine.h"
#include "gateway/schedule/sequence.h"

typedef struct lh_front_desk lh_front_desk;

/* wake is called by any thread when there is something to take. */
lh_status lh_front_desk_create(uint32_t places, uint32_t context_positions, void (*wake)(void *),
                               void *wake_context, lh_front_desk **desk, lh_error *error);
/* Nobody may be inside any more. Submissions not taken are dropped. NULL is allowed. */
void lh_front_desk_destroy(lh_front_desk *desk);

/* ---- Any thread: as lh_engine_submit, _cancel and _cancel_later -------------------------------------------------- */

/* Sequences that come together are of one tenant. One that has a name cannot have the last eighth of the places: LH_ERR_BUSY
 * then, as where all are taken. */
lh_status lh_front_desk_submit(lh_front_desk *desk, const lh_sequence_request *requests, uint32_t count,
                               int64_t now_us, uint64_t *handles, lh_error *error);
void lh_front_desk_cancel(lh_front_desk *desk, uint64_t handle);
void lh_front_desk_cancel_later(lh_front_desk *desk, uint64_t handle);
/* Sequences in the house. */
uint32_t lh_front_desk_count(lh_front_desk *desk);

/* ---- The engine's thread ----------------------------------------------------------------------------------------- */

/* Submissions are taken until then (INT64_MAX: for good; 0: refused); positions: what one sequence may come to, UINT64_MAX where
 * that is not known. The text, static, is what a refused one is told. */
void lh_front_desk_set_gate(lh_front_desk *desk, int64_t open_until_us, uint64_t positions,
                            const char *refusal);
/* The next submission, which the caller owns; NULL: none. Its handle is set. */
lh_sequence *lh_front_desk_take_submission(lh_front_desk *desk);
/* The next handle to be cancelled, of those whose submission was taken. False: none. */
bool lh_front_desk_take_cancel(lh_front_desk *desk, uint64_t *handle);
/* Hands the event to the request's on_event, unless it was cancelled. The last one of a sequence frees its place. */
void lh_front_desk_deliver(lh_front_desk *desk, uint64_t handle, const lh_sequence_event *event);
/* Delivers LH_SEQUENCE_FAILED to everyone who is left, and lets nobody in after it. */
void lh_front_desk_close(lh_front_desk *desk, lh_status status, const char *message);
