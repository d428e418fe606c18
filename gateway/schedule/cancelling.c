/* The scheduler: sequences that end before their time, because somebody hung up or their deadline passed, and the steps that
 * nobody needs any more with them (the essay is in scheduler.c). */
#include "gateway/schedule/scheduler_state.h"

static bool is_to_be_cancelled(const lh_flight *flight) {
    return flight->wants_cancel || flight->is_cancelled;
}

/* Rows of the same sequence, or such as fork from it: from positions of this segment, or from a sequence that would not be there
 * without it. */
static bool goes_on_from(const lh_flight *later, const lh_flight_segment *segment) {
    for (uint32_t i = 0; i < later->segment_count; i++) {
        const lh_flight_segment *other = &later->segments[i];
        bool forks = other->source == segment->holding &&
                     (segment->source || other->first_position > segment->first_position);
        if (other->holding == segment->holding || forks)
            return true;
    }
    return false;
}

/* A later step that goes on would not continue the positions of this one's sequences, if this one were reset.
 */
static bool is_built_upon(lh_scheduler *s, const lh_flight *flight) {
    for (lh_flight *later = NULL; (later = lh_flight_table_next(s->flights, later));) {
        if (later->step <= flight->step || is_to_be_cancelled(later))
            continue;
        for (uint32_t i = 0; i < flight->segment_count; i++)
            if (goes_on_from(later, &flight->segments[i]))
                return true;
    }
    return false;
}

/* Whether resetting the request of a step harms nobody: no live sequence is in it, no release, which would be
 * lost, and nothing is built upon it or will be. */
static bool is_futile(lh_scheduler *s, const lh_flight *flight) {
    if (is_to_be_cancelled(flight) || flight->rows == 0 || flight->release_count > 0)
        return false;
    for (uint32_t i = 0; i < flight->segment_count; i++)
        if (flight->segments[i].sequence || flight->segments[i].is_drawn ||
            lh_kv_holding_is_pinned(flight->segments[i].holding))
            return false;
    return !is_built_upon(s, flight);
}

static lh_flight *find_futile(lh_scheduler *s) {
    for (lh_flight *f = NULL; (f = lh_flight_table_next(s->flights, f));)
        if (is_futile(s, f))
            return f;
    return NULL;
}

/* After its last event. */
static void give_up(lh_scheduler *s, lh_sequence *sequence) {
    if (sequence->state == LH_SEQUENCE_WAITING) {
        lh_scheduler_forget(s, sequence);
        return;
    }
    bool is_begun = sequence->is_begun;
    lh_scheduler_retire(s, sequence);
    for (lh_flight *futile; is_begun && (futile = find_futile(s));)
        futile->wants_cancel = true;
}

void lh_scheduler_cancel(lh_scheduler *scheduler, uint64_t handle) {
    lh_sequence *sequence = lh_sequence_book_find(scheduler->book, handle);
    if (!sequence)
        return;
    scheduler->figures.cancelled++;
    give_up(scheduler, sequence);
}

static bool is_overdue(const lh_sequence *sequence, int64_t now_us) {
    return sequence && now_us >= sequence->deadline_us;
}

void lh_scheduler_expire(lh_scheduler *s, int64_t now_us) {
    for (lh_sequence *sequence; is_overdue(sequence = lh_sequence_book_next_due(s->book), now_us);) {
        bool waits = sequence->state == LH_SEQUENCE_WAITING;
        s->figures.expired++;
        lh_scheduler_emit_failed(s, sequence, LH_ERR_TIMEOUT,
                                 waits ? "the deadline passed while the sequence waited"
                                       : "the deadline passed before the sequence was through");
        give_up(s, sequence);
    }
}

/* The last step first: so a worker never has one whose predecessor has been taken away. */
bool lh_scheduler_next_cancel(lh_scheduler *scheduler, uint64_t *step) {
    lh_flight *last = NULL;
    for (lh_flight *f = NULL; (f = lh_flight_table_next(scheduler->flights, f));)
        if (f->wants_cancel && (!last || f->step > last->step))
            last = f;
    if (!last)
        return false;
    last->wants_cancel = false;
    last->is_cancelled = true;
    *step = last->step;
    return true;
}
