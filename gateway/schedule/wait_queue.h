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

/* Only wait_queue.c changes the list; everyone may read it. */
typedef struct lh_wait_queue {
    lh_share_table *shares; /* of the tenants, which may have places on other chains; outlives it */
    lh_sequence_list all;   /* that wait, in no order */
    uint64_t rows;          /* tokens of all their histories: what the chain will have to compute */
} lh_wait_queue;

/* Sequences that still wait are destroyed. */
void lh_wait_queue_reset(lh_wait_queue *queue);

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
