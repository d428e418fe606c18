/* The steps of a pipeline in the order of arrival: which of them has to wait for which, and whose
 * turn it is (compute_loop.c has the essay). It answers; the compute loop acts. Thread: the compute
 * thread. */
#pragma once

#include "worker/compute/pipeline/pipeline_step.h"

typedef TAILQ_HEAD(lh_pipeline_steps, lh_pipeline_step) lh_pipeline_steps;

typedef struct lh_step_queue {
    lh_pipeline_steps steps; /* all that have not been freed */
    uint32_t begun_max;      /* activation buffers of the stage */
    uint32_t overtakes; /* decode steps in a row that finished while a prefill step was there */
} lh_step_queue;

void lh_step_queue_init(lh_step_queue *queue);

/* Whether so many decode steps have gone first that prefill goes first now. */
bool lh_step_queue_is_prefills_turn(const lh_step_queue *queue);
/* Counts a step that is about to finish. */
void lh_step_queue_count_overtakes(lh_step_queue *queue, const lh_pipeline_step *finishing);

/* The next step of a class to begin, to finish, and to accept a shard; NULL: none may now.
 *
 * A step begins after the earlier ones of its class and of its sequences have begun, and after
 * those that write what it forks have ended; and where there is an activation buffer for it: one is
 * kept for decode steps, but the first prefill step may have the last one, and when it is prefill's
 * turn decode steps leave it one. Within a class steps finish in the order of arrival, and after
 * the earlier ones of their sequences. */
lh_pipeline_step *lh_step_queue_next_to_begin(const lh_step_queue *queue, bool decode);
lh_pipeline_step *lh_step_queue_next_to_finish(const lh_step_queue *queue, bool decode);
lh_pipeline_step *lh_step_queue_next_to_accept(const lh_step_queue *queue, bool decode);

/* Whether a step that came before `step` still works on the sequence or is to fork from it. */
bool lh_step_queue_is_in_use_before(const lh_step_queue *queue, const lh_pipeline_step *step,
                                    uint64_t sequence);

/* Dooms a step, which says why, and the later ones that have begun and share its sequences,
 * directly or through each other. */
void lh_step_queue_doom(lh_step_queue *queue, lh_pipeline_step *failed);
/* The last doomed step, which is to end next: no longer doomed. NULL: none is left. */
lh_pipeline_step *lh_step_queue_take_doomed(lh_step_queue *queue);
/* Takes a step out that is through with everything, for the caller to destroy; NULL: there is
 * none. */
lh_pipeline_step *lh_step_queue_remove_done(lh_step_queue *queue);
