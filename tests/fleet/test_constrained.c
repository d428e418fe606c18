/* Answers that follow a grammar, on a whole fleet: the same tokens on any number of workers and
 * whatever breaks, masks that are there when they are named, and names and brackets that do not
 * cross the ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gateway/constrain/gbnf.h"
#include "tests/fleet/support/small_fleet.h"
#include "tests/gateway/support/constraint_probe.h"

#define STREAMS    8
#define TOKENS_MAX 120u

enum { END = 256, VOCABULARY = 257 };

static const char grammar_text[] =
    "root ::= \"{\\\"name\\\":\\\"\" [a-z]{1,8} \"\\\",\\\"sizes\\\":[\" "
    "[0-9]{1,4} (\",\" [0-9]{1,4}){2,9} \"],\\\"whole\\\":\" "
    "(\"true\" | \"false\") \"}\"";

static probe_vocabulary vocabulary;
static lh_constraint *constraint;

static int set_up(void **state) {
    (void)state;
    lh_grammar *grammar;
    lh_log_set_level(LH_LOG_ERROR);
    small_vocabulary file = small_vocabulary_of_bytes();
    small_vocabulary_add(&file, "<|im_end|>", 3);
    vocabulary = probe_vocabulary_of(&file);
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, grammar_text, strlen(grammar_text));
    constraint = probe_constraint(grammar, vocabulary.vocabulary);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_constraint_release(constraint);
    probe_vocabulary_reset(&vocabulary);
    return 0;
}

/* Workers that take masks; time then is a whole second. */
static simulation *create_fleet_with(int workers, uint64_t seed, uint32_t pages, bool caches) {
    const simulation_options options = {
        .seed = seed,
        .scheduler = {.vocabulary = VOCABULARY, .prefix_cache = caches},
        .link = {.delay_us = 10 * MS}};
    simulation *sim = simulation_create(&options);
    for (int i = 0; i < workers; i++) {
        toy_worker_options worker = small_worker(i);
        worker.vocabulary = VOCABULARY;
        worker.pages_total = pages;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

static simulation *create_fleet(int workers, uint64_t seed) {
    return create_fleet_with(workers, seed, 1000, false);
}

static lh_scheduler_figures figures_of(simulation *sim) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)));
}

/* `first`: the streams that there are. */
static void submit_more(simulation *sim, uint32_t first) {
    static const uint32_t end = END;
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t prompt[100];
        for (uint32_t k = 0; k < 100; k++)
            prompt[k] = (k * 7 + i * 13) % 256;
        const lh_sequence_request request = {
            .prompt = prompt,
            .prompt_tokens = 20 + 11 * i,
            .max_tokens = TOKENS_MAX,
            .stop_tokens = &end,
            .stop_token_count = 1,
            .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = i},
            .constraint = constraint};
        assert_int_equal(simulation_submit_request(sim, &request, NULL), (int)(first + i));
    }
}

static void submit_all(simulation *sim) {
    submit_more(sim, 0);
}

typedef struct answers {
    uint32_t counts[STREAMS], tokens[STREAMS][TOKENS_MAX];
} answers;

/* Each stream has ended by its grammar, with a text of it. */
static void collect_from(simulation *sim, int first, answers *all) {
    memset(all, 0, sizeof *all);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 200000 * MS));
    for (int i = 0; i < STREAMS; i++) {
        const simulation_stream *stream = simulation_stream_at(sim, first + i);
        char text[TOKENS_MAX];
        if (!stream->is_finished || stream->reason != LH_FINISH_STOP)
            fail_msg("stream %d: %s", i, stream->message);
        all->counts[i] = stream->count;
        memcpy(all->tokens[i], stream->tokens, stream->count * sizeof *stream->tokens);
        for (uint32_t k = 0; k < stream->count; k++)
            text[k] = (char)stream->tokens[k];
        assert_true(probe_matches(constraint, text, stream->count));
    }
    small_fleet_assert_clean(sim);
}

static void collect(simulation *sim, answers *all) {
    collect_from(sim, 0, all);
}

static void answer_of(int workers, answers *all) {
    simulation *sim = create_fleet(workers, 1);
    submit_all(sim);
    collect(sim, all);
    simulation_destroy(sim);
}

static void the_same_on_one_two_and_three_workers(void **state) {
    (void)state;
    static answers one, more;
    answer_of(1, &one);
    for (int workers = 2; workers <= 3; workers++) {
        answer_of(workers, &more);
        assert_memory_equal(&more, &one, sizeof one);
    }
}

/* At many moments: of the first, the middle and the last worker, which takes the masks with it. */
static void the_same_with_a_kill_in_the_middle(void **state) {
    (void)state;
    static answers whole, broken;
    answer_of(1, &whole);
    for (int moment = 0; moment < 12; moment++) {
        simulation *sim = create_fleet(3, 1 + (uint64_t)moment);
        toy_worker *victim = simulation_worker(sim, 1 + moment % 3);
        submit_all(sim);
        small_fleet_pass(sim, 60 + 50 * moment);
        toy_worker_kill(victim);
        small_fleet_pass(sim, 500);
        toy_worker_start(victim);
        collect(sim, &broken);
        assert_memory_equal(&broken, &whole, sizeof whole);
        simulation_destroy(sim);
    }
}

/* Those that make room come back to where their grammar was. */
static void the_same_with_too_few_pages(void **state) {
    (void)state;
    static answers whole, squeezed;
    answer_of(1, &whole);
    simulation *sim = create_fleet_with(2, 1, 24, false);
    submit_all(sim);
    collect(sim, &squeezed);
    assert_true(figures_of(sim).preemptions > 0);
    assert_memory_equal(&squeezed, &whole, sizeof whole);
    simulation_destroy(sim);
}

/* What stands of the prompts in the caches leaves the answers as they were. */
static void the_same_with_cached_prompts(void **state) {
    (void)state;
    static answers whole, again;
    answer_of(1, &whole);
    simulation *sim = create_fleet_with(2, 1, 1000, true);
    submit_all(sim);
    collect(sim, &again);
    assert_memory_equal(&again, &whole, sizeof whole);
    submit_more(sim, STREAMS);
    collect_from(sim, STREAMS, &again);
    assert_true(figures_of(sim).prefix_hits > 0);
    assert_memory_equal(&again, &whole, sizeof whole);
    simulation_destroy(sim);
}

static uint32_t epoch_of(simulation *sim) {
    return lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)))->epoch;
}

/* Of three workers one leaves, and the others go on; the last of them has no masks then. */
static void the_same_when_the_chain_is_handed_over(void **state) {
    (void)state;
    static answers whole, moved;
    answer_of(1, &whole);
    for (int moment = 0; moment < 4; moment++) {
        simulation *sim = create_fleet(3, 1);
        submit_all(sim);
        small_fleet_pass(sim, 60 + 150 * moment);
        uint32_t epoch = epoch_of(sim);
        toy_worker_set_leaving(simulation_worker(sim, 1 + moment % 3), true);
        collect(sim, &moved);
        assert_true(epoch_of(sim) > epoch);
        assert_memory_equal(&moved, &whole, sizeof whole);
        simulation_destroy(sim);
    }
}

/* It is brought again, once; then the worker is at fault, and after the second time left out. */
static void the_same_where_a_worker_says_that_it_lacks_masks(void **state) {
    (void)state;
    static answers whole, moved;
    answer_of(1, &whole);
    for (uint32_t every = 1; every <= 3; every++) {
        simulation *sim = create_fleet(2, 1);
        const lh_fleet *fleet = lh_chain_controller_fleet(simulation_controller(sim));
        toy_worker_set_forging(simulation_worker(sim, 2), every);
        submit_all(sim);
        collect(sim, &moved);
        assert_memory_equal(&moved, &whole, sizeof whole);
        if (every == 1)
            assert_int_equal(lh_chain_find(lh_fleet_chain(fleet), "b"), -1);
        simulation_destroy(sim);
    }
}

static void cancelled_streams_leave_nothing(void **state) {
    (void)state;
    static answers whole;
    answer_of(1, &whole);
    simulation *sim = create_fleet(2, 1);
    submit_all(sim);
    for (int i = 0; i < STREAMS; i += 2) {
        small_fleet_pass(sim, 40);
        simulation_cancel(sim, i);
    }
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 200000 * MS));
    for (int i = 1; i < STREAMS; i += 2)
        assert_memory_equal(simulation_stream_at(sim, i)->tokens, whole.tokens[i],
                            whole.counts[i] * sizeof(uint32_t));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* A mask is brought for as long as it is not known to be there, so a few times at most; and what
 * must come takes no round of its own. */
static void masks_travel_once_and_names_do_not_cross_the_ring(void **state) {
    (void)state;
    static answers all;
    simulation *sim = create_fleet(2, 1);
    submit_all(sim);
    collect(sim, &all);
    lh_scheduler_figures figures = figures_of(sim);
    uint64_t masks = 0;
    for (int node = 1; node <= 2; node++)
        masks += toy_worker_current_figures(simulation_worker(sim, node)).masks;
    print_message("%llu tokens, %llu of them forced, %llu masks brought\n",
                  (unsigned long long)figures.tokens, (unsigned long long)figures.forced_tokens,
                  (unsigned long long)masks);
    assert_true(figures.forced_tokens * 4 > figures.tokens);
    assert_true(masks * 3 < figures.tokens - figures.forced_tokens);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_on_one_two_and_three_workers),
        cmocka_unit_test(the_same_with_a_kill_in_the_middle),
        cmocka_unit_test(the_same_with_too_few_pages),
        cmocka_unit_test(the_same_with_cached_prompts),
        cmocka_unit_test(the_same_when_the_chain_is_handed_over),
        cmocka_unit_test(the_same_where_a_worker_says_that_it_lacks_masks),
        cmocka_unit_test(cancelled_streams_leave_nothing),
        cmocka_unit_test(masks_travel_once_and_names_do_not_cross_the_ring),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
