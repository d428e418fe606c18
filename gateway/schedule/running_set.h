/* The sequences that have a place on the chain: a list for each state, the moves between them, and
 * the line in which they stand for their places.
 *
 *     queue --enter--> PREFILL --> SAMPLING <--> READY <--> STALLED
 *       ^                              \--> GUIDED --^
 *       |                              (all but GUIDED) --put_back--> queue, --end--> gone
 *
 * The line is the queue's (wait_queue.h), with what a tenant holds in place of what it has had:
 * between tenants, the one that has the fewest places is first; within one, priority, then arrival.
 * The last in line is the first to lose its place.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/schedule/sequence.h"
#include "gateway/schedule/wait_queue.h"

#define LH_SEQUENCE_STATES (LH_SEQUENCE_STALLED + 1)

/* Only running_set.c changes the lists; everyone may read them. */
typedef struct lh_running_set {
    lh_wait_queue *queue; /* which keeps count of the places; outlives the set */
    /* by state, each in the order of their coming; that of WAITING stays empty */
    lh_sequence_list lists[LH_SEQUENCE_STATES];
} lh_running_set;

/* Sequences that are left are destroyed. */
void lh_running_set_reset(lh_running_set *set);

/* A waiting sequence, which has its block table, gets a place. */
void lh_running_set_enter(lh_running_set *set, lh_sequence *sequence, lh_sequence_state state);
void lh_running_set_move(lh_running_set *set, lh_sequence *sequence, lh_sequence_state state);
/* All of its history is sent; the step of this class samples. */
void lh_running_set_sample(lh_running_set *set, lh_sequence *sequence, lh_step_class step_class);
/* It gives its place up and waits again, in its old place of the queue. */
void lh_running_set_put_back(lh_running_set *set, lh_sequence *sequence);
/* It is gone for good; the caller owns it. */
void lh_running_set_end(lh_running_set *set, lh_sequence *sequence);

uint32_t lh_running_set_count(const lh_running_set *set);
/* Those whose next token is under way or may be. */
uint32_t lh_running_set_decoding(const lh_running_set *set);
/* Walks them all: NULL starts, NULL ends. */
lh_sequence *lh_running_set_next(const lh_running_set *set, const lh_sequence *sequence);
/* Blocks that they may come to need next: one for each that may still grow. */
uint64_t lh_running_set_growing(const lh_running_set *set, const lh_kv_ledger *ledger);

/* Of those whose grammar has yet to take a token, the one whose grammar has cost least so far.
 * NULL: there is none. */
lh_sequence *lh_running_set_next_guided(const lh_running_set *set);
/* The first in line of those that stall; NULL: none does. */
lh_sequence *lh_running_set_first_stalled(const lh_running_set *set);
/* NULL: none runs. */
lh_sequence *lh_running_set_last_in_line(const lh_running_set *set);

/* What may be taken of the tenant that is last in line: all but the first of its sequences. */
typedef struct lh_preemption_candidate {
    lh_sequence *sequence; /* the one to go first; NULL: none may, now */
    uint64_t blocks;       /* of all of them; shared ones count for each */
} lh_preemption_candidate;
/* Some run. One that was preempted before and let in again less than RUN_LEAST_US ago stays. */
lh_preemption_candidate lh_running_set_preemption_candidate(const lh_running_set *set,
                                                            int64_t now_us);
