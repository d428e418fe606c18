/* Who gets pages, and who has to give them up (the essay is in scheduler.c).
 *
 * A sequence is let in with pages for its history alone; so more of them run than could if all came to their full length.
 * The price is that pages may run short while they grow. Then, in this order:
 *
 *  1. Cached prefixes go, the least recently used first (kv_store.h). That takes a release around the chain, and so it is
 *     done beforehand: a page for each sequence that may need one, and a share of all pages for prompts that are to come,
 *     are kept free of cached ones.
 *  2. A sequence whose next row has no page stalls, until one comes back.
 *  3. When nothing will come back by itself, the last in line is preempted (preemption.c): it waits in its old place of the
 *     queue and is replayed later, with the same tokens.
 *
 * Progress: the first in line is never preempted, and any sequence fits alone (lh_scheduler_submit). No thrashing: who waits is let in only
 * with a page to spare for everyone who may still grow, so that all get on for a page's worth of tokens at least.
 */
#include "gateway/schedule/scheduler_state.h"

/* One in so many pages is kept free of cached prefixes. */
#define FREE_SHARE 8u

uint64_t lh_scheduler_count_growing(const lh_scheduler *s) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(s->store);
    uint64_t count = 0;
    for (const lh_sequence *sequence = NULL; (sequence = lh_scheduler_next_running(s, sequence));)
        count += lh_kv_ledger_blocks_for(ledger, lh_sequence_positions(sequence)) >
                 lh_kv_holding_blocks(sequence->kv);
    return count;
}

/* ---- Letting in -------------------------------------------------------------------------------------------------- */

/* What it was called before, when it had other pages, may still stand for a cached prefix. */
static uint64_t number_of(const lh_sequence *sequence) {
    return sequence->id + ((uint64_t)sequence->holdings << 40);
}

bool lh_scheduler_give_pages(lh_scheduler *s, lh_sequence *sequence) {
    const lh_page_refusal now = {sequence->id, lh_kv_store_revision(s->store), lh_scheduler_count_growing(s)};
    if (now.id == s->refusal.id && now.revision == s->refusal.revision && now.spare == s->refusal.spare)
        return false;
    sequence->kv = lh_kv_store_begin(s->store, number_of(sequence), lh_sequence_scope(sequence),
                                     sequence->history, sequence->length, now.spare);
    if (!sequence->kv) {
        s->refusal = now;
        return false;
    }
    sequence->holdings++;
    sequence->fed = lh_kv_store_shared_positions(s->store, sequence->kv);
    return true;
}

/* ---- Growing ----------------------------------------------------------------------------------------------------- */

bool lh_scheduler_has_page(lh_scheduler *s, lh_sequence *sequence) {
    if (lh_kv_store_grow(s->store, sequence->kv, sequence->fed + 1))
        return true;
    lh_scheduler_move(s, sequence, LH_SEQUENCE_STALLED);
    return false;
}

static lh_sequence *first_in_line(const lh_sequence_list *list) {
    lh_sequence *first = list->first;
    for (lh_sequence *sequence = first; sequence; sequence = sequence->next)
        first = lh_sequence_is_before(sequence, first) ? sequence : first;
    return first;
}

/* Those that have a page go on. */
static void wake_stalled(lh_scheduler *s) {
    for (lh_sequence *first; (first = first_in_line(&s->stalled));) {
        if (!lh_kv_store_grow(s->store, first->kv, first->fed + 1))
            return;
        lh_scheduler_move(s, first, LH_SEQUENCE_READY);
    }
}

/* Whether pages will be free without anybody's harm. */
static bool pages_come_back(const lh_scheduler *s) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(s->store);
    return lh_kv_ledger_blocks_free(ledger) + ledger->blocks_cached + ledger->blocks_returning > 0;
}

void lh_scheduler_supply_pages(lh_scheduler *s) {
    wake_stalled(s);
    for (lh_sequence *last; s->stalled.count > 0 && !pages_come_back(s);) {
        last = lh_scheduler_last_in_line(s);
        if (last == first_in_line(&s->stalled))
            break;
        lh_scheduler_preempt(s, last);
    }
    uint64_t spare = lh_kv_store_ledger(s->store)->blocks_total / FREE_SHARE;
    lh_kv_store_make_room(s->store, lh_scheduler_count_growing(s) + spare);
}
