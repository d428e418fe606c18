/* The sequences that wait for a place on the chain, and which of them is next.
 *
 *  - Between tenants: the one that has had the least of the chain, but nobody is left with nothing
 *    for long (fair_share.h).
 *  - Within a tenant: the lower the priority's number the sooner, then first come, first served;
 *    but every eighth one that is let in is the oldest, so that work of a low priority has a small
 *    share also while better one keeps coming.
 *
 * So a priority orders what is the tenant's own, and takes nothing from others.
 *
 * The queue knows a sequence from lh_wait_queue_push to lh_wait_queue_leave: while it runs it holds
 * one of its tenant's places, and may be put back. Every operation takes at most the logarithm of
 * the number that wait.
 * Thread: one at a time. */
#pragma once

#include "gateway/schedule/fair_share.h"
#include "gateway/schedule/sequence.h"

typedef struct lh_wait_queue lh_wait_queue;

/* places: sequences that run at once; sequences: that run or wait at most. fairness group: of the
 * queues of other chains (fair_share.h); NULL: there are none. */
lh_status lh_wait_queue_create(uint32_t places, uint32_t sequences, lh_fairness_group *group,
                               lh_wait_queue **queue, lh_error *error);
/* NULL is allowed. Sequences that still wait are destroyed. */
void lh_wait_queue_destroy(lh_wait_queue *queue);

/* A sequence has come. LH_ERR_NO_MEMORY: it has not. */
lh_status lh_wait_queue_push(lh_wait_queue *queue, lh_sequence *sequence, int64_t now_us);
/* The one that is to run next, which stays in the queue; NULL: none that may. pages_free: the share
 * of the chain's pages that is free, 0 to 1. */
lh_sequence *lh_wait_queue_next(lh_wait_queue *queue, double pages_free, int64_t now_us);
/* A waiting one is let in: it holds a place now. What is pending of it is its tenant's, once. */
void lh_wait_queue_admit(lh_wait_queue *queue, lh_sequence *sequence);
/* One that ran comes back, into the order that it had: before all that came after it. Cannot fail.
 */
void lh_wait_queue_put_back(lh_wait_queue *queue, lh_sequence *sequence);
/* It is gone for good, from the queue or from its place. */
void lh_wait_queue_leave(lh_wait_queue *queue, lh_sequence *sequence);

uint32_t lh_wait_queue_count(const lh_wait_queue *queue);
/* Tokens of all their histories: what the chain will have to compute for those that wait. */
uint64_t lh_wait_queue_rows(const lh_wait_queue *queue);
/* Walks all that wait: NULL starts, NULL ends. What is taken away must not be the one that the walk
 * goes on from. */
lh_sequence *lh_wait_queue_walk(const lh_wait_queue *queue, const lh_sequence *sequence);
