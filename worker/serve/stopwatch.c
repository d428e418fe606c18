/* Sums of spans. What lies between a step's last piece coming in and its end, and is not the
 * compute thread's, is what a worker costs beside its arithmetic; it can only be told for a step
 * that nothing else was in the way of. */
#include "worker/serve/stopwatch.h"

void lh_step_stopwatch_start(lh_step_stopwatch *watch, const lh_step_manifest *manifest,
                             bool is_last) {
    watch->cost = (lh_step_cost){.rows = manifest->rows};
    for (uint32_t i = 0; i < manifest->segment_count; i++) {
        const lh_step_segment *segment = &manifest->segments[i];
        double rows = segment->rows;
        watch->cost.attended += rows * segment->first_position + rows * (rows - 1) / 2;
        if (is_last)
            watch->cost.draws += lh_row_ask_logit_rows(&segment->ask);
    }
}

void lh_step_stopwatch_feed(lh_step_stopwatch *watch, int64_t now_us) {
    watch->fed_us = now_us;
    watch->busy_since_us = 0;
}

void lh_step_stopwatch_worked(lh_step_stopwatch *watch, const lh_pipeline_span *span) {
    int64_t since_us = span->begin_us > watch->fed_us ? span->begin_us : watch->fed_us;
    watch->cost.busy_us += span->end_us - span->begin_us;
    watch->busy_since_us += span->end_us > since_us ? span->end_us - since_us : 0;
    /* A shard of many rows comes in several pieces, one below the other. */
    watch->taken_shards += span->work == LH_PIPELINE_ACCEPT && span->first_row == 0;
    watch->given_shards += span->work == LH_PIPELINE_EMIT && span->first_row == 0;
}

void lh_step_stopwatch_stop(lh_step_stopwatch *watch, lh_stage_meter *meter, int64_t now_us) {
    lh_step_cost *cost = &watch->cost;
    cost->extra_shards = (watch->taken_shards > 0 ? watch->taken_shards - 1 : 0) +
                         (watch->given_shards > 0 ? watch->given_shards - 1 : 0);
    if (cost->rows == 0)
        return; /* truncations */
    lh_stage_meter_note_step(meter, cost, now_us);
    if (!watch->disturbed)
        lh_stage_meter_note_overhead(meter, now_us - watch->fed_us - watch->busy_since_us);
}
