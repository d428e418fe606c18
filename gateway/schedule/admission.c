/* The scheduler's door: which waiting sequence is let onto the chain, and when (the essay is in scheduler.c). */
#include "gateway/schedule/scheduler_state.h"

bool lh_scheduler_has_place(const lh_scheduler *s) {
    return lh_scheduler_running(s) + lh_kv_store_current_figures(s->store).ending < s->options.sequences_max;
}

/* Of all pages, those that no running sequence has: 0 to 1. */
static double pages_free(const lh_scheduler *s) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(s->store);
    uint64_t all = lh_kv_ledger_positions(ledger);
    return all ? (double)lh_kv_ledger_positions_free(ledger) / (double)all : 0;
}

/* The first one that does not fit holds up the rest, so that a long one is not overtaken for ever. */
void lh_scheduler_admit(lh_scheduler *s, int64_t now_us) {
    for (lh_sequence *sequence; (sequence = lh_wait_queue_next(s->waiting, pages_free(s), now_us));) {
        uint32_t positions = lh_sequence_positions(sequence);
        if (positions > lh_kv_ledger_positions(lh_kv_store_ledger(s->store))) {
            lh_scheduler_emit_failed(s, sequence, LH_ERR_UNAVAILABLE,
                                     "the KV cache of the workers that are left is too small");
            lh_scheduler_forget(s, sequence);
            continue;
        }
        if (!lh_scheduler_has_place(s) || !lh_scheduler_give_pages(s, sequence)) {
            if (lh_scheduler_make_way(s, sequence, now_us))
                continue;
            return;
        }
        sequence->admitted_us = now_us;
        lh_scheduler_move(s, sequence, LH_SEQUENCE_PREFILL);
    }
}
