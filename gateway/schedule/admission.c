/* Places and pages.
 *
 * A sequence is let in when a place is free and every stage has pages for its history; it gets
 * further ones as it grows, and what is not there is not used: so no worker runs out of pages. More
 * of them run than could if all came to their full length. The price is that pages may run short
 * while they grow. Then, in this order:
 *
 *  1. Cached prefixes go, the least recently used first (kv_store.h). That takes a truncation
 *     around the chain, and so it is done beforehand: a page for each sequence that may need one,
 *     and a share of all pages for prompts that are to come, are kept free of cached ones.
 *  2. A sequence whose next row has no page stalls, until one comes back.
 *  3. When nothing will come back by itself, the last in line is preempted (running_set.h): its
 *     pages are dropped, it keeps its old place among its tenant's, and is replayed from its
 *     history later, with the same tokens.
 *
 * A second reason to preempt: a tenant has waited for LH_SHARE_PATIENCE_US with nothing on the
 * chain, as all places or pages are another's who came before it. Then the last in line goes of the
 * tenant that has the most places. Only where that is two at least: so each of as many tenants as
 * there are places has one of them, and nobody is stopped for one who has what they have. One at a
 * time: the next goes when what this one had has come back and was not enough; and none where all
 * of that tenant's but one would not be enough.
 *
 * Progress: the first in line is never preempted, and any sequence fits alone
 * (lh_scheduler_submit). No thrashing: who waits is let in only with a page to spare for everyone
 * who may still grow, so that all get on for a page's worth of tokens at least; who was preempted
 * is let in again only when it is its turn and there is room, and then stays for a while, unless
 * pages run short. A tenant that lost a place to another does not take it back when that one is
 * done: it leaves room for as long as others are about (fair_share.h). */
#include "gateway/schedule/admission.h"

#include "gateway/schedule/sequence_ask.h"

#include "gateway/schedule/sequence_ask.h"

/* Every eighth page is kept free of cached prefixes. */
#define FREE_SHARE 8u

static const lh_kv_ledger *ledger_of(const lh_admission *admission) {
    return lh_kv_store_ledger(admission->store);
}

static uint64_t count_growing(const lh_admission *admission) {
    return lh_running_set_growing(admission->running, ledger_of(admission));
}

/* ---- Places ---- */

static uint32_t places_ending(const lh_admission *admission) {
    return lh_kv_store_current_figures(admission->store).ending;
}

bool lh_admission_has_place(const lh_admission *admission) {
    return lh_running_set_count(admission->running) + places_ending(admission) < admission->places;
}

/* Of all pages, those that no running sequence has: 0 to 1. */
static double pages_free(const lh_admission *admission) {
    const lh_kv_ledger *ledger = ledger_of(admission);
    uint64_t all = lh_kv_ledger_positions(ledger);
    return all ? (double)lh_kv_ledger_positions_free(ledger) / (double)all : 0;
}

/* Gives a waiting sequence the pages for its history. False: they are short, for now. */
static bool give_pages(lh_admission *admission, lh_sequence *sequence) {
    lh_kv_store *store = admission->store;
    const lh_admission_refusal now = {sequence->schedule.id, lh_kv_store_revision(store),
                                      count_growing(admission)};
    const lh_admission_refusal *last = &admission->refused;
    if (now.id == last->id && now.revision == last->revision && now.spare == last->spare)
        return false;
    if (lh_sequence_kv_begin(&sequence->kv, store, now.id, lh_sequence_scope(sequence),
                             sequence->history, sequence->length, lh_sequence_is_scored(sequence),
                             now.spare))
        return true;
    admission->refused = now;
    return false;
}

/* ---- Making way ---- */

/* Whether what the sequence lacks, a place or pages, will come without this. */
static bool comes_by_itself(const lh_admission *admission) {
    const lh_kv_ledger *ledger = ledger_of(admission);
    if (!lh_admission_has_place(admission))
        return places_ending(admission) > 0;
    return ledger->blocks_cached + ledger->blocks_returning > 0;
}

static bool would_do(const lh_admission *admission, const lh_sequence *sequence,
                     const lh_preemption_candidate *candidate) {
    const lh_kv_ledger *ledger = ledger_of(admission);
    uint64_t needed = lh_kv_ledger_blocks_for(ledger, sequence->length) + count_growing(admission);
    return needed <= lh_kv_ledger_blocks_free(ledger) + ledger->blocks_cached +
                         ledger->blocks_returning + candidate->blocks;
}

/* Who is to make way for the next one in the queue, which lacks a place or pages; NULL: nobody. */
static lh_sequence *pick_victim(const lh_admission *admission, const lh_sequence *sequence,
                                int64_t now_us) {
    const lh_running_set *running = admission->running;
    if (!lh_share_is_starved(sequence->schedule.share) || lh_running_set_count(running) == 0 ||
        comes_by_itself(admission))
        return NULL;
    const lh_preemption_candidate candidate = lh_running_set_preemption_candidate(running, now_us);
    return candidate.sequence && would_do(admission, sequence, &candidate) ? candidate.sequence
                                                                           : NULL;
}

/* The first one that does not fit holds up the rest, so that a long one is not overtaken for ever.
 */
lh_admission_decision lh_admission_next(lh_admission *admission, int64_t now_us) {
    lh_sequence *sequence = lh_wait_queue_next(admission->queue, pages_free(admission), now_us);
    if (!sequence)
        return (lh_admission_decision){LH_ADMISSION_NOBODY, NULL};
    if (lh_sequence_positions(sequence) > lh_kv_ledger_positions(ledger_of(admission)))
        return (lh_admission_decision){LH_ADMISSION_TOO_LONG, sequence};
    if (lh_admission_has_place(admission) && give_pages(admission, sequence))
        return (lh_admission_decision){LH_ADMISSION_ENTER, sequence};
    lh_sequence *victim = pick_victim(admission, sequence, now_us);
    return (lh_admission_decision){victim ? LH_ADMISSION_PREEMPT : LH_ADMISSION_NOBODY, victim};
}

/* ---- Growing ---- */

void lh_admission_wake_stalled(lh_admission *admission) {
    lh_running_set *running = admission->running;
    for (lh_sequence *first; (first = lh_running_set_first_stalled(running));) {
        if (!lh_sequence_kv_grow(&first->kv, admission->store, lh_sequence_pending(first)))
            return;
        lh_running_set_move(running, first, LH_SEQUENCE_READY);
    }
}

/* Whether pages will be free without anybody's harm. */
static bool pages_come_back(const lh_admission *admission) {
    const lh_kv_ledger *ledger = ledger_of(admission);
    return lh_kv_ledger_blocks_free(ledger) + ledger->blocks_cached + ledger->blocks_returning > 0;
}

lh_sequence *lh_admission_next_victim(lh_admission *admission) {
    const lh_sequence *stalled = lh_running_set_first_stalled(admission->running);
    if (!stalled || pages_come_back(admission))
        return NULL;
    lh_sequence *last = lh_running_set_last_in_line(admission->running);
    return last == stalled ? NULL : last;
}

void lh_admission_keep_free(lh_admission *admission) {
    uint64_t spare = ledger_of(admission)->blocks_total / FREE_SHARE;
    lh_kv_store_make_room(admission->store, count_growing(admission) + spare);
}
