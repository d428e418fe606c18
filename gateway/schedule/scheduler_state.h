/* Inside the scheduler: its state, and the moves of a sequence that its files share. scheduler.c has the life of
 * sequences, admission.c who is let in, cancelling.c who ends early, step_forming.c what goes into the next step (with
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

struct lh_scheduler {
    lh_scheduler_options options;
    lh_scheduler_sink sink;
    uint64_t next_step, own_numbers;
    uint64_t *numbers; /* the last one given to a sequence */

    /* Every sequence is in one of these, by its state. */
    lh_wait_queue *waiting;
    lh_sequence_book *book; /* those that have not ended */
    lh_sequence_list prefill, ready, sampling, releasing;
    /* Ended ones whose release is still to be sent, a part of `releasing`: [class][count] */
    lh_sequence **release_queue[2];
    uint32_t release_count[2];

    bool is_up;
    uint32_t epoch, stages;
    lh_kv_ledger ledger;
    lh_flight_table *flights;
    lh_step_builder *builder;
    lh_overlap_planner *planner;
    lh_decode_deal deal;
    uint32_t prefills_since_eldest; /* chunks of others since the prompt that was let in first had one */
    uint32_t cut_count;
    lh_step_cut
        cuts[LH_STEP_CUTS_MAX]; /* of the step that is being formed, one for each hop between workers */
    int64_t down_since_us;      /* while down; INT64_MIN: there was never a chain */
    int64_t gives_up_us;        /* while down: then the sequences fail, unless a chain is expected */
    int64_t
        expected_us; /* so long is the next chain being loaded, as far as is known; INT64_MIN: it is not */
    int64_t progress_us; /* the last step that went out of an empty chain, came back or brought a token */

    uint64_t decode_steps; /* since start */
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

/* Whether a row of it is of a traced request. */
bool lh_flight_is_traced(const lh_flight *flight);
/* Sequences that hold pages and have not ended. */
uint32_t lh_scheduler_running(const lh_scheduler *scheduler);
void lh_scheduler_move(lh_scheduler *scheduler, lh_sequence *sequence, lh_sequence_state state);
void lh_scheduler_emit_failed(lh_scheduler *scheduler, lh_sequence *sequence, lh_status status,
                              const char *message);
void lh_scheduler_emit_finished(lh_scheduler *scheduler, lh_sequence *sequence, lh_finish_reason reason);
/* After the last event of a running sequence: its release is to be sent. */
void lh_scheduler_retire(lh_scheduler *scheduler, lh_sequence *sequence);
/* Destroys a sequence that holds nothing on any worker. */
void lh_scheduler_forget(lh_scheduler *scheduler, lh_sequence *sequence);
/* Ends those whose deadline has passed. */
void lh_scheduler_expire(lh_scheduler *scheduler, int64_t now_us);
/* Lets in those that wait, as far as places and pages go. */
void lh_scheduler_admit(lh_scheduler *scheduler, int64_t now_us);
/* The first reason stays. */
void lh_scheduler_report_fault(lh_scheduler *scheduler, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
