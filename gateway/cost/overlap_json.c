/* Times in milliseconds, as people think of prompts. */
#include "gateway/cost/overlap_json.h"

#include "gateway/cost/overlap_shape.h"

/* Of the token whose time is shown. */
#define DECODE_POSITION 512u

static const uint32_t prompts[] = {128, 512, 2048};

static double ms(double us) {
    return us / 1000;
}

static json_t *render_stage(const lh_compute_profile *stage) {
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "row_ms",
        ms(lh_cost_stage_us(stage, 0, 1)), "rows_64_ms", ms(lh_cost_stage_us(stage, 0, 64)),
        "rows_512_ms", ms(lh_cost_stage_us(stage, 0, 512)), "attention_us",
        stage->us_per_row_position, "draw_ms", ms(stage->draw_us), "step_ms", ms(stage->step_us),
        "shard_ms", ms(stage->shard_us), "take_share", stage->take_share, "give_share",
        stage->give_share, "calibrated_times", stage->calibrated_times);
}

static json_t *render_hop(const lh_cost_hop *hop) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "bytes_per_us", hop->bytes_per_us, "delay_ms",
                     ms(hop->delay_us), "ready_bytes", hop->ready_bytes, "step_bytes",
                     hop->step_bytes, "row_bytes", hop->step_row_bytes + hop->row_bytes);
}

static json_t *render_cuts(const lh_overlap_plan *plan, uint32_t width) {
    json_t *cuts = json_array();
    for (uint32_t h = 0; h < plan->cut_count; h++) {
        lh_step_cut cut = lh_overlap_cut(plan->cuts[h], width);
        json_t *ends = json_array();
        for (uint32_t i = 0; i < cut.count; i++)
            json_array_append_new(ends, json_integer(cut.ends[i]));
        json_array_append_new(cuts, ends);
    }
    return cuts;
}

static json_t *render_plan(const lh_overlap_planner *planner, uint32_t rows) {
    lh_overlap_plan plan;
    char text[160];
    lh_overlap_planner_show(planner, rows, &plan);
    json_t *chunks = json_array();
    for (uint32_t i = 0; i < plan.chunk_count; i++)
        json_array_append_new(chunks, json_integer(plan.chunks[i]));
    return json_pack("{s:i, s:s, s:o, s:o, s:i, s:f, s:f, s:f}", "prompt", (int)rows, "plan",
                     lh_overlap_plan_text(&plan, text, sizeof text), "chunks", chunks,
                     "column_ends", render_cuts(&plan, lh_overlap_planner_chain(planner)->width),
                     "depth", (int)plan.depth, "predicted_ms", ms(plan.predicted_us), "bound_ms",
                     ms(plan.bound_us), "off_ms", ms(plan.off_us));
}

json_t *lh_overlap_json_render(const lh_overlap_planner *planner) {
    const lh_cost_chain *chain = lh_overlap_planner_chain(planner);
    const char *lacks = lh_overlap_planner_lacks(planner);
    json_t *stages = json_array(), *hops = json_array(), *plans = json_array();
    for (uint32_t s = 0; !lacks && s < chain->stage_count; s++)
        json_array_append_new(stages, render_stage(&chain->stages[s]));
    for (uint32_t h = 0; !lacks && h <= chain->stage_count; h++)
        json_array_append_new(hops, render_hop(&chain->hops[h]));
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++)
        json_array_append_new(plans, render_plan(planner, prompts[i]));
    double token_ms = lacks ? 0 : ms(lh_cost_decode_step(chain, DECODE_POSITION, 1).ring_us);
    return json_pack("{s:s?, s:o, s:o, s:o, s:f}", "lacks", lacks, "stages", stages, "hops", hops,
                     "plans", plans, "token_ms", token_ms);
}
