/* The scheduler: when a sequence would be through on this chain, from its cost model and from who is there already. It is for
 * comparing chains, so what is the same for all of them may be rough.
 *
 *   wait for a place   those who are ahead of it beyond the places there are, each as long as itself
 *   its prompt         all rows that are still to be computed for those before it, and its own that nobody's prefix here
 *                      spares it, at the pace of the busiest stage or hop
 *   its tokens         each takes a turn around the ring, or, with many others, a row of each of them at the busiest stage
 *                      or hop */
#include "gateway/schedule/scheduler_state.h"

static uint64_t sum_pending(const lh_sequence_list *list) {
    uint64_t rows = 0;
    for (const lh_sequence *sequence = list->first; sequence; sequence = sequence->next)
        rows += lh_sequence_pending(sequence);
    return rows;
}

bool lh_scheduler_expect_finish(const lh_scheduler *scheduler, const lh_sequence *sequence, double *us) {
    const lh_scheduler *s = scheduler;
    const lh_cost_chain *costs = lh_overlap_planner_chain(s->planner);
    uint32_t here = lh_scheduler_running(s) + lh_wait_queue_count(s->waiting);
    uint32_t places = s->options.sequences_max;
    *us = here;
    if (lh_cost_chain_check(costs, NULL) != LH_OK)
        return false;
    uint32_t beside = here < places ? here + 1 : places;
    uint32_t cached =
        lh_kv_store_cached_positions(s->store, lh_sequence_scope(sequence), sequence->history, sequence->length);
    double rows =
        (double)(sum_pending(&s->prefill) + lh_wait_queue_rows(s->waiting) + sequence->length - cached);
    double prompt_us = rows * lh_cost_busiest_us(costs, 0, s->options.rows_max) / s->options.rows_max;
    double ring_us = lh_cost_decode_us(costs, sequence->length);
    double busy_us = lh_cost_decode_step(costs, sequence->length, beside).busiest_us;
    double tokens_us = sequence->max_tokens * (ring_us > busy_us ? ring_us : busy_us);
    double turns = here < places ? 0 : (double)(here - places + 1) / places;
    *us = turns * tokens_us + prompt_us + tokens_us;
    return true;
}
