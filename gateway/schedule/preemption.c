/* Who goes back to the queue so that others get on (the essay is in scheduler.c). Its pages are dropped, it keeps its old place among
 * its tenant's, and is replayed from its history later, with the same tokens. There are two reasons:
 *
 *  - Those that run are short of pages, and nothing comes back by itself (page_supply.c). The last in line goes.
 *  - A tenant has waited for LH_SHARE_PATIENCE_US with nothing on the chain, as all places or pages are another's who came before it. Then
 *    the last in line goes of the tenant that has the most places. Only where that is two at least: so each of as many
 *    tenants as there are places has one of them, and nobody is stopped for one who has what they have. One at a time: the next goes when
 *    what this one had has come back and was not enough; and none where all of that tenant's but one would not be enough.
 *
 * The line is the queue's (wait_queue.h), with what a tenant holds in place of what it has had: between tenants, the one that
 * has the fewest places is first; within one, priority, then arrival.
 *
 * No thrashing: who was preempted is let in again only when it is its turn and there is room, and then stays RUN_LEAST_US, unless pages
 * run short. A tenant that lost a place to another does not take it back when that one is done: it leaves room for as long as others are
 * about (fair_share.h). */
#include "gateway/schedule/scheduler_state.h"

/* Many times what a replay takes. */
#define RUN_LEAST_US 5000000

/* ---- The line ---------------------------------------------------------------------------------------------------- */

bool lh_sequence_is_before(const lh_sequence *a, const lh_sequence *b) {
    if (a->share != b->share)
        return lh_share_yields_before(b->share, a->share);
    return a->priority != b->priority ? a->priority < b->priority : a->id < b->id;
}

lh_sequence *lh_scheduler_next_running(const lh_scheduler *s, const lh_sequence *sequence) {
    const lh_sequence_list *lists[] = {&s->prefill, &s->ready, &s->sampling, &s->stalled};
    size_t i = 0, count = sizeof lists / sizeof lists[0];
    if (sequence) {
        if (sequence->next)
            return sequence->next;
        while (lists[i++]->last != sequence)
            ;
    }
    while (i < count && !lists[i]->first)
        i++;
    return i < count ? lists[i]->first : NULL;
}

lh_sequence *lh_scheduler_last_in_line(const lh_scheduler *s) {
    lh_sequence *last = NULL;
    for (lh_sequence *sequence = NULL; (sequence = lh_scheduler_next_running(s, sequence));)
        last = !last || lh_sequence_is_before(last, sequence) ? sequence : last;
    return last;
}

/* ---- Going back -------------------------------------------------------------------------------------------------- */

void lh_scheduler_send_back(lh_scheduler *s, lh_sequence *sequence) {
    lh_sequence_list_remove(lh_scheduler_list_of(s, sequence->state), sequence);
    sequence->has_plan = false;
    lh_wait_queue_put_back(s->waiting, sequence);
}

void lh_scheduler_preempt(lh_scheduler *s, lh_sequence *sequence) {
    lh_flight_table_detach(s->flights, sequence);
    lh_scheduler_let_go(s, sequence);
    lh_scheduler_send_back(s, sequence);
    sequence->preemptions++;
    s->figures.preemptions++;
}

/* ---- Making way -------------------------------------------------------------------------------------------------- */

static bool has_run_enough(const lh_sequence *sequence, int64_t now_us) {
    return sequence->preemptions == 0 || now_us - sequence->admitted_us >= RUN_LEAST_US;
}

/* What may be taken of the tenant that holds the most: all but one of its sequences. */
typedef struct spoils {
    lh_sequence *last; /* the one to go first; NULL: none may, now */
    uint64_t blocks;   /* of all of them; shared ones count for each */
} spoils;

static spoils find_spoils(const lh_scheduler *s, int64_t now_us) {
    const lh_share *most = lh_scheduler_last_in_line(s)->share;
    spoils found = {NULL, 0};
    const lh_sequence *first = NULL;
    for (lh_sequence *sequence = NULL; (sequence = lh_scheduler_next_running(s, sequence));) {
        if (sequence->share != most)
            continue;
        found.blocks += lh_kv_holding_blocks(sequence->kv);
        first = !first || lh_sequence_is_before(sequence, first) ? sequence : first;
        if (has_run_enough(sequence, now_us) && (!found.last || lh_sequence_is_before(found.last, sequence)))
            found.last = sequence;
    }
    found.blocks -= lh_kv_holding_blocks(first->kv);
    if (found.last == first)
        found.last = NULL;
    return found;
}

/* Whether what the sequence lacks, a place or pages, will come without this. */
static bool comes_by_itself(const lh_scheduler *s) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(s->store);
    if (!lh_scheduler_has_place(s))
        return lh_kv_store_current_figures(s->store).ending > 0;
    return ledger->blocks_cached + ledger->blocks_returning > 0;
}

static bool would_do(const lh_scheduler *s, const lh_sequence *sequence, const spoils *found) {
    const lh_kv_ledger *ledger = lh_kv_store_ledger(s->store);
    uint64_t needed = lh_kv_ledger_blocks_for(ledger, sequence->length) + lh_scheduler_count_growing(s);
    return needed <= lh_kv_ledger_blocks_free(ledger) + ledger->blocks_cached + ledger->blocks_returning +
                         found->blocks;
}

bool lh_scheduler_make_way(lh_scheduler *s, const lh_sequence *sequence, int64_t now_us) {
    if (!lh_wait_queue_is_starved(s->waiting, sequence) || lh_scheduler_running(s) == 0 || comes_by_itself(s))
        return false;
    const spoils found = find_spoils(s, now_us);
    if (!found.last || !would_do(s, sequence, &found))
        return false;
    lh_scheduler_preempt(s, found.last);
    return true;
}
