/* What the rows of a prompt add up to, on a whole fleet: the same numbers on any number of workers,
 * in any company and whatever breaks, each row once. */
#include <stdlib.h>
#include <string.h>

#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"

#define PROMPT    700u
#define WIDTH_MAX 4096u

static void make_prompt(uint32_t *prompt, uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = (uint32_t)((toy_embed(i) ^ seed * 0x9e3779b97f4a7c15u) % TOY_VOCABULARY);
}

static int submit(simulation *sim, uint32_t prompt_tokens, uint64_t seed, lh_pooling pooling) {
    uint32_t prompt[PROMPT];
    lh_status status;
    make_prompt(prompt, prompt_tokens, seed);
    const lh_sequence_request request = {
        .prompt = prompt,
        .prompt_tokens = prompt_tokens,
        .max_tokens = pooling == LH_POOLING_NONE ? 20 : 0,
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed},
        .pooling = pooling};
    int index = simulation_submit_request(sim, &request, &status);
    assert_int_equal(status, LH_OK);
    return index;
}

/* It has ended without a token, and with what one pass gives. */
static void assert_pooled(simulation *sim, int index, lh_pooling pooling) {
    const simulation_stream *stream = simulation_stream_at(sim, index);
    static int64_t expected[WIDTH_MAX];
    if (!stream->is_finished)
        fail_msg("stream %d: %s", index, stream->message);
    assert_true(stream->count == 0 && stream->reason == LH_FINISH_LENGTH);
    assert_true(stream->pooled_count > 0 && stream->pooled_count <= WIDTH_MAX);
    memset(expected, 0, sizeof expected);
    toy_pool_prompt(stream->prompt, pooling == LH_POOLING_FIRST ? 1 : stream->prompt_tokens,
                    pooling != LH_POOLING_MEAN, expected, stream->pooled_count);
    assert_memory_equal(stream->pooled, expected, stream->pooled_count * sizeof expected[0]);
}

static void run_to_the_end(simulation *sim) {
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 60000 * MS));
}

static simulation *create_fleet(int workers, bool caches) {
    const simulation_options options = {.link = {.delay_us = 10 * MS},
                                        .scheduler = {.prefix_cache = caches}};
    return small_fleet_create(&options, workers);
}

static void the_same_on_one_two_and_three_workers(void **state) {
    (void)state;
    for (int workers = 1; workers <= 3; workers++)
        for (lh_pooling pooling = LH_POOLING_MEAN; pooling <= LH_POOLING_LAST; pooling++) {
            simulation *sim = create_fleet(workers, false);
            int index = submit(sim, PROMPT, 1, pooling);
            run_to_the_end(sim);
            assert_pooled(sim, index, pooling);
            small_fleet_assert_clean(sim);
            simulation_destroy(sim);
        }
}

/* More short ones than a step may have, and others that draw. */
static void the_same_in_company(void **state) {
    (void)state;
    simulation *sim = create_fleet(3, false);
    for (uint32_t i = 0; i < 40; i++)
        submit(sim, i < 30 ? 1 + i % 3 : 20 + 15 * i, i, (lh_pooling)(i % 4));
    run_to_the_end(sim);
    for (int i = 0; i < 40; i++)
        if (i % 4 != 0)
            assert_pooled(sim, i, (lh_pooling)(i % 4));
        else
            assert_true(!simulation_stream_at(sim, i)->pooled &&
                        simulation_stream_is_true(simulation_stream_at(sim, i)));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* A mean needs every row; the last row of a cached prompt is all that is computed of it. */
static void what_is_cached_is_used_where_it_may_be(void **state) {
    (void)state;
    simulation *sim = create_fleet(2, true);
    submit(sim, 300, 1, LH_POOLING_MEAN);
    run_to_the_end(sim);
    int mean = submit(sim, 300, 1, LH_POOLING_MEAN);
    run_to_the_end(sim);
    int last = submit(sim, 300, 1, LH_POOLING_LAST);
    run_to_the_end(sim);
    assert_pooled(sim, mean, LH_POOLING_MEAN);
    assert_pooled(sim, last, LH_POOLING_LAST);
    assert_int_equal(simulation_stream_at(sim, mean)->cached_tokens, 0);
    assert_true(simulation_stream_at(sim, last)->cached_tokens > 0);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* At many moments while the prompt passes, each of the workers. */
static void the_same_with_a_kill_in_the_middle_of_the_prompt(void **state) {
    (void)state;
    for (int victim = 1; victim <= 3; victim++)
        for (int64_t ms = 5; ms < 150; ms += 16) {
            simulation *sim = create_fleet(3, true);
            toy_worker_options spare = small_worker(3);
            simulation_add_worker(sim, &spare);
            small_fleet_pass(sim, 2000);
            int mean = submit(sim, PROMPT, 1, LH_POOLING_MEAN);
            int last = submit(sim, PROMPT, 2, LH_POOLING_LAST);
            small_fleet_pass(sim, ms);
            toy_worker_kill(simulation_worker(sim, victim));
            run_to_the_end(sim);
            assert_pooled(sim, mean, LH_POOLING_MEAN);
            assert_pooled(sim, last, LH_POOLING_LAST);
            simulation_destroy(sim);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_on_one_two_and_three_workers),
        cmocka_unit_test(the_same_in_company),
        cmocka_unit_test(what_is_cached_is_used_where_it_may_be),
        cmocka_unit_test(the_same_with_a_kill_in_the_middle_of_the_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
