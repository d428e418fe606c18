/* Who is let onto the chain, who gets pages, and who has to give them up. It decides; the scheduler
 * acts. Thread: one at a time. */
#pragma once

#include "gateway/schedule/running_set.h"
#include "gateway/schedule/wait_queue.h"

/* A sequence that there were no pages for: it need not be tried again while nothing has changed. */
typedef struct lh_admission_refusal {
    uint64_t id, revision, spare;
} lh_admission_refusal;

typedef struct lh_admission {
    /* The parts that it reads; they outlive it. */
    lh_wait_queue *queue;
    lh_running_set *running;
    lh_kv_store *store;
    uint32_t places;              /* sequences with pages on the chain at once */
    lh_admission_refusal refused; /* the last one; admission.c's alone */
} lh_admission;

/* Whether one more may run: a place is free when the workers have let go of who had it. */
bool lh_admission_has_place(const lh_admission *admission);

typedef enum lh_admission_verdict {
    LH_ADMISSION_NOBODY,  /* none may enter now */
    LH_ADMISSION_ENTER,   /* the sequence has its block table and is to get its place */
    LH_ADMISSION_PREEMPT, /* the sequence, which runs, is to make way */
    LH_ADMISSION_TOO_LONG /* the sequence can never fit this chain */
} lh_admission_verdict;

typedef struct lh_admission_decision {
    lh_admission_verdict verdict;
    lh_sequence *sequence; /* NULL: nobody */
} lh_admission_decision;

/* What is to be done with those that wait. Each decision is to be carried out before the next one
 * is asked for; ask until it is LH_ADMISSION_NOBODY. */
lh_admission_decision lh_admission_next(lh_admission *admission, int64_t now_us);

/* Those that stall and have a page now are ready again. */
void lh_admission_wake_stalled(lh_admission *admission);
/* Some still stall, and no page comes back by itself: who is to be preempted; NULL: nobody. */
lh_sequence *lh_admission_next_victim(lh_admission *admission);
/* Gives up cached prefixes, so that those that run may grow and prompts may come. */
void lh_admission_keep_free(lh_admission *admission);
