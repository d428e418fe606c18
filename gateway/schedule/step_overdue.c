/* Steps that do not come back.
 *
 * A hop may stand still without being silent: its PINGs are answered, but the end of a step's body was lost to a flipped bit, so the next
 * stage waits for bytes that nobody will send. No answer comes then, and no error. What a step should take is known, though, where the
 * stages and hops have been measured: at worst all steps that are under way go one after the other, without any overlap. One that takes
 * TIMES as long, and a tenth of the step timeout at least, is a fault of the chain.
 *
 * What must not look like one:
 *  - Something became slow while the step was under way: it is judged by what is known when it is due, not by what was known when it left.
 *  - Nobody here looked: the gateway itself was stopped, and what came is still to be read. Then it is looked at again later.
 *  - The estimate is wrong. Each such fault doubles the patience until a step has come back, up to the step timeout. */
#include "gateway/schedule/scheduler_state.h"

#include <math.h>

#define TIMES         20.0
#define TIMEOUT_PART  10 /* of the step timeout: the least */
#define DOUBLINGS_MAX 4u
#define LONGEST_US    3.6e9
/* A tick may come so late when the machine is busy. */
#define LATE_US 500000

static int64_t least_us(const lh_scheduler *s) {
    return s->options.step_timeout_us / TIMEOUT_PART;
}

/* Alone on the chain, as one piece. */
static double alone_us(const lh_cost_chain *costs, const lh_flight *flight) {
    uint32_t position = 0;
    for (uint32_t i = 0; i < flight->segment_count; i++) {
        uint32_t end = flight->segments[i].first_position + flight->segments[i].rows;
        position = end > position ? end : position;
    }
    if (flight->rows == 0)
        return 0;
    return flight->step_class == LH_STEP_DECODE ? lh_cost_decode_step(costs, position, flight->rows).ring_us
                                                : lh_cost_off_us(costs, position, flight->rows, flight->rows);
}

/* What is under way may take so long, one step after the other. */
static int64_t patience_us(const lh_scheduler *s) {
    double us = 0;
    for (const lh_flight *f = lh_flight_table_next(s->flights, NULL); f;
         f = lh_flight_table_next(s->flights, f))
        us += f->alone_us;
    int64_t least = least_us(s) << s->overdue_faults;
    return us * TIMES > (double)least ? (int64_t)fmin(us * TIMES, LONGEST_US) : least;
}

static bool is_awaited(const lh_flight *flight) {
    return !flight->wants_cancel && !flight->is_cancelled;
}

void lh_scheduler_expect_back(lh_scheduler *s, lh_flight *flight, int64_t now_us) {
    bool is_known = lh_overlap_planner_lacks(s->planner) == NULL;
    flight->alone_us = is_known ? alone_us(lh_overlap_planner_chain(s->planner), flight) : 0;
    flight->due_us = is_known ? now_us + patience_us(s) : INT64_MAX;
}

int64_t lh_scheduler_overdue_us(const lh_scheduler *s) {
    int64_t due_us = INT64_MAX;
    for (const lh_flight *f = lh_flight_table_next(s->flights, NULL); f;
         f = lh_flight_table_next(s->flights, f))
        if (is_awaited(f) && f->due_us < due_us)
            due_us = f->due_us;
    return due_us;
}

/* By what is known now. */
static int64_t due_now_us(lh_scheduler *s, const lh_flight *flight) {
    if (lh_overlap_planner_lacks(s->planner))
        return INT64_MAX;
    for (lh_flight *f = lh_flight_table_next(s->flights, NULL); f; f = lh_flight_table_next(s->flights, f))
        f->alone_us = alone_us(lh_overlap_planner_chain(s->planner), f);
    return flight->submitted_us + patience_us(s);
}

static void judge(lh_scheduler *s, lh_flight *flight, int64_t now_us) {
    bool is_seen_late = now_us - flight->due_us > LATE_US;
    flight->due_us = due_now_us(s, flight);
    if (is_seen_late && flight->due_us < now_us + least_us(s))
        flight->due_us = now_us + least_us(s);
    if (flight->due_us > now_us)
        return;
    lh_scheduler_report_fault(
        s, "step %llu has been under way for %lld ms, though alone on the chain it would take %.0f",
        (unsigned long long)flight->step, (long long)((now_us - flight->submitted_us) / 1000),
        flight->alone_us / 1000);
    s->overdue_faults += s->overdue_faults < DOUBLINGS_MAX;
}

void lh_scheduler_weigh_overdue(lh_scheduler *s, int64_t now_us) {
    for (lh_flight *f = lh_flight_table_next(s->flights, NULL); f && !s->has_fault;
         f = lh_flight_table_next(s->flights, f))
        if (is_awaited(f) && f->due_us <= now_us)
            judge(s, f, now_us);
}
