/* Whether there is a chain, what is wrong with it, and what becomes of the sequences when it breaks
 * and is there again. Thread: one at a time. */
#pragma once

#include "gateway/schedule/inflight.h"
#include "gateway/schedule/result_fault.h"
#include "gateway/schedule/running_set.h"
#include "gateway/schedule/wait_queue.h"

/* The first fields are set by its owner, the rest begins zeroed: there is no chain, and never was.
 * Only recovery.c changes these; the owner may read them. */
typedef struct lh_recovery {
    /* The parts whose sequences, steps and pages it moves; they outlive it. */
    lh_wait_queue *queue;
    lh_running_set *running;
    lh_inflight *inflight;
    lh_kv_store *store;
    /* As in lh_scheduler_options. */
    int64_t step_timeout_us, replay_timeout_us, takeover_timeout_us;

    bool is_up;
    uint32_t epoch;   /* of the last chain; 0: there was none */
    bool owes_resync; /* the workers wait for one */
    uint64_t replays; /* of sequences, after chain breaks, since start */

    bool has_fault;     /* only while it is up */
    bool doubts_caches; /* what the workers hold is not to be relied upon when the chain breaks */
    lh_result_fault result_fault; /* FINE: the fault is another one */
    char fault_reason[LH_ERROR_MESSAGE_BYTES];

    /* the last step that went out of an empty chain, came back or brought a token */
    int64_t progress_us;
    /* While it is down: since when, until when sequences wait, and until when at least, as the next
     * chain is being loaded; INT64_MIN: it is not. */
    int64_t down_since_us, gives_up_us, expected_us;
} lh_recovery;

/* ---- The chain ---- */

/* It is down: all steps in flight are lost, and all sequences wait. It was up. */
void lh_recovery_chain_down(lh_recovery *recovery, int64_t now_us);
/* It is up, with empty caches. It was down. */
void lh_recovery_chain_up(lh_recovery *recovery, uint32_t epoch, const lh_kv_ledger *chain);
/* It is up, where the workers have kept their caches but for the first lost_stages: sequences that
 * can go on from there run again, and a KV resync is owed. It was down. */
void lh_recovery_chain_back(lh_recovery *recovery, uint32_t epoch, const lh_kv_ledger *chain,
                            uint32_t lost_stages);
/* Up, and without a fault. */
bool lh_recovery_is_working(const lh_recovery *recovery);
/* Whether the first step is to be a KV resync, which is no longer owed then. */
bool lh_recovery_take_resync(lh_recovery *recovery);
/* Why a sequence of a broken chain is not to be tried again, and with which status it fails; NULL:
 * it is. */
const char *lh_recovery_gives_up_on(const lh_sequence *sequence, lh_status *status);

/* ---- Faults ---- */

/* Whether a step that ends so was refused, perhaps for what is in it. */
bool lh_status_is_refusal(lh_status status);
/* The chain is to be formed again; the first reason stays. doubts_caches: what the workers hold is
 * not to be relied upon then. The chain is up. */
void lh_recovery_report_fault(lh_recovery *recovery, bool doubts_caches, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same: the results of a step are at fault. */
void lh_recovery_report_results(lh_recovery *recovery, lh_result_fault fault, const char *format,
                                ...) __attribute__((format(printf, 3, 4)));
/* The same: the step was answered with an error, which may be due to what is in it. */
void lh_recovery_report_answer(lh_recovery *recovery, const lh_inflight_step *step,
                               lh_status status, const char *message);
/* Reports a step that is overdue, and that nothing has moved for the step timeout. */
void lh_recovery_find_fault(lh_recovery *recovery, int64_t now_us);

/* ---- Time ---- */

/* A step went out of an empty chain, came back or brought a token. */
void lh_recovery_note_progress(lh_recovery *recovery, int64_t now_us);
/* The next chain is being loaded, so that sequences wait until then, but at most the takeover
 * timeout from grown_us on, when the last bytes came. It has an effect while a chain that was there
 * is down. */
void lh_recovery_expect_chain(lh_recovery *recovery, int64_t until_us, int64_t grown_us);
/* Until when sequences are taken: INT64_MAX while the chain is up, INT64_MIN when there was never
 * one. */
int64_t lh_recovery_open_until_us(const lh_recovery *recovery);
/* When patience ends: with a chain on which nothing moves, or with none, while sequences wait.
 * INT64_MAX: never. */
int64_t lh_recovery_deadline_us(const lh_recovery *recovery);
