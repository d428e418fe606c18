/* The latest study: what was asked, what was found. */
#include "gateway/engine/plan_view_json.h"

#include "gateway/engine/layers_json.h"

#include <math.h>

static json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *render_stages(const lh_plan_study *study) {
    const lh_layout *layout = &study->plan.layout;
    json_t *stages = json_array();
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_layout_stage *stage = &layout->stages[i];
        const lh_map_machine *machine = &study->map->map.machines[stage->machine];
        json_array_append_new(stages,
                              json_pack("{s:s, s:s, s:o}", "worker", machine->name, "site",
                                        study->live.map.sites[machine->site], "layers",
                                        lh_layers_render(stage->layers.first, stage->layers.last)));
    }
    return stages;
}

/* Of throughput: microseconds for each token of all sequences, which is read the other way. */
static json_t *render_value(const lh_aim *aim, double value) {
    return number_or_null(aim->goal == LH_GOAL_THROUGHPUT ? 1e6 / value : value / 1e3);
}

static json_t *render_study(const lh_plan_study *study, int64_t now_us) {
    const lh_aim *aim = &study->aim;
    bool has_plan = study->status == LH_OK;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "objective",
                     lh_goal_name(aim->goal), "unit",
                     aim->goal == LH_GOAL_THROUGHPUT ? "tokens/s" : "ms", "prompt_tokens",
                     (int)aim->prompt_rows, "position", (int)aim->position, "sequences",
                     (int)aim->sequences_max, "age_us", (json_int_t)(now_us - study->begun_us),
                     "problem", has_plan ? json_null() : json_string(study->error.message),
                     "present", has_plan ? render_value(aim, study->present_value) : json_null(),
                     "best", has_plan ? render_value(aim, study->plan.value) : json_null(), "bound",
                     has_plan ? render_value(aim, study->plan.bound.value) : json_null(),
                     "loading_s", has_plan ? number_or_null(study->loading_us / 1e6) : json_null(),
                     "stages", has_plan ? render_stages(study) : json_array());
}

json_t *lh_plan_view_render(const lh_fleet *fleet, int64_t now_us) {
    const lh_plan_study *study = lh_fleet_latest_study(fleet);
    return study ? render_study(study, now_us) : json_null();
}
