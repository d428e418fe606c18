/* Many sequences on one chain, on a simulated clock: whatever the ring, its slowest part is busy,
 * or its groups are as large as they can be. Stages measure themselves, so that groups are chosen
 * from what they cost. */
#include <stddef.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"

#define STREAMS 64

typedef struct shape {
    int stages;
    int64_t step_us, row_us, delay_us;
} shape;

static simulation *fleet_of(const shape *of) {
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(
        &(simulation_options){.link = {.delay_us = of->delay_us, .head_bytes = 70},
                              .scheduler = {.sequences_max = STREAMS}});
    for (int i = 0; i < of->stages; i++) {
        toy_worker_options worker = small_worker(i);
        worker.measures = true;
        worker.step_us = of->step_us;
        worker.row_us = of->row_us;
        worker.pages_total = 4000;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    simulation_step_until(sim, simulation_now_us(sim) + 3000 * MS);
    return sim;
}

static uint64_t tokens_so_far(simulation *sim) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)))
        .tokens;
}

/* Tokens a second, and how busy each stage is, while `window_us` pass. */
static double measure(simulation *sim, int stages, int64_t window_us, double busy[]) {
    uint64_t before = tokens_so_far(sim);
    for (int i = 0; i < stages; i++)
        busy[i] = -(double)toy_worker_current_figures(simulation_worker(sim, i + 1)).busy_us;
    simulation_step_until(sim, simulation_now_us(sim) + window_us);
    for (int i = 0; i < stages; i++) {
        busy[i] += (double)toy_worker_current_figures(simulation_worker(sim, i + 1)).busy_us;
        busy[i] /= (double)window_us;
    }
    return (double)(tokens_so_far(sim) - before) * 1e6 / (double)window_us;
}

/* What the best number of groups of equal stages gives, by the definition of decode_groups.h and
 * without its slack. */
static double best_rate(const shape *of, int streams) {
    double best = 0;
    for (int groups = 1; groups <= streams; groups++) {
        int rows = (streams + groups - 1) / groups;
        double step = (double)(of->step_us + rows * of->row_us);
        double ring = of->stages * step + (double)((of->stages + 1) * of->delay_us);
        double busy = (double)(groups * of->step_us + streams * of->row_us);
        double rate = streams * 1e6 / (ring > busy ? ring : busy);
        best = rate > best ? rate : best;
    }
    return best;
}

static void submit(simulation *sim, int count, uint32_t tokens) {
    for (int i = 0; i < count; i++)
        assert_true(simulation_submit(sim, 20, tokens, (uint64_t)i, NULL) >= 0);
}

static void finish(simulation *sim, int streams) {
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000000 * MS));
    for (int i = 0; i < streams; i++)
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Short rings and long ones, steps that cost as much as many rows and steps that cost nothing. */
static void many_streams_come_near_the_bound(void **state) {
    (void)state;
    for (int stages = 1; stages <= 3; stages++) {
        for (int64_t step_us = 100; step_us <= 10000; step_us *= 10) {
            for (int64_t delay_us = 0; delay_us <= 40 * MS; delay_us += 20 * MS) {
                const shape of = {stages, step_us, 500, delay_us};
                simulation *sim = fleet_of(&of);
                double busy[3], rate, bound = best_rate(&of, STREAMS);
                submit(sim, STREAMS, 200);
                simulation_step_until(sim, simulation_now_us(sim) + 1500 * MS);
                rate = measure(sim, stages, 4000 * MS, busy);
                if (rate < 0.9 * bound)
                    fail_msg("%d stages, %lld us a step, %lld us of delay: %.1f of %.1f tokens/s",
                             stages, (long long)step_us, (long long)delay_us, rate, bound);
                finish(sim, STREAMS);
            }
        }
    }
}

/* Where nothing is far away no stage idles, and no step is smaller than that needs. */
static void no_stage_idles(void **state) {
    (void)state;
    const shape of = {3, 1 * MS, 100, 0};
    simulation *sim = fleet_of(&of);
    double busy[3];
    submit(sim, STREAMS, 500);
    simulation_step_until(sim, simulation_now_us(sim) + 1000 * MS);
    uint64_t steps = toy_worker_current_figures(simulation_worker(sim, 3)).steps;
    double rate = measure(sim, 3, 1000 * MS, busy);
    steps = toy_worker_current_figures(simulation_worker(sim, 3)).steps - steps;
    for (int i = 0; i < 3; i++)
        assert_true(busy[i] >= 0.97);
    /* three groups of 21 and 22: the larger ones' way around takes 9.6 ms, all three take a stage
     * 9.4 */
    assert_in_range(steps, 3 * 1000 / 9.6 - 2, 3 * 1000 / 9.6 + 2);
    assert_in_range((int)rate, 64 / 9.6e-3 - 30, 64 / 9.6e-3 + 30);
    finish(sim, STREAMS);
}

/* Sequences come and go: the groups are even again within a few turns. */
static void groups_are_even_again_when_sequences_come_and_go(void **state) {
    (void)state;
    const shape of = {2, 1 * MS, 500, 20 * MS};
    simulation *sim = fleet_of(&of);
    double busy[2];
    submit(sim, 24, 800);
    simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
    submit(sim, 40, 20);
    simulation_step_until(sim, simulation_now_us(sim) + 200 * MS);
    for (int i = 0; i < 8; i++)
        simulation_cancel(sim, 3 * i);
    while (lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)))
               .running > 16)
        simulation_step_until(sim, simulation_now_us(sim) + 10 * MS);
    simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
    double rate = measure(sim, 2, 2000 * MS, busy);
    double bound = best_rate(&of, 16);
    if (rate < 0.9 * bound)
        fail_msg("%.1f of %.1f tokens/s", rate, bound);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_streams_come_near_the_bound),
        cmocka_unit_test(no_stage_idles),
        cmocka_unit_test(groups_are_even_again_when_sequences_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
