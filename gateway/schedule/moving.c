/* The scheduler: sequences that go from one chain to another. Their history is all that they need; so whoever waits, because
 * its chain is full or has broken, may as well wait elsewhere. */
#include "gateway/schedule/scheduler_state.h"

bool lh_scheduler_has_room(const lh_scheduler *scheduler) {
    const lh_scheduler *s = scheduler;
    return s->is_up && !s->has_fault && lh_wait_queue_count(s->waiting) == 0 && lh_scheduler_has_place(s);
}

/* From a chain that works, not twice within so long: there and back would not end where no chain lets it in. */
#define REST_US 200000

static bool may_go(const lh_scheduler *s, const lh_sequence *sequence, uint64_t positions_max,
                   int64_t now_us) {
    bool has_rested = !s->is_up || sequence->moved_us == 0 || now_us - sequence->moved_us >= REST_US;
    return has_rested && lh_sequence_positions(sequence) <= positions_max;
}

lh_sequence *lh_scheduler_surrender(lh_scheduler *scheduler, uint64_t positions_max, int64_t now_us) {
    lh_scheduler *s = scheduler;
    lh_sequence *sequence = lh_wait_queue_next(s->waiting, 1, now_us);
    if (!sequence || !may_go(s, sequence, positions_max, now_us))
        sequence = lh_wait_queue_walk(s->waiting, NULL);
    while (sequence && !may_go(s, sequence, positions_max, now_us))
        sequence = lh_wait_queue_walk(s->waiting, sequence);
    if (!sequence)
        return NULL;
    lh_scheduler_let_go(s, sequence);
    lh_wait_queue_leave(s->waiting, sequence);
    lh_sequence_book_remove(s->book, sequence);
    return sequence;
}

void lh_scheduler_adopt(lh_scheduler *scheduler, lh_sequence *sequence, int64_t now_us) {
    lh_scheduler *s = scheduler;
    sequence->moved_us = now_us;
    if (lh_wait_queue_push(s->waiting, sequence, now_us) == LH_OK) {
        lh_sequence_book_add(s->book, sequence);
        return;
    }
    lh_scheduler_emit_failed(s, sequence, LH_ERR_NO_MEMORY, "no memory for a sequence that waits");
    lh_sequence_destroy(sequence);
}
