/* Lists of sequences, and who is last in line. */
#include "gateway/schedule/running_set.h"

#include "gateway/schedule/fair_share.h"

#include <assert.h>

/* Many times what a replay takes. */
#define RUN_LEAST_US 5000000

void lh_running_set_reset(lh_running_set *set) {
    for (lh_sequence *sequence; (sequence = lh_running_set_next(set, NULL));) {
        lh_sequence_list_remove(&set->lists[sequence->schedule.state], sequence);
        lh_sequence_destroy(sequence);
    }
}

/* ---- Moves ---- */

/* The states that may come before each, as bits. */
static const unsigned before[LH_SEQUENCE_STATES] = {
    [LH_SEQUENCE_PREFILL] = 1u << LH_SEQUENCE_WAITING,
    [LH_SEQUENCE_READY] = 1u << LH_SEQUENCE_WAITING | 1u << LH_SEQUENCE_SAMPLING |
                          1u << LH_SEQUENCE_GUIDED | 1u << LH_SEQUENCE_STALLED,
    [LH_SEQUENCE_SAMPLING] = 1u << LH_SEQUENCE_PREFILL | 1u << LH_SEQUENCE_READY,
    [LH_SEQUENCE_GUIDED] = 1u << LH_SEQUENCE_SAMPLING,
    [LH_SEQUENCE_STALLED] = 1u << LH_SEQUENCE_READY,
};

/* What each state says of the history. */
static bool has_sent_enough(const lh_sequence *sequence, lh_sequence_state state) {
    uint32_t pending = lh_sequence_pending(sequence);
    if (state == LH_SEQUENCE_SAMPLING)
        return pending == 0;
    return pending > 0;
}

static void join(lh_running_set *set, lh_sequence *sequence, lh_sequence_state state) {
    assert(before[state] >> sequence->schedule.state & 1);
    assert(sequence->kv.table && has_sent_enough(sequence, state));
    sequence->schedule.state = state;
    lh_sequence_list_push(&set->lists[state], sequence);
}

static void leave(lh_running_set *set, lh_sequence *sequence) {
    assert(sequence->schedule.state != LH_SEQUENCE_WAITING);
    lh_sequence_list_remove(&set->lists[sequence->schedule.state], sequence);
}

void lh_running_set_enter(lh_running_set *set, lh_sequence *sequence, lh_sequence_state state) {
    lh_wait_queue_admit(set->queue, sequence);
    join(set, sequence, state);
}

void lh_running_set_move(lh_running_set *set, lh_sequence *sequence, lh_sequence_state state) {
    leave(set, sequence);
    join(set, sequence, state);
}

void lh_running_set_sample(lh_running_set *set, lh_sequence *sequence, lh_step_class step_class) {
    sequence->schedule.sampling_class = step_class;
    lh_running_set_move(set, sequence, LH_SEQUENCE_SAMPLING);
}

void lh_running_set_put_back(lh_running_set *set, lh_sequence *sequence) {
    assert(sequence->schedule.state != LH_SEQUENCE_GUIDED);
    leave(set, sequence);
    sequence->schedule.has_plan = false;
    lh_wait_queue_put_back(set->queue, sequence);
}

void lh_running_set_end(lh_running_set *set, lh_sequence *sequence) {
    leave(set, sequence);
    lh_wait_queue_leave(set->queue, sequence);
}

/* ---- Who is there ---- */

uint32_t lh_running_set_count(const lh_running_set *set) {
    uint32_t count = 0;
    for (int state = 0; state < LH_SEQUENCE_STATES; state++)
        count += set->lists[state].count;
    return count;
}

uint32_t lh_running_set_decoding(const lh_running_set *set) {
    return set->lists[LH_SEQUENCE_READY].count + set->lists[LH_SEQUENCE_SAMPLING].count +
           set->lists[LH_SEQUENCE_GUIDED].count;
}

lh_sequence *lh_running_set_next(const lh_running_set *set, const lh_sequence *sequence) {
    if (sequence && sequence->next)
        return sequence->next;
    for (int state = sequence ? (int)sequence->schedule.state + 1 : 0; state < LH_SEQUENCE_STATES;
         state++)
        if (set->lists[state].first)
            return set->lists[state].first;
    return NULL;
}

uint64_t lh_running_set_growing(const lh_running_set *set, const lh_kv_ledger *ledger) {
    uint64_t count = 0;
    for (const lh_sequence *sequence = NULL; (sequence = lh_running_set_next(set, sequence));)
        count += lh_kv_ledger_blocks_for(ledger, lh_sequence_positions(sequence)) >
                 lh_block_table_blocks(sequence->kv.table);
    return count;
}

/* ---- The line ---- */

/* Which of two keeps its place. */
static bool is_before(const lh_sequence *a, const lh_sequence *b) {
    const lh_sequence_schedule *of_a = &a->schedule, *of_b = &b->schedule;
    if (of_a->share != of_b->share)
        return lh_share_yields_before(of_b->share, of_a->share);
    return a->request.priority != b->request.priority ? a->request.priority < b->request.priority
                                                      : of_a->id < of_b->id;
}

lh_sequence *lh_running_set_next_guided(const lh_running_set *set) {
    lh_sequence *least = set->lists[LH_SEQUENCE_GUIDED].first;
    for (lh_sequence *sequence = least; sequence; sequence = sequence->next)
        least = lh_guide_work(&sequence->guide) < lh_guide_work(&least->guide) ? sequence : least;
    return least;
}

lh_sequence *lh_running_set_first_stalled(const lh_running_set *set) {
    lh_sequence *first = set->lists[LH_SEQUENCE_STALLED].first;
    for (lh_sequence *sequence = first; sequence; sequence = sequence->next)
        first = is_before(sequence, first) ? sequence : first;
    return first;
}

lh_sequence *lh_running_set_last_in_line(const lh_running_set *set) {
    lh_sequence *last = NULL;
    for (lh_sequence *sequence = NULL; (sequence = lh_running_set_next(set, sequence));)
        last = !last || is_before(last, sequence) ? sequence : last;
    return last;
}

static bool has_run_enough(const lh_sequence_schedule *schedule, int64_t now_us) {
    return schedule->preemptions == 0 || now_us - schedule->admitted_us >= RUN_LEAST_US;
}

lh_preemption_candidate lh_running_set_preemption_candidate(const lh_running_set *set,
                                                            int64_t now_us) {
    assert(lh_running_set_count(set) > 0);
    const struct lh_share *most = lh_running_set_last_in_line(set)->schedule.share;
    lh_preemption_candidate found = {NULL, 0};
    const lh_sequence *first = NULL;
    for (lh_sequence *sequence = NULL; (sequence = lh_running_set_next(set, sequence));) {
        if (sequence->schedule.share != most)
            continue;
        found.blocks += lh_block_table_blocks(sequence->kv.table);
        first = !first || is_before(sequence, first) ? sequence : first;
        if (has_run_enough(&sequence->schedule, now_us) &&
            (!found.sequence || is_before(found.sequence, sequence)))
            found.sequence = sequence;
    }
    found.blocks -= lh_block_table_blocks(first->kv.table);
    if (found.sequence == first)
        found.sequence = NULL;
    return found;
}
