/* Pages of the KV caches: they grow with their sequences, prefixes are shared and given up, and the
 * last in line is preempted; the tokens are the same as ever, and gateway and workers agree to the
 * page.
 *
 * LONGHAUL_SEED=n runs one random schedule alone, LONGHAUL_SEEDS=n so many. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"

#define SEEDS 120

static lh_scheduler_figures figures_of(simulation *sim) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)));
}

static const lh_kv_ledger *ledger_of(simulation *sim) {
    return lh_scheduler_ledger(lh_chain_controller_scheduler(simulation_controller(sim)));
}

static simulation *create_with(uint32_t pages, bool prefix_cache) {
    simulation *sim = simulation_create(&(simulation_options){
        .scheduler = {.prefix_cache = prefix_cache, .overlap = {LH_OVERLAP_MANUAL, 40, 1}},
        .link = {.delay_us = 5 * MS}});
    for (int i = 0; i < 3; i++) {
        toy_worker_options worker = small_worker(i);
        worker.pages_total = pages;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

/* A prompt: the first `common` tokens are those of all prompts of the trunk, the rest its own. */
static int submit(simulation *sim, uint64_t tenant, uint32_t trunk, uint32_t common, uint32_t own,
                  uint32_t max_tokens, uint64_t seed) {
    uint32_t prompt[1024];
    assert_true(common + own <= 1024);
    for (uint32_t i = 0; i < common + own; i++)
        prompt[i] =
            (uint32_t)((toy_embed(i) ^ (i < common ? trunk : seed + 100) * 0x9e3779b97f4a7c15u) %
                       TOY_VOCABULARY);
    return simulation_submit_request(
        sim,
        &(lh_sequence_request){
            .prompt = prompt,
            .prompt_tokens = common + own,
            .max_tokens = max_tokens,
            .tenant = tenant,
            .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed}},
        NULL);
}

static simulation_stream *finish(simulation *sim, int index) {
    assert_true(index >= 0);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    simulation_stream *stream = simulation_stream_at(sim, index);
    assert_true(stream->is_finished && simulation_stream_is_true(stream));
    return stream;
}

static void finish_all(simulation *sim, int count) {
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000000 * MS));
    for (int i = 0; i < count; i++) {
        assert_true(simulation_stream_at(sim, i)->is_finished);
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
        assert_int_equal(simulation_stream_at(sim, i)->count,
                         simulation_stream_at(sim, i)->max_tokens);
    }
}

static uint64_t rows_of(simulation *sim) {
    return toy_worker_current_figures(simulation_worker(sim, 1)).rows;
}

/* ---- Growing and preemption ---- */

/* 12 sequences that come to 9 pages each, in 40: they begin together, and those that came last make
 * room. */
static void when_pages_are_short_the_last_in_line_makes_room(void **state) {
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        simulation *sim = create_with(40, cache);
        for (int i = 0; i < 12; i++)
            assert_true(submit(sim, 0, (uint32_t)i, 20, 0, 120, (uint64_t)i) >= 0);
        finish_all(sim, 12);
        lh_scheduler_figures figures = figures_of(sim);
        assert_in_range(figures.preemptions, 3, 40);
        assert_int_equal(figures.replays, 0);
        for (int i = 1; i < 4; i++) /* who came first is not held up by those behind */
            assert_in_range(simulation_stream_at(sim, i)->longest_gap_us, 0, 200 * MS);
        assert_true(simulation_stream_at(sim, 0)->ended_us <=
                    simulation_stream_at(sim, 11)->ended_us);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* One that fills the chain alone gets there, whatever else runs. */
static void one_that_fills_the_chain_gets_there(void **state) {
    (void)state;
    simulation *sim = create_with(20, true);
    assert_true(submit(sim, 0, 1, 100, 0, 220, 1) >= 0);
    for (int i = 1; i < 6; i++)
        assert_true(submit(sim, 0, (uint32_t)i, 30, 0, 150, (uint64_t)i) >= 0);
    finish_all(sim, 6);
    assert_int_equal(submit(sim, 0, 9, 200, 0, 121, 1), -1);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

static void the_lower_priority_is_preempted(void **state) {
    (void)state;
    simulation *sim = create_with(16, false);
    uint32_t prompt[20] = {0};
    lh_sequence_request request = {
        .prompt = prompt,
        .prompt_tokens = 20,
        .max_tokens = 200,
        .priority = 5,
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1}};
    assert_int_equal(simulation_submit_request(sim, &request, NULL), 0);
    simulation_step_until(sim, simulation_now_us(sim) + 100 * MS);
    request.priority = -5;
    assert_int_equal(simulation_submit_request(sim, &request, NULL), 1);
    finish_all(sim, 2);
    assert_true(simulation_stream_at(sim, 1)->ended_us < simulation_stream_at(sim, 0)->ended_us);
    assert_in_range(simulation_stream_at(sim, 1)->longest_gap_us, 0, 200 * MS);
    assert_true(figures_of(sim).preemptions > 0);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* ---- Prefixes ---- */

/* Whole pages of 16 are shared, and the last token is always computed. */
static void a_second_prompt_computes_the_rest(void **state) {
    (void)state;
    simulation *sim = create_with(100, true);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 100, 30, 20, 1))->cached_tokens, 0);
    uint64_t rows = rows_of(sim);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 100, 30, 20, 2))->cached_tokens, 96);
    assert_int_equal(rows_of(sim) - rows, 34 + 19);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 96, 0, 1, 3))->cached_tokens, 80);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 97, 0, 1, 4))->cached_tokens, 96);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 16, 0, 1, 5))->cached_tokens, 0);
    assert_int_equal(finish(sim, submit(sim, 0, 2, 130, 0, 20, 6))->cached_tokens, 0);
    lh_scheduler_figures figures = figures_of(sim);
    assert_int_equal(figures.prefix_hits, 3);
    assert_int_equal(figures.cached_tokens, 96 + 80 + 96);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* The answer of a turn is in the cache, too; and a conversation has one entry there, not one for
 * each turn. */
static void a_conversation_goes_on(void **state) {
    (void)state;
    simulation *sim = create_with(100, true);
    uint32_t history[600], length = 50;
    for (uint32_t i = 0; i < length; i++)
        history[i] = i;
    for (int turn = 0; turn < 5; turn++) {
        int index = simulation_submit_request(
            sim,
            &(lh_sequence_request){
                .prompt = history,
                .prompt_tokens = length,
                .max_tokens = 60,
                .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1}},
            NULL);
        simulation_stream *stream = finish(sim, index);
        assert_int_equal(stream->cached_tokens, turn == 0 ? 0 : (length - 31) / 16 * 16);
        for (uint32_t i = 0; i < stream->count; i++)
            history[length++] = stream->tokens[i];
        for (uint32_t i = 0; i < 30; i++)
            history[length++] = i;
        small_fleet_assert_clean(sim);
        assert_int_equal(figures_of(sim).prefixes, 1);
    }
    simulation_destroy(sim);
}

/* Choices of one request come together: the prompt is computed once. */
static void choices_share_their_prompt(void **state) {
    (void)state;
    simulation *sim = create_with(200, true);
    uint64_t rows = rows_of(sim);
    for (uint64_t i = 0; i < 4; i++)
        assert_true(submit(sim, 0, 1, 200, 0, 5, i) >= 0);
    finish_all(sim, 4);
    assert_int_equal(rows_of(sim) - rows, 200 + 3 * 8 + 4 * 4);
    assert_int_equal(simulation_stream_at(sim, 0)->cached_tokens, 0);
    assert_int_equal(simulation_stream_at(sim, 3)->cached_tokens, 192);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

static void tenants_do_not_see_each_others_prefixes(void **state) {
    (void)state;
    simulation *sim = create_with(200, true);
    for (uint64_t tenant = 0; tenant < 4; tenant++) {
        simulation_stream *first = finish(sim, submit(sim, tenant, 1, 150, 0, 10, 1));
        int64_t took_us = first->first_token_us - first->submitted_us;
        assert_int_equal(first->cached_tokens, 0);
        if (tenant > 0) /* not by the time that it takes either */
            assert_int_equal(took_us, simulation_stream_at(sim, 0)->first_token_us -
                                          simulation_stream_at(sim, 0)->submitted_us);
        small_fleet_assert_clean(sim);
        simulation_step_until(sim, (simulation_now_us(sim) / (1000 * MS) + 1) * 1000 * MS);
    }
    assert_int_equal(figures_of(sim).prefix_hits, 0);
    assert_int_equal(finish(sim, submit(sim, 3, 1, 150, 0, 10, 1))->cached_tokens, 144);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* 64 pages; a trunk takes 8. Some are kept free, so that the cache holds six: the least recently
 * used have gone. */
static void the_least_recently_used_goes_first(void **state) {
    (void)state;
    simulation *sim = create_with(64, true);
    for (uint32_t trunk = 0; trunk < 9; trunk++) {
        finish(sim, submit(sim, 0, trunk, 130, 0, 1, 1));
        if (trunk >= 2)
            assert_int_equal(finish(sim, submit(sim, 0, 0, 130, 0, 1, 1))->cached_tokens, 128);
        small_fleet_assert_clean(sim);
        assert_in_range(ledger_of(sim)->blocks_cached, 8, 56);
    }
    assert_int_equal(finish(sim, submit(sim, 0, 8, 130, 0, 1, 1))->cached_tokens, 128);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 130, 0, 1, 1))->cached_tokens, 0);
    assert_true(figures_of(sim).evicted_blocks > 0);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

static void a_new_chain_has_nothing_cached(void **state) {
    (void)state;
    simulation *sim = create_with(100, true);
    finish(sim, submit(sim, 0, 1, 100, 0, 10, 1));
    int going_on = submit(sim, 0, 1, 100, 0, 200, 2);
    simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
    toy_worker_kill(simulation_worker(sim, 2));
    toy_worker_start(simulation_worker(sim, 2));
    assert_int_equal(finish(sim, going_on)->cached_tokens, 96);
    assert_int_equal(figures_of(sim).replays, 1);
    assert_int_equal(finish(sim, submit(sim, 0, 2, 100, 0, 10, 3))->cached_tokens, 0);
    assert_int_equal(finish(sim, submit(sim, 0, 1, 100, 0, 10, 3))->cached_tokens, 96);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* What was computed before the client hung up is there for its next attempt; and whoever shares it
 * is not disturbed. */
static void a_cancelled_prompt_leaves_what_was_computed(void **state) {
    (void)state;
    for (int after_ms = 0; after_ms < 120; after_ms += 1) {
        simulation *sim = create_with(200, true);
        int first = submit(sim, 0, 1, 400, 0, 30, 1), second = submit(sim, 0, 1, 400, 0, 30, 2);
        simulation_step_until(sim, simulation_now_us(sim) + after_ms * MS);
        simulation_cancel(sim, first);
        finish(sim, second);
        int third = submit(sim, 0, 1, 400, 0, 3, 3);
        assert_in_range(finish(sim, third)->cached_tokens, 384, 384);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* ---- Anything ---- */

static struct {
    uint64_t finished, failed, cancelled, preemptions, hits, evicted, replays;
} totals;

typedef struct schedule {
    simulation *sim;
    int workers;
} schedule;

static uint64_t dice(schedule *s, uint64_t below) {
    return network_random(simulation_network(s->sim), below);
}

static void build(schedule *s, uint64_t seed) {
    uint64_t random = (seed * 7919 + 1) * 0x9e3779b97f4a7c15u;
    simulation_options options = {.seed = seed,
                                  .link = {.delay_us = (int64_t)(random >> 60) * 2 * MS}};
    options.scheduler.sequences_max = 2 + (uint32_t)(random >> 40 & 15);
    options.scheduler.prefix_cache = (random >> 32 & 7) > 0;
    options.scheduler.overlap =
        (lh_overlap_spec){LH_OVERLAP_MANUAL, 1 + (uint32_t)(random >> 24 & 63), 1};
    s->sim = simulation_create(&options);
    s->workers = 2 + (int)dice(s, 3);
    bool equal = dice(s, 2);
    for (int i = 0; i < s->workers; i++) {
        toy_worker_options worker = small_worker(i);
        worker.page_positions = equal ? 8 : 8u << dice(s, 3);
        worker.pages_total = (400 + (uint32_t)dice(s, 800)) / worker.page_positions;
        worker.step_us = 100 + (int64_t)dice(s, 3) * MS;
        simulation_add_worker(s->sim, &worker);
    }
    simulation_wait_ready(s->sim, 10000 * MS);
}

/* Workers may lag behind what the gateway has decided, but never hold more than it knows of, once
 * they agree after a break. */
static void assert_workers_within_the_ledger(schedule *s) {
    if (!lh_scheduler_chain_is_up(lh_chain_controller_scheduler(simulation_controller(s->sim))))
        return;
    const lh_kv_ledger *ledger = ledger_of(s->sim);
    const lh_chain *chain =
        lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(s->sim)));
    uint64_t held = ledger->blocks_total - lh_kv_ledger_blocks_free(ledger);
    for (uint32_t stage = 0; stage < ledger->stage_count; stage++)
        for (int node = 1; node <= s->workers; node++)
            if (strcmp(small_worker(node - 1).name, chain->stages[stage].name) == 0) {
                toy_worker_figures worker =
                    toy_worker_current_figures(simulation_worker(s->sim, node));
                assert_true(worker.awaits_resync ||
                            worker.pages <= lh_kv_ledger_pages(ledger, stage, held));
            }
}

static void one_event(schedule *s, int *streams) {
    int stream = submit(s->sim, dice(s, 3), (uint32_t)dice(s, 3), (uint32_t)dice(s, 120),
                        1 + (uint32_t)dice(s, 60), 1 + (uint32_t)dice(s, 150), dice(s, 1000));
    *streams += stream >= 0;
    if (*streams && dice(s, 3) == 0)
        simulation_cancel(s->sim, (int)dice(s, (uint64_t)*streams));
    if (dice(s, 60) == 0) {
        int node = 1 + (int)dice(s, (uint64_t)s->workers);
        toy_worker_kill(simulation_worker(s->sim, node));
        toy_worker_start(simulation_worker(s->sim, node));
    }
}

static void run_schedule(uint64_t seed) {
    schedule s = {0};
    int streams = 0;
    build(&s, seed);
    for (int i = 0; i < 80; i++) {
        simulation_step_until(s.sim, simulation_now_us(s.sim) + (int64_t)dice(&s, 60) * MS + 1);
        one_event(&s, &streams);
        assert_workers_within_the_ledger(&s);
    }
    assert_true(simulation_run_streams(s.sim, simulation_now_us(s.sim) + 600000 * MS));
    for (int i = 0; i < streams; i++) {
        const simulation_stream *stream = simulation_stream_at(s.sim, i);
        assert_true(simulation_stream_is_true(stream));
        assert_true(stream->cached_tokens < stream->prompt_tokens);
        totals.finished += stream->is_finished;
        totals.failed += stream->is_failed;
        totals.cancelled += stream->is_cancelled;
        if (stream->is_finished)
            assert_int_equal(stream->count, stream->max_tokens);
    }
    small_fleet_assert_clean(s.sim);
    lh_scheduler_figures figures = figures_of(s.sim);
    totals.preemptions += figures.preemptions;
    totals.hits += figures.prefix_hits;
    totals.evicted += figures.evicted_blocks;
    totals.replays += figures.replays;
    simulation_destroy(s.sim);
}

static uint64_t current_seed;

static int say_seed_on_failure(void **state) {
    (void)state;
    if (current_seed != UINT64_MAX)
        fprintf(stderr, "to replay: LONGHAUL_SEED=%llu LONGHAUL_LOG=1\n",
                (unsigned long long)current_seed);
    return 0;
}

static void tokens_and_pages_are_right_in_any_schedule(void **state) {
    (void)state;
    const char *one = getenv("LONGHAUL_SEED"), *many = getenv("LONGHAUL_SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    uint64_t count = one ? 1 : many ? strtoull(many, NULL, 10) : SEEDS;
    for (uint64_t seed = first; seed < first + count; seed++) {
        current_seed = seed;
        run_schedule(seed);
    }
    current_seed = UINT64_MAX;
    printf("%llu schedules: %llu streams finished, %llu failed, %llu cancelled, %llu replays, %llu "
           "preemptions, %llu prefix hits, %llu blocks evicted\n",
           (unsigned long long)count, (unsigned long long)totals.finished,
           (unsigned long long)totals.failed, (unsigned long long)totals.cancelled,
           (unsigned long long)totals.replays, (unsigned long long)totals.preemptions,
           (unsigned long long)totals.hits, (unsigned long long)totals.evicted);
    if (!one)
        assert_true(totals.finished && totals.cancelled && totals.replays && totals.preemptions &&
                    totals.hits && totals.evicted);
}

int main(void) {
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_pages_are_short_the_last_in_line_makes_room),
        cmocka_unit_test(one_that_fills_the_chain_gets_there),
        cmocka_unit_test(the_lower_priority_is_preempted),
        cmocka_unit_test(a_second_prompt_computes_the_rest),
        cmocka_unit_test(a_conversation_goes_on),
        cmocka_unit_test(choices_share_their_prompt),
        cmocka_unit_test(tenants_do_not_see_each_others_prefixes),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(a_new_chain_has_nothing_cached),
        cmocka_unit_test(a_cancelled_prompt_leaves_what_was_computed),
        cmocka_unit_test_teardown(tokens_and_pages_are_right_in_any_schedule, say_seed_on_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
