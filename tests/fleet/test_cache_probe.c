/* Whether anybody can find out what another client has asked, by how soon an answer to the same
 * prompt comes or by what it says of cached tokens. Time is simulated, so the answer is exact: what
 * a probe sees of a prompt that another one has had computed is what it sees of any other one. */
#include <stddef.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"

#include <string.h>

#define PROMPT_TOKENS 150u
#define ANSWER_TOKENS 12u

/* Who asks, and under which salt. */
typedef struct asker {
    uint64_t tenant, cache_salt;
} asker;

typedef struct circumstances {
    bool is_victim_running; /* when the probe comes; else what it left is cached */
    uint32_t pages, replicas;
} circumstances;

/* All that a client can tell of its answer. */
typedef struct sight {
    int64_t first_token_us, longest_gap_us, end_us;
    uint32_t tokens, cached_tokens;
} sight;

static int ask(simulation *sim, asker who, uint32_t prompt_seed, uint32_t tokens) {
    uint32_t prompt[PROMPT_TOKENS];
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++)
        prompt[i] = (prompt_seed * 131 + i * 7) % 1000;
    const lh_sequence_request request = {.prompt = prompt,
                                         .prompt_tokens = PROMPT_TOKENS,
                                         .max_tokens = tokens,
                                         .tenant = who.tenant,
                                         .cache_salt = who.cache_salt,
                                         .sampling = {.top_p = 1, .repetition_penalty = 1}};
    int stream = simulation_submit_request(sim, &request, NULL);
    assert_true(stream >= 0);
    return stream;
}

static simulation *create(const circumstances *c) {
    simulation *sim = simulation_create(&(simulation_options){.replicas = c->replicas,
                                                              .scheduler = {.prefix_cache = true},
                                                              .link = {.delay_us = 5 * MS}});
    for (int i = 0; i < 2 * (int)c->replicas; i++) {
        toy_worker_options worker = small_worker(i);
        worker.pages_total = c->pages;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 20000 * MS);
    simulation_step_until(sim, simulation_now_us(sim) + 3000 * MS);
    return sim;
}

/* Three prompts of the victim's, 1 to 3; then the probe's, which is one of them or 4. */
static sight probe(const circumstances *c, asker victim, asker prober, uint32_t prompt_seed) {
    simulation *sim = create(c);
    for (uint32_t i = 1; i <= 3; i++) {
        int stream = ask(sim, victim, i, i < 3 || !c->is_victim_running ? ANSWER_TOKENS : 200);
        while (simulation_stream_at(sim, stream)->count < 5)
            simulation_step_until(sim, simulation_now_us(sim) + 10 * MS);
    }
    simulation_step_until(sim, simulation_now_us(sim) + (c->is_victim_running ? 1 : 1000 * MS));
    int index = ask(sim, prober, prompt_seed, ANSWER_TOKENS);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    const simulation_stream *s = simulation_stream_at(sim, index);
    assert_true(s->is_finished && simulation_stream_is_true(s));
    sight seen;
    memset(&seen, 0, sizeof seen);
    seen.first_token_us = s->first_token_us - s->submitted_us;
    seen.longest_gap_us = s->longest_gap_us;
    seen.end_us = s->ended_us - s->submitted_us;
    seen.tokens = s->count;
    seen.cached_tokens = s->cached_tokens;
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
    return seen;
}

/* 32 pages: the victim's prompts and the probe's do not fit beside each other, so that something
 * has to go. */
static const circumstances all_circumstances[] = {
    {false, 1000, 1}, {true, 1000, 1},  {false, 32, 1},
    {true, 32, 1},    {false, 1000, 2}, {true, 1000, 2},
};
#define CIRCUMSTANCES (sizeof all_circumstances / sizeof all_circumstances[0])

static void assert_tells_nothing(asker victim, asker prober) {
    for (size_t i = 0; i < CIRCUMSTANCES; i++) {
        const sight miss = probe(&all_circumstances[i], victim, prober, 4);
        for (uint32_t seed = 1; seed <= 3; seed++) {
            const sight hit = probe(&all_circumstances[i], victim, prober, seed);
            assert_memory_equal(&hit, &miss, sizeof hit);
        }
        assert_int_equal(miss.cached_tokens, 0);
    }
}

static void another_key_learns_nothing(void **state) {
    (void)state;
    assert_tells_nothing((asker){1, 0}, (asker){2, 0});
    assert_tells_nothing((asker){1, 0}, (asker){0, 0});
}

static void another_salt_learns_nothing(void **state) {
    (void)state;
    assert_tells_nothing((asker){1, 5}, (asker){1, 6});
    assert_tells_nothing((asker){1, 5}, (asker){1, 0});
    assert_tells_nothing((asker){1, 0}, (asker){1, 5});
    assert_tells_nothing((asker){0, 5}, (asker){0, 6}); /* without keys, too */
}

/* So it is no blindness: one's own prefix is found, and soon. */
static void ones_own_is_found(void **state) {
    (void)state;
    const asker askers[] = {{1, 0}, {1, 5}, {0, 5}};
    for (size_t i = 0; i < sizeof askers / sizeof askers[0]; i++) {
        const sight miss = probe(&all_circumstances[0], askers[i], askers[i], 4);
        const sight hit = probe(&all_circumstances[0], askers[i], askers[i], 2);
        assert_int_equal(miss.cached_tokens, 0);
        assert_int_equal(hit.cached_tokens, 144);
        assert_true(hit.first_token_us < miss.first_token_us - 5 * MS);
    }
}

int main(void) {
    lh_log_set_level(LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_key_learns_nothing),
        cmocka_unit_test(another_salt_learns_nothing),
        cmocka_unit_test(ones_own_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
