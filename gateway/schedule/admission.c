/* The scheduler's door: which waiting sequence is let onto the chain, and when (the essay is in scheduler.c). */
#include "gateway/schedule/scheduler_state.h"

static bool has_free_place(const lh_scheduler *s) {
    return lh_scheduler_running(s) + s->releasing.count < s->options.sequences_max;
}

/* Of all pages, where they are the scarcest: 0 to 1. */
static double pages_free(const lh_scheduler *s) {
    uint64_t all = lh_kv_ledger_positions(&s->ledger);
    return all ? (double)lh_kv_ledger_positions_free(&s->ledger) / (double)all : 0;
}

/* The first one that does not fit holds up the rest, so that a long one is not overtaken for ever. */
void lh_scheduler_admit(lh_scheduler *s, int64_t now_us) {
    for (lh_sequence *sequence; (sequence = lh_wait_queue_next(s->waiting, pages_free(s), now_us));) {
        uint32_t positions = lh_sequence_positions(sequence);
        if (positions > lh_kv_ledger_positions(&s->ledger)) {
            lh_scheduler_emit_failed(s, sequence, LH_ERR_UNAVAILABLE,
                                     "the KV cache of the workers that are left is too small");
            lh_scheduler_forget(s, sequence);
            continue;
        }
        if (!has_free_place(s) || !lh_kv_ledger_promise(&s->ledger, positions))
            return;
        lh_scheduler_move(s, sequence, LH_SEQUENCE_PREFILL);
    }
}
