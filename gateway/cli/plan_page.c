/* Stages, figures, the bound, and those that are left out. */
#include "gateway/cli/plan_page.h"

#include "gateway/cli/plan_teams.h"
#include "gateway/cost/decode_groups.h"
#include "gateway/cost/overlap_plan.h"
#include "gateway/cost/pipeline_depth.h"
#include "gateway/plan/layout_deal.h"

#include <math.h>
#include <stdio.h>

/* Of a step, as the gateway has it by default. */
#define ROWS_MAX 512u
/* Of many machines without a stage, those that are told one by one. */
#define IDLE_LINES_MAX 40u

#define MIB 1048576.0

/* ---- Figures ---- */

lh_status lh_plan_page_predict(lh_plan_page *page, lh_error *error) {
    lh_overlap_planner *planner;
    lh_overlap_plan plan;
    lh_status status = lh_overlap_planner_create(ROWS_MAX, LH_PREFILL_DEPTH_MAX, &planner, error);
    if (status != LH_OK)
        return status;
    lh_overlap_planner_update(planner, page->costs);
    lh_overlap_planner_show(planner, page->aim->prompt_rows, &plan);
    lh_overlap_plan_text(&plan, page->cut, sizeof page->cut);
    lh_overlap_planner_destroy(planner);
    lh_decode_groups groups = lh_decode_groups_choose(
        page->costs, page->aim->position, page->sequences, LH_DECODE_DEPTH_MAX, ROWS_MAX);
    page->first_token_us = plan.predicted_us > 0 ? plan.predicted_us : plan.off_us;
    page->token_us = lh_cost_decode_step(page->costs, page->aim->position, 1).ring_us;
    page->groups = groups.count;
    page->period_us = groups.period_us;
    return LH_OK;
}

/* ---- Stages ---- */

/* Of one row: what a token waits for. */
static double hop_ms(const lh_cost_hop *hop, bool is_inner) {
    double bytes =
        hop->step_bytes + hop->draw_bytes + (is_inner ? hop->shard_bytes + hop->row_bytes : 0);
    return (hop->delay_us + bytes / hop->bytes_per_us) / 1000;
}

static void put_name(lh_text_page *text, const lh_plan_page *page, uint32_t machine) {
    char name[LH_PLAN_TEAM_NAME_BYTES];
    lh_plan_team_name(page->teams, machine, name);
    lh_text_page_put_cell(text, 20, name);
}

static void put_stage(lh_text_page *text, const lh_plan_page *page, uint32_t s) {
    const lh_layout_stage *stage = &page->plan->layout.stages[s];
    const lh_map_machine *machine = &page->map->machines[stage->machine];
    const lh_compute_profile *costs = &page->costs->stages[s];
    uint64_t bytes = lh_layout_stage_bytes(&page->map->model, stage->layers),
             moved = lh_layout_moved_bytes(page->map, stage);
    bool is_last = s + 1 == page->plan->layout.stage_count;
    double row_us = lh_cost_stage_us(costs, page->aim->position, 1) + costs->step_us +
                    (is_last ? costs->draw_us : 0);
    put_name(text, page, stage->machine);
    lh_text_page_put_cell(text, 14, page->map->sites[machine->site]);
    lh_text_page_put(text, "%4u-%-4u %8.0f %8.0f %8.2f %8.2f", stage->layers.first,
                     stage->layers.last - 1, (double)bytes / MIB, (double)moved / MIB,
                     row_us / 1000, hop_ms(&page->costs->hops[s + 1], !is_last));
    lh_text_page_break(text);
}

static void put_stages(lh_text_page *text, const lh_plan_page *page) {
    lh_text_page_put(text, "%-20s%-14s%9s %8s %8s %8s %8s", "machine", "site", "layers   ", "MiB",
                     "to send", "token ms", "hop ms");
    lh_text_page_break(text);
    lh_text_page_put_cell(text, 20, "gateway");
    lh_text_page_put_cell(text, 14, page->map->sites[page->map->gateway_site]);
    lh_text_page_put(text, "%36s %8.2f", "", hop_ms(&page->costs->hops[0], false));
    lh_text_page_break(text);
    for (uint32_t s = 0; s < page->plan->layout.stage_count; s++)
        put_stage(text, page, s);
    lh_text_page_break(text);
}

/* "w1 holds 12 layers with the keys and values of 4096 tokens": the room there is, which all
 * sequences share; and whether it is what keeps further layers away. */
static void put_room(lh_text_page *text, const lh_plan_page *page, uint32_t s) {
    const lh_layout_stage *stage = &page->plan->layout.stages[s];
    const lh_map_machine *machine = &page->map->machines[stage->machine];
    const uint32_t layers = stage->layers.last - stage->layers.first,
                   pages = lh_kv_need_room(&page->plan->kv, machine->kv_bytes, layers);
    char name[LH_PLAN_TEAM_NAME_BYTES];
    if (pages == UINT32_MAX)
        return;
    lh_plan_team_name(page->teams, stage->machine, name);
    lh_text_page_put(text, "%s holds %u layers with the keys and values of %llu tokens%s", name,
                     layers, (unsigned long long)pages * LH_KV_NEED_PAGE,
                     layers == lh_kv_need_layers_max(&page->plan->kv, machine->kv_bytes)
                         ? ": no more than these"
                         : "");
    lh_text_page_break(text);
}

/* What is known of it. */
static void put_rooms(lh_text_page *text, const lh_plan_page *page) {
    const lh_kv_need *wanted = &page->map->model.kv, *met = &page->plan->kv;
    if (lh_layout_kv_pages(page->map, &page->plan->layout) == UINT32_MAX)
        return;
    for (uint32_t s = 0; s < page->plan->layout.stage_count; s++)
        put_room(text, page, s);
    if (met->pages < wanted->pages) {
        lh_text_page_put(text, "no layout has room for those of %llu, which are asked for",
                         (unsigned long long)wanted->pages * LH_KV_NEED_PAGE);
        lh_text_page_break(text);
    }
    lh_text_page_break(text);
}

static void put_figures(lh_text_page *text, const lh_plan_page *page) {
    uint64_t moved = 0, loaded = 0;
    for (uint32_t s = 0; s < page->plan->layout.stage_count; s++) {
        moved += lh_layout_moved_bytes(page->map, &page->plan->layout.stages[s]);
        loaded += lh_layout_loaded_bytes(page->map, &page->plan->layout.stages[s]);
    }
    lh_text_page_put(text, "first token     %10.1f ms  of a prompt of %u tokens (cut %s)",
                     page->first_token_us / 1000, page->aim->prompt_rows, page->cut);
    lh_text_page_break(text);
    lh_text_page_put(text, "time per token  %10.1f ms  at position %u", page->token_us / 1000,
                     page->aim->position);
    lh_text_page_break(text);
    lh_text_page_put(text,
                     "throughput      %10.1f tokens/s  of %u sequences in %u groups, %.1f ms a "
                     "token each",
                     page->sequences * 1e6 / page->period_us, page->sequences, page->groups,
                     page->period_us / 1000);
    lh_text_page_break(text);
    lh_text_page_put(text, "to be sent      %10.0f MiB of weights, %.0f MiB to be loaded",
                     (double)moved / MIB, (double)loaded / MIB);
    lh_text_page_break(text);
}

/* ---- The bound ---- */

/* In what people know: milliseconds, or tokens a second of all sequences. */
static void print_value(const lh_plan_page *page, double value, char text[32]) {
    bool is_rate = page->aim->goal == LH_GOAL_THROUGHPUT;
    snprintf(text, 32, is_rate ? "%.1f tokens/s" : "%.1f ms", is_rate ? 1e6 / value : value / 1000);
}

static void put_bound(lh_text_page *text, const lh_plan_page *page) {
    const lh_ring_bound *b = &page->plan->bound;
    char own[32], bound[32];
    print_value(page, page->plan->value, own);
    print_value(page, b->value, bound);
    lh_text_page_put(text, "%s: %s%s; the bound is %s", lh_goal_name(page->aim->goal), own,
                     page->plan->is_exact ? ", the best there is" : "", bound);
    lh_text_page_break(text);
    lh_text_page_put(
        text,
        "  made of: layers %.1f ms, head %.1f ms, steps %.1f ms, wires %.1f ms a round "
        "of %u rows,",
        b->compute_us / 1000, b->head_us / 1000, b->steps_us / 1000, b->wires_us / 1000,
        page->plan->size.rows);
    lh_text_page_break(text);
    lh_text_page_put(text, "  in at least %u stages at %u sites, the busiest part %.1f ms",
                     b->stages, b->sites, b->busiest_us / 1000);
    lh_text_page_break(text);
}

/* ---- Who is left out ---- */

static void put_idle(lh_text_page *text, const lh_plan_page *page, uint32_t m) {
    const lh_idle_reason *idle = &page->idle[m];
    char with[32], without[32];
    put_name(text, page, m);
    switch (idle->cause) {
    case LH_IDLE_EXCLUDED:
        lh_text_page_put(text, "is left out by --without");
        break;
    case LH_IDLE_MEMORY:
        lh_text_page_put(text, "offers %.0f MiB, and a layer takes %.0f",
                         (double)page->map->machines[m].memory_bytes / MIB,
                         (double)idle->needed_bytes / MIB);
        break;
    case LH_IDLE_KV:
        lh_text_page_put(text,
                         "offers %.1f MiB for keys and values, and those of %llu tokens take "
                         "%.1f in a layer",
                         (double)page->map->machines[m].kv_bytes / MIB,
                         (unsigned long long)page->plan->kv.pages * LH_KV_NEED_PAGE,
                         (double)idle->needed_bytes / MIB);
        break;
    case LH_IDLE_NO_WAY:
        lh_text_page_put(text, "no link leads there and away at any place of the chain");
        break;
    case LH_IDLE_NO_ROOM:
        lh_text_page_put(text, "no stage can give it a layer: by memory, pins or the bound");
        break;
    case LH_IDLE_NO_GAIN:
        print_value(page, idle->value, with);
        print_value(page, page->plan->value, without);
        lh_text_page_put(text, "brings nothing: %s with a layer on it, %s without", with, without);
        break;
    case LH_IDLE_NOT:
        break;
    }
    lh_text_page_break(text);
}

/* Those of other chains are told with these. */
static bool is_idle(const lh_plan_page *page, uint32_t m) {
    const uint32_t leader = page->teams->teams[m].members[0];
    if (page->replica_of && page->replica_of[leader] != page->replica)
        return page->replica_of[leader] == LH_DEAL_NOBODY && page->replica == 0;
    return page->idle[m].cause != LH_IDLE_NOT;
}

static void put_idle_machines(lh_text_page *text, const lh_plan_page *page) {
    uint32_t count = 0;
    for (uint32_t m = 0; m < page->map->machine_count; m++)
        count += is_idle(page, m);
    if (count == 0)
        return;
    lh_text_page_break(text);
    lh_text_page_put(text, "%u without a stage:", count);
    lh_text_page_break(text);
    uint32_t told = 0;
    for (uint32_t m = 0; m < page->map->machine_count && told < IDLE_LINES_MAX; m++)
        if (is_idle(page, m)) {
            put_idle(text, page, m);
            told++;
        }
    if (told < count) {
        lh_text_page_put(text, "and %u more", count - told);
        lh_text_page_break(text);
    }
}

lh_status lh_plan_page_render(const lh_plan_page *page, unsigned width, lh_text_buffer *out) {
    lh_text_page text = {.out = out, .width = width};
    put_stages(&text, page);
    put_rooms(&text, page);
    put_figures(&text, page);
    lh_text_page_break(&text);
    put_bound(&text, page);
    lh_plan_teams_put(&text, page->alone, page->teams, page->aim);
    put_idle_machines(&text, page);
    return text.status;
}
