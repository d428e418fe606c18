/* Which traced requests a step of the scheduler's serves (the essay is in scheduler.c). */
#include "gateway/schedule/scheduler_state.h"

bool lh_flight_is_traced(const lh_flight *flight) {
    for (uint32_t i = 0; i < flight->segment_count; i++)
        if (flight->segments[i].sequence && flight->segments[i].sequence->trace)
            return true;
    return false;
}

/* A request with several choices may have several segments in a step. */
static lh_trace_part *find_part(lh_trace_part *parts, uint32_t count, uint64_t trace) {
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].trace == trace)
            return &parts[i];
    return NULL;
}

/* Its plan is told with its first rows. */
static void begin_part(lh_trace_part *part, const lh_flight_segment *segment) {
    const lh_sequence *sequence = segment->sequence;
    *part = (lh_trace_part){.trace = sequence->trace, .first_position = segment->first_position};
    if (!sequence->has_plan || !segment->is_first)
        return;
    part->predicted_us = (int64_t)sequence->predicted_us;
    lh_overlap_plan_text(&sequence->plan, part->plan, sizeof part->plan);
}

uint32_t lh_scheduler_traced_parts(const lh_scheduler *scheduler, uint64_t step, lh_trace_part *parts,
                                   uint32_t max) {
    const lh_flight *flight = lh_flight_table_find(scheduler->flights, step);
    uint32_t count = 0;
    for (uint32_t i = 0; flight && i < flight->segment_count; i++) {
        const lh_flight_segment *segment = &flight->segments[i];
        uint64_t trace = segment->sequence ? segment->sequence->trace : 0;
        lh_trace_part *part = trace ? find_part(parts, count, trace) : NULL;
        if (trace && !part && count < max) {
            part = &parts[count++];
            begin_part(part, segment);
        }
        if (!part)
            continue;
        part->rows += segment->rows;
        part->draws += segment->sample;
        part->shared += segment->is_first ? segment->first_position : 0;
    }
    return count;
}
