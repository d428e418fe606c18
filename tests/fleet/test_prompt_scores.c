/* What the model gave the tokens of a prompt, on a whole fleet: the same numbers on any number of
 * workers, in any company and whatever breaks, each once and in order, and all before the first
 * token. */
#include <stdlib.h>
#include <string.h>

#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"

#define PROMPT 700u
#define TOKENS 4u

static void make_prompt(uint32_t *prompt, uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; i++)
        prompt[i] = (uint32_t)((toy_embed(i) ^ seed * 0x9e3779b97f4a7c15u) % TOY_VOCABULARY);
}

static int submit(simulation *sim, uint32_t prompt_tokens, uint32_t max_tokens, uint64_t seed,
                  bool scores) {
    uint32_t prompt[PROMPT];
    lh_status status;
    make_prompt(prompt, prompt_tokens, seed);
    const lh_sequence_request request = {
        .prompt = prompt,
        .prompt_tokens = prompt_tokens,
        .max_tokens = max_tokens,
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed},
        .scores_prompt = scores};
    int index = simulation_submit_request(sim, &request, &status);
    assert_int_equal(status, LH_OK);
    return index;
}

/* It has ended with all its tokens, the right ones, and the scores that one pass gives. */
static void assert_scored(simulation *sim, int index) {
    const simulation_stream *stream = simulation_stream_at(sim, index);
    float expected[PROMPT] = {0};
    if (!stream->is_finished)
        fail_msg("stream %d: %s", index, stream->message);
    assert_int_equal(stream->reason, LH_FINISH_LENGTH);
    assert_int_equal(stream->count, stream->max_tokens);
    assert_true(stream->count == 0 || simulation_stream_is_true(stream));
    assert_int_equal(stream->scored, stream->prompt_tokens - 1);
    toy_score_prompt(stream->prompt, stream->prompt_tokens, expected);
    assert_memory_equal(stream->scores, expected, stream->prompt_tokens * sizeof expected[0]);
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
    for (int workers = 1; workers <= 3; workers++) {
        simulation *sim = create_fleet(workers, false);
        int index = submit(sim, PROMPT, TOKENS, 1, true);
        run_to_the_end(sim);
        assert_scored(sim, index);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

static void prompts_alone_end_without_a_token(void **state) {
    (void)state;
    simulation *sim = create_fleet(2, false);
    for (uint32_t i = 0; i < 6; i++)
        submit(sim, i < 3 ? 1 + i : 100 * i, 0, i, true);
    run_to_the_end(sim);
    for (int i = 0; i < 6; i++)
        assert_scored(sim, i);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

static void the_same_in_company(void **state) {
    (void)state;
    simulation *sim = create_fleet(3, false);
    for (uint32_t i = 0; i < 12; i++)
        submit(sim, 20 + 50 * i, 20, i, i % 3 != 0);
    run_to_the_end(sim);
    for (int i = 0; i < 12; i++)
        if (i % 3 != 0)
            assert_scored(sim, i);
        else
            assert_true(simulation_stream_at(sim, i)->scored == 0 &&
                        simulation_stream_is_true(simulation_stream_at(sim, i)));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* What is cached would come without its scores; what a scored prompt has computed may be shared. */
static void cached_prefixes_are_computed_again(void **state) {
    (void)state;
    simulation *sim = create_fleet(2, true);
    submit(sim, 300, 1, 1, false);
    run_to_the_end(sim);
    int scored = submit(sim, 300, 1, 1, true);
    run_to_the_end(sim);
    int after = submit(sim, 300, 1, 1, false);
    run_to_the_end(sim);
    assert_scored(sim, scored);
    assert_int_equal(simulation_stream_at(sim, scored)->cached_tokens, 0);
    assert_true(simulation_stream_at(sim, after)->cached_tokens > 0);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* At many moments while the prompt passes, each of the workers. */
static void the_same_with_a_kill_in_the_middle_of_the_prompt(void **state) {
    (void)state;
    uint32_t broken = 0;
    for (int victim = 1; victim <= 3; victim++) {
        for (int64_t ms = 5; ms < 150; ms += 16) {
            simulation *sim = create_fleet(3, true);
            toy_worker_options spare = small_worker(3);
            simulation_add_worker(sim, &spare);
            small_fleet_pass(sim, 2000);
            int index = submit(sim, PROMPT, TOKENS, 1, true);
            small_fleet_pass(sim, ms);
            const simulation_stream *stream = simulation_stream_at(sim, index);
            broken += stream->scored > 0 && stream->scored < PROMPT - 1;
            toy_worker_kill(simulation_worker(sim, victim));
            run_to_the_end(sim);
            assert_scored(sim, index);
            simulation_destroy(sim);
        }
    }
    assert_true(broken > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_on_one_two_and_three_workers),
        cmocka_unit_test(prompts_alone_end_without_a_token),
        cmocka_unit_test(the_same_in_company),
        cmocka_unit_test(cached_prefixes_are_computed_again),
        cmocka_unit_test(the_same_with_a_kill_in_the_middle_of_the_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
