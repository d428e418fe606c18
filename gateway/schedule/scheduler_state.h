/* Inside the scheduler: its state, and the moves of a sequence that its files share. scheduler.c has the life of
 * sequences, chain_change.c what becomes of them when the chain breaks, admission.c who is let in, page_supply.c who gets pages, preemption.c who has to give up pages and place, cancelling.c who ends early, step_overdue.c what does not come back, step_forming.c what goes into the next step (with
 * decode_forming.c and prefill_forming.c), step_landing.c what comes back, expected_finish.c and moving.c what is between
 * the chains of several schedulers. */
#pragma once

#include "gateway/schedule/decode_groups.h"
#include "gateway/schedule/flight.h"
#include "gateway/schedule/scheduler.h"
#include "gateway/schedule/sequence_book.h"
#include "gateway/schedule/step_builder.h"
#include "gateway/schedule/wait_queue.h"

/* How the sequences that decode are dealt now (decode_forming.c). */
typedef struct lh_decode_deal {
    uint32_t sequences; /* that it was made for; 0: none yet */
    uint64_t made_at;   /* decode_steps then */
    lh_decode_groups groups;
} lh_decode_deal;

/* The last one that there were no pages for (page_supply.c): it need not be tried again while nothing has changed. */
typedef struct lh_page_refusal {
    uint64_t id, revision, spare;
} lh_page_refusal;

struct lh_scheduler {
    lh_scheduler_options options;
    lh_scheduler_sink sink;
    uint64_t next_step, own_numbers;
    uint64_t *numbers; /* the last one given to a sequence */

    /* Every sequence is in one of these, by its state. */
    lh_wait_queue *waiting;
    lh_sequence_book *book; /* those that have not ended */
    lh_sequence_list prefill, ready, sampling, stalled;

    bool is_up;
    uint32_t epoch, stages;
    lh_kv_store *store; /* the chain's pages, and who has them */
    lh_page_refusal refusal;
    lh_flight_table *flights;
    lh_step_builder *builder;
    lh_overlap_planner *planner;
    lh_decode_deal deal;
    uint32_t prefills_since_eldest; /* chunks of others since the prompt that was let in first had one */
    uint32_t prompts_since_crowd;   /* steps of prompts since rows left of who has most of the chain */
    uint32_t cut_count;
    lh_step_cut
        cuts[LH_STEP_CUTS_MAX]; /* of the step that is being formed, one for each hop between workers */
    int64_t down_since_us;      /* while down; INT64_MIN: there was never a chain */
    int64_t gives_up_us;        /* while down: then the sequences fail, unless a chain is expected */
    int64_t
        expected_us; /* so long is the next chain being loaded, as far as is known; INT64_MIN: it is not */
    int64_t progress_us; /* the last step that went out of an empty chain, came back or brought a token */

    uint32_t overdue_faults; /* since a step last came back; bounded (step_overdue.c) */

    uint64_t decode_steps; /* since start */
    bool owes_roll_call;   /* the workers wait for one (chain_change.c) */
    uint32_t lost_stages;  /* the first ones, whose caches were empty when the chain came back */
    uint32_t reach;        /* of the step that is being formed */
    lh_step_release roll[LH_STEP_RELEASES_MAX];
    bool doubts_caches; /* what the workers hold is not to be relied upon when the chain breaks */
    bool has_fault;
    char fault_reason[LH_ERROR_MESSAGE_BYTES];
    lh_scheduler_figures figures;
};

static inline uint32_t lh_least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* A sequence that a worker has refused travels alone, so that the next refusal tells which one it was. */
static inline bool lh_sequence_is_suspect(const lh_sequence *sequence) {
    return sequence->strikes > 0 && sequence->strike_length == sequence->length;
}

/* With whom it shares pages. */
static inline lh_prefix_scope lh_sequence_scope(const lh_sequence *sequence) {
    return (lh_prefix_scope){sequence->tenant, sequence->cache_salt};
}

/* Whether a row of it is of a traced request. */
bool lh_flight_is_traced(const lh_flight *flight);
/* Sequences that hold pages and have not ended. */
uint32_t lh_scheduler_running(const lh_scheduler *scheduler);
/* The next of them; NULL: the first. NULL: there is none. */
lh_sequence *lh_scheduler_next_running(const lh_scheduler *scheduler, const lh_sequence *sequence);
/* Of any state but WAITING. */
lh_sequence_list *lh_scheduler_list_of(lh_scheduler *scheduler, lh_sequence_state state);
void lh_scheduler_move(lh_scheduler *scheduler, lh_sequence *sequence, lh_sequence_state state);
void lh_scheduler_emit_failed(lh_scheduler *scheduler, lh_sequence *sequence, lh_status status,
                              const char *message);
void lh_scheduler_emit_finished(lh_scheduler *scheduler, lh_sequence *sequence, lh_finish_reason reason);
/* After the last event of a running sequence: it is gone, and what its pages are worth stays cached. */
void lh_scheduler_retire(lh_scheduler *scheduler, lh_sequence *sequence);
/* Destroys a sequence that no step waits for. */
void lh_scheduler_forget(lh_scheduler *scheduler, lh_sequence *sequence);
/* Ends those whose deadline has passed. */
void lh_scheduler_expire(lh_scheduler *scheduler, int64_t now_us);
/* Pages for those that stall, by what is cached or else by preemption, and some kept free for those that grow. */
void lh_scheduler_supply_pages(lh_scheduler *scheduler);
/* Gives a waiting sequence the pages for its history. False: they are short, for now. */
bool lh_scheduler_give_pages(lh_scheduler *scheduler, lh_sequence *sequence);
/* Whether there is a page for the next row of a ready sequence; else it stalls until there is. */
bool lh_scheduler_has_page(lh_scheduler *scheduler, lh_sequence *sequence);
/* Blocks that those that run may come to need next: one for each that may still grow. */
uint64_t lh_scheduler_count_growing(const lh_scheduler *scheduler);
/* Which of two that run, or wait for a page, keeps its pages (preemption.c). */
bool lh_sequence_is_before(const lh_sequence *a, const lh_sequence *b);
/* Of those that run the one that is to go first; NULL: none runs. */
lh_sequence *lh_scheduler_last_in_line(const lh_scheduler *scheduler);
/* It gives its place and its pages back and waits again. */
void lh_scheduler_preempt(lh_scheduler *scheduler, lh_sequence *sequence);
/* The next one in the queue lacks a place or pages: where its tenant has waited for long with nothing on the chain, one of those
 * that run is preempted for it. False: none was. */
bool lh_scheduler_make_way(lh_scheduler *scheduler, const lh_sequence *sequence, int64_t now_us);
/* It has nothing on the chain any more; what that is worth stays cached. */
void lh_scheduler_let_go(lh_scheduler *scheduler, lh_sequence *sequence);
/* Off the chain and back into the queue, to be replayed later from its history or from what it has kept. */
void lh_scheduler_send_back(lh_scheduler *scheduler, lh_sequence *sequence);
/* Whether one more may run: a place is free when the workers have let go of who had it. */
bool lh_scheduler_has_place(const lh_scheduler *scheduler);
/* When a step that leaves now, and is under way already, is to be back; when the first one is overdue, INT64_MAX: none will be; and the fault,
 * where one is. */
void lh_scheduler_expect_back(lh_scheduler *scheduler, lh_flight *flight, int64_t now_us);
int64_t lh_scheduler_overdue_us(const lh_scheduler *scheduler);
void lh_scheduler_weigh_overdue(lh_scheduler *scheduler, int64_t now_us);
/* Lets in those that wait, as far as places and pages go. */
void lh_scheduler_admit(lh_scheduler *scheduler, int64_t now_us);
/* The first reason stays. */
void lh_scheduler_report_fault(lh_scheduler *scheduler, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
