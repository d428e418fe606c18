/* 64 workers in eight regions of the world, with the real scheduler on the simulated clock: what
 * the plan that is found predicts, what no plan can beat, and what requests take, beside the same
 * machines in one place. Links are those of tests/support/region_links.h; machines are of three
 * speeds, at a distance of 2.5, and each holds a quarter of the model. */
#include <stddef.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"
#include "tests/support/region_links.h"

#include <math.h>
#include <stdio.h>

#define WORKERS       64
#define WORLD_REGIONS 8
#define TOKENS        60u

static uint32_t region_of(int worker, int regions) {
    return (uint32_t)(worker % regions);
}

static const lh_fleet *fleet_of(simulation *sim) {
    return lh_chain_controller_fleet(simulation_controller(sim));
}

/* The gateway is in the first region. */
static void set_links(simulation *sim, int regions) {
    for (int a = 0; a <= WORKERS; a++)
        for (int b = 0; b <= WORKERS; b++) {
            region_link link = region_link_between(a == 0 ? 0 : region_of(a - 1, regions),
                                                   b == 0 ? 0 : region_of(b - 1, regions));
            network_set_link(simulation_network(sim), a, b,
                             (link_options){.delay_us = (int64_t)(link.round_trip_ms * MS / 2),
                                            .bytes_per_s = (int64_t)(link.gbit_per_s * 125000000)});
        }
}

static simulation *create(lh_goal goal, uint32_t prompt, int regions) {
    static const double slowness[] = {1, 1.6, 2.5};
    static char names[WORKERS][8];
    const simulation_options options = {.fleet = {.survey_bytes = UINT64_C(1) << 40,
                                                  .rebalance_delay_us = 5000 * MS,
                                                  .aim = {.goal = goal,
                                                          .prompt_rows = prompt,
                                                          .position = prompt + TOKENS / 2,
                                                          .sequences_max = 16}}};
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(&options);
    set_links(sim, regions);
    for (int i = 0; i < WORKERS; i++) {
        toy_worker_options worker = small_worker(0);
        /* Each region has machines of each speed. */
        double slow = slowness[(i / WORLD_REGIONS + i % WORLD_REGIONS) % 3];
        snprintf(names[i], sizeof names[i], "w%02d", i);
        worker.name = names[i];
        worker.site = region_names[region_of(i, regions)];
        worker.memory_bytes = 3500;
        worker.step_us = worker.row_us = 0;
        worker.layer_us = worker.start_us = (int64_t)(500 * slow);
        worker.measures = true;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 60000 * MS);
    small_fleet_pass(sim, 240000);
    assert_int_equal(lh_fleet_chain(fleet_of(sim))->state, LH_CHAIN_READY);
    return sim;
}

typedef struct figures {
    uint32_t stages;
    double predicted_ms, measured_ms; /* in the aim's unit */
    double bound_ms;                  /* of a prompt: no way to cut it is faster on this chain */
} figures;

/* The first token, or each after it, of one stream that is alone. */
static double measure_ms(simulation *sim, lh_goal goal, uint32_t prompt) {
    int64_t begin_us = simulation_now_us(sim);
    assert_true(simulation_submit(sim, prompt, TOKENS, 1, NULL) >= 0);
    assert_true(simulation_run_streams(sim, begin_us + 600000 * MS));
    const simulation_stream *s = simulation_stream_at(sim, 0);
    assert_true(s->is_finished && simulation_stream_is_true(s));
    return goal == LH_GOAL_TTFT
               ? (double)(s->first_token_us - begin_us) / MS
               : (double)(s->last_token_us - s->first_token_us) / MS / (TOKENS - 1);
}

static figures figures_of(lh_goal goal, uint32_t prompt, int regions) {
    simulation *sim = create(goal, prompt, regions);
    const lh_plan_study *study = lh_fleet_latest_study(fleet_of(sim));
    static lh_cost_chain costs;
    lh_layout_costs(&study->present, &study->live.map, study->aim.wire, &costs);
    figures f = {.stages = study->present.stage_count,
                 .predicted_ms = study->present_value / MS,
                 .bound_ms = lh_cost_bound_us(&costs, 0, prompt) / MS};
    f.measured_ms = measure_ms(sim, goal, prompt);
    assert_int_equal(simulation_breaches(sim), 0);
    simulation_destroy(sim);
    return f;
}

static void tell(lh_goal goal, const char *where, const figures *f) {
    print_message("  %s: %u stages, %.1f ms predicted, %.1f simulated", where, f->stages,
                  f->predicted_ms, f->measured_ms);
    if (goal == LH_GOAL_TTFT)
        print_message("; no cut is faster than %.1f", f->bound_ms);
    print_message("\n");
}

/* How many times as long it takes in the world as in one place. */
static double compare(lh_goal goal, uint32_t prompt, figures *apart, figures *together) {
    *apart = figures_of(goal, prompt, WORLD_REGIONS);
    *together = figures_of(goal, prompt, 1);
    double ratio = apart->measured_ms / together->measured_ms;
    print_message("%s, prompts of %u tokens: %.2f times\n", lh_goal_name(goal), prompt, ratio);
    tell(goal, "eight regions", apart);
    tell(goal, "one place", together);
    return ratio;
}

/* And less than half as long again as in one place. */
static void a_token_takes_what_is_predicted(void **state) {
    figures apart, together;
    (void)state;
    assert_true(compare(LH_GOAL_TPOT, 100, &apart, &together) < 1.5);
    assert_true(fabs(apart.measured_ms / apart.predicted_ms - 1) < 0.1);
    assert_true(fabs(together.measured_ms / together.predicted_ms - 1) < 0.1);
}

/* The scheduler cuts prompts more finely than the aim counts on (aim.h). In one place twelve of the
 * fastest machines have a layer each; to find as many of them apart five regions are needed, and
 * 0.23 s go by on the way around these. A short prompt has too little to compute to hide that, nor
 * are fewer regions with more layers on each machine any faster. */
static void a_prompt_takes_no_longer_than_predicted(void **state) {
    static const uint32_t prompts[] = {100, 500, 1000, 2000};
    (void)state;
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        figures apart, together;
        double ratio = compare(LH_GOAL_TTFT, prompts[i], &apart, &together);
        assert_true(ratio < (prompts[i] < 1000 ? 3 : 1.5));
        assert_true(apart.measured_ms < 1.1 * apart.predicted_ms);
        assert_true(together.measured_ms < 1.1 * together.predicted_ms);
        assert_true(apart.measured_ms < 1.25 * apart.bound_ms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_takes_what_is_predicted),
        cmocka_unit_test(a_prompt_takes_no_longer_than_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
