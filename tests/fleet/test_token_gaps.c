/* A stream of tokens while long prompts come in: how long one of them waits, on the simulated
 * clock. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"

#define DELAY_US    (5 * MS)
#define PROMPT      2048u
#define DECODE_US   (1 * MS + 100) /* of one row at one stage */
#define CHUNK_US(n) (1 * MS + 100 * (n))

typedef struct outcome {
    int64_t longest_gap_us, last_prompt_us;
} outcome;

/* Workers that measure what their steps take, and have. */
static simulation *create(int stages, int64_t budget_us) {
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(
        &(simulation_options){.scheduler = {.sequences_max = 8, .step_budget_us = budget_us},
                              .link = {.delay_us = DELAY_US, .bytes_per_s = 125000000}});
    for (int i = 0; i < stages; i++) {
        toy_worker_options worker = small_worker(i);
        worker.measures = true;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    simulation_submit(sim, 600, 5, 3, NULL);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 10000 * MS));
    simulation_step_until(sim, simulation_now_us(sim) + 2000 * MS);
    return sim;
}

/* One stream, and after 100 ms three prompts at once. */
static outcome run(int stages, int64_t budget_us) {
    simulation *sim = create(stages, budget_us);
    int stream = simulation_submit(sim, 16, 300, 1, NULL), last = -1;
    simulation_step_until(sim, simulation_now_us(sim) + 100 * MS);
    for (uint64_t i = 0; i < 3; i++)
        last = simulation_submit(sim, PROMPT, 1, 2 + i, NULL);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    const simulation_stream *prompt = simulation_stream_at(sim, last);
    outcome o = {simulation_stream_at(sim, stream)->longest_gap_us,
                 prompt->first_token_us - prompt->submitted_us};
    for (int i = 0; i <= last; i++)
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
    return o;
}

/* At each stage a token waits for one piece at most, and a piece fits the budget. */
static void a_token_waits_for_one_piece_at_each_stage(void **state) {
    (void)state;
    const int64_t budgets_us[] = {4 * MS, 8 * MS, 12 * MS, 20 * MS};
    for (int stages = 1; stages <= 3; stages++)
        for (int i = 0; i < 4; i++) {
            int64_t ring_us = stages * DECODE_US + (stages + 1) * DELAY_US;
            outcome o = run(stages, budgets_us[i]);
            assert_in_range(o.longest_gap_us, ring_us, ring_us + stages * budgets_us[i]);
        }
}

/* On one stage the plan alone is for steps of 512 rows. */
static void without_a_budget_it_waits_for_what_the_plan_says(void **state) {
    (void)state;
    outcome o = run(1, 0);
    assert_in_range(o.longest_gap_us, CHUNK_US(512), CHUNK_US(512) + DECODE_US + 2 * DELAY_US);
    outcome cut = run(1, 8 * MS);
    assert_true(cut.longest_gap_us * 3 < o.longest_gap_us);
    assert_true(cut.last_prompt_us < o.last_prompt_us * 5 / 4); /* what the prompts pay for it */
}

/* Nobody's tokens wait: nothing is cut beyond the plan. */
static void a_prompt_alone_is_not_cut(void **state) {
    (void)state;
    int64_t us[2];
    for (int i = 0; i < 2; i++) {
        simulation *sim = create(1, i * 4 * MS);
        const simulation_stream *s =
            simulation_stream_at(sim, simulation_submit(sim, PROMPT, 1, 2, NULL));
        assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
        us[i] = s->first_token_us - s->submitted_us;
        simulation_destroy(sim);
    }
    assert_int_equal(us[0], us[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_waits_for_one_piece_at_each_stage),
        cmocka_unit_test(without_a_budget_it_waits_for_what_the_plan_says),
        cmocka_unit_test(a_prompt_alone_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
