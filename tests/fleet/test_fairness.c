/* Tenants side by side on one chain: what a greedy one does to the others' first tokens. */
#include <stddef.h>

#include "common/base/log.h"
#include "gateway/schedule/fair_share.h"
#include "tests/fleet/support/small_fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS 4u
#define GREEDY 1000u

/* One who asks again and again, at random moments. */
typedef struct customer {
    uint64_t tenant;
    uint32_t prompt_tokens, max_tokens;
    double mean_gap_us;
    int64_t next_us;
    uint64_t state; /* of its dice */
} customer;

typedef struct visits {
    int streams[SIMULATION_STREAMS_MAX];
    uint64_t tenants[SIMULATION_STREAMS_MAX];
    uint32_t count;
} visits;

static double dice(customer *c) {
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(c->state >> 33) + 0.5) / (double)(1u << 31);
}

static void wait_again(customer *c) {
    c->next_us += (int64_t)(-log(dice(c)) * c->mean_gap_us) + 1;
}

static void ask(simulation *sim, customer *c, visits *v) {
    uint32_t prompt[2048];
    for (uint32_t i = 0; i < c->prompt_tokens; i++)
        prompt[i] = (i + v->count) % 1000;
    int stream = simulation_submit_request(
        sim,
        &(lh_sequence_request){.prompt = prompt,
                               .prompt_tokens = c->prompt_tokens,
                               .max_tokens = c->max_tokens,
                               .sampling = {.top_p = 1, .repetition_penalty = 1},
                               .tenant = c->tenant},
        NULL);
    assert_true(stream >= 0);
    v->streams[v->count] = stream;
    v->tenants[v->count++] = c->tenant;
}

static void run_customers(simulation *sim, customer *customers, uint32_t count, int64_t until_us,
                          visits *v) {
    for (uint32_t i = 0; i < count; i++) {
        customers[i].next_us = simulation_now_us(sim);
        wait_again(&customers[i]);
    }
    for (;;) {
        customer *first = &customers[0];
        for (uint32_t i = 1; i < count; i++)
            if (customers[i].next_us < first->next_us)
                first = &customers[i];
        if (first->next_us > until_us)
            return;
        simulation_step_until(sim, first->next_us);
        ask(sim, first, v);
        wait_again(first);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first tokens' 99th percentile of all but the greedy one, after the first 5 s: until then
 * nobody knows what the others need. */
static double others_p99_ms(simulation *sim, const visits *v, int64_t begun_us) {
    static double ms[SIMULATION_STREAMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        const simulation_stream *s = simulation_stream_at(sim, v->streams[i]);
        if (v->tenants[i] != GREEDY && s->submitted_us >= begun_us + 5000 * MS)
            ms[count++] = (double)(s->first_token_us - s->submitted_us) / 1000;
    }
    assert_in_range(count, 150, SIMULATION_STREAMS_MAX);
    qsort(ms, count, sizeof ms[0], by_value);
    return ms[count * 99 / 100];
}

/* Four tenants that ask twice a second each, and in half of the cases one that asks for 40 a
 * second. */
static double run_others(uint32_t prompt_tokens, bool with_greedy) {
    simulation *sim = small_fleet_create(
        &(simulation_options){.scheduler = {.sequences_max = 32, .queue_max = 4000},
                              .link = {.delay_us = 5 * MS}},
        2);
    customer customers[OTHERS + 1];
    for (uint32_t i = 0; i < OTHERS; i++)
        customers[i] = (customer){i, prompt_tokens, 20, 500 * MS, 0, 77 + i};
    customers[OTHERS] = (customer){GREEDY, prompt_tokens, 60, 25 * MS, 0, 99};
    visits *v = calloc(1, sizeof *v);
    assert_non_null(v);
    int64_t begun_us = simulation_now_us(sim);
    run_customers(sim, customers, OTHERS + with_greedy, begun_us + 30000 * MS, v);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000000 * MS));
    double p99_ms = others_p99_ms(sim, v, begun_us);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
    free(v);
    return p99_ms;
}

/* The greedy one alone is more than the chain can do: its queue grows to a thousand. */
static void one_at_twenty_times_the_load_does_not_move_the_others(void **state) {
    (void)state;
    const uint32_t prompts[] = {30, 120, 400};
    for (int i = 0; i < 3; i++) {
        double alone_ms = run_others(prompts[i], false), beside_ms = run_others(prompts[i], true);
        print_message("prompts of %u tokens: p99 %.1f ms alone, %.1f ms beside the greedy one\n",
                      prompts[i], alone_ms, beside_ms);
        assert_true(beside_ms <= 1.5 * alone_ms);
    }
}

/* Nobody else has asked yet: the greedy one has all places, for long. Who comes then waits for the
 * first of them that is free, and for no more than that. */
static void who_comes_late_gets_the_next_place(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(
        &(simulation_options){.scheduler = {.sequences_max = 4}, .link = {.delay_us = 5 * MS}}, 2);
    customer greedy = {.tenant = GREEDY, .prompt_tokens = 30},
             other = {.tenant = 1, .prompt_tokens = 30};
    visits *v = calloc(1, sizeof *v);
    assert_non_null(v);
    for (uint32_t i = 0; i < 20; i++) {
        greedy.max_tokens = 50 + 50 * i;
        ask(sim, &greedy, v);
    }
    simulation_step_until(sim, simulation_now_us(sim) + 100 * MS);
    other.max_tokens = 5;
    ask(sim, &other, v);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000000 * MS));
    const simulation_stream *first = simulation_stream_at(sim, v->streams[0]),
                            *late = simulation_stream_at(sim, v->streams[20]);
    assert_in_range(late->first_token_us - first->ended_us, 1, 80 * MS);
    for (int i = 4; i < 20; i++)
        assert_true(simulation_stream_at(sim, v->streams[i])->first_token_us >
                    late->first_token_us);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
    free(v);
}

/* ---- Making way ---- */

static simulation *create_small(uint32_t places, uint32_t pages, int64_t delay_us) {
    simulation *sim = simulation_create(
        &(simulation_options){.scheduler = {.sequences_max = places, .prefix_cache = true},
                              .link = {.delay_us = delay_us}});
    for (int i = 0; i < 2; i++) {
        toy_worker_options worker = small_worker(i);
        worker.pages_total = pages;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

static void let_pass(simulation *sim, int64_t us) {
    simulation_step_until(sim, simulation_now_us(sim) + us);
}

/* The stream. */
static int come(simulation *sim, uint64_t tenant, uint32_t prompt_tokens, uint32_t max_tokens,
                visits *v) {
    customer c = {.tenant = tenant, .prompt_tokens = prompt_tokens, .max_tokens = max_tokens};
    ask(sim, &c, v);
    return v->streams[v->count - 1];
}

static int64_t first_token_after_us(simulation *sim, int stream) {
    const simulation_stream *s = simulation_stream_at(sim, stream);
    assert_true(s->first_token_us > 0);
    return s->first_token_us - s->submitted_us;
}

static uint64_t preemptions_of(simulation *sim) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)))
        .preemptions;
}

static void end_all(simulation *sim, const visits *v) {
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000000 * MS));
    for (uint32_t i = 0; i < v->count; i++) {
        const simulation_stream *s = simulation_stream_at(sim, v->streams[i]);
        assert_true(s->is_finished && s->count == s->max_tokens && simulation_stream_is_true(s));
    }
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* All places are taken for minutes. The last one that came of the greedy one's goes back to the
 * queue, once: what it gave up is not its again while others are about. */
static void who_waits_with_nothing_gets_a_place(void **state) {
    (void)state;
    simulation *sim = create_small(4, 1000, 5 * MS);
    visits v = {.count = 0};
    for (int i = 0; i < 6; i++)
        come(sim, GREEDY, 30, 2000, &v);
    let_pass(sim, 3000 * MS);
    int late = come(sim, 1, 30, 20, &v), second = come(sim, 1, 30, 20, &v);
    let_pass(sim, 2000 * MS);
    assert_in_range(first_token_after_us(sim, late), LH_SHARE_PATIENCE_US,
                    LH_SHARE_PATIENCE_US + 100 * MS);
    assert_true(simulation_stream_at(sim, late)->is_finished);
    assert_true(simulation_stream_at(sim, second)->is_finished); /* in the same place */
    assert_int_equal(preemptions_of(sim), 1);
    int again = come(sim, 1, 30, 20, &v);
    let_pass(sim, 200 * MS);
    assert_in_range(first_token_after_us(sim, again), 1, 100 * MS);
    for (int i = 0; i < 3; i++)
        assert_in_range(simulation_stream_at(sim, v.streams[i])->longest_gap_us, 1, 100 * MS);
    assert_true(simulation_now_us(sim) - simulation_stream_at(sim, v.streams[3])->last_token_us >
                1000 * MS);
    assert_int_equal(simulation_stream_at(sim, v.streams[4])->count, 0);
    assert_int_equal(preemptions_of(sim), 1);
    end_all(sim, &v);
}

/* Three long ones have all pages, in half as many places. Two of them go: one would not be enough.
 */
static void who_waits_with_nothing_gets_pages(void **state) {
    (void)state;
    simulation *sim = create_small(6, 100, 40 * MS);
    visits v = {.count = 0};
    for (int i = 0; i < 3; i++)
        come(sim, GREEDY, 470, 58, &v);
    let_pass(sim, 1000 * MS);
    int late = come(sim, 1, 600, 20, &v);
    let_pass(sim, 900 * MS);
    assert_int_equal(preemptions_of(sim), 0);
    let_pass(sim, 1200 * MS);
    assert_in_range(first_token_after_us(sim, late), LH_SHARE_PATIENCE_US,
                    LH_SHARE_PATIENCE_US + 900 * MS);
    assert_int_equal(preemptions_of(sim), 2);
    end_all(sim, &v);
}

/* Where all that may be taken would not be enough, nothing is. */
static void nobody_is_stopped_in_vain(void **state) {
    (void)state;
    simulation *sim = create_small(6, 100, 40 * MS);
    visits v = {.count = 0};
    come(sim, GREEDY, 1200, 200, &v);
    come(sim, GREEDY, 60, 100, &v);
    let_pass(sim, 500 * MS);
    come(sim, 1, 800, 20, &v);
    let_pass(sim, 2000 * MS);
    assert_int_equal(preemptions_of(sim), 0);
    end_all(sim, &v);
}

/* As many tenants as places, and one more: nobody has two, so that one waits for its turn. */
static void nobody_is_stopped_for_who_would_have_more(void **state) {
    (void)state;
    simulation *sim = create_small(3, 1000, 5 * MS);
    visits v = {.count = 0};
    for (int i = 0; i < 3; i++)
        come(sim, (uint64_t)i, 30, 500, &v);
    let_pass(sim, 100 * MS);
    come(sim, 3, 30, 20, &v);
    come(sim, 0, 30, 20, &v);
    end_all(sim, &v);
}

/* Others come one after the other for a minute, stay long, and the greedy one has work for ever: it
 * comes down to one place, and each of its own is stopped once in five seconds at most. */
static void places_are_not_taken_back_and_forth(void **state) {
    (void)state;
    simulation *sim = create_small(8, 1000, 5 * MS);
    visits v = {.count = 0};
    for (int i = 0; i < 12; i++)
        come(sim, GREEDY, 30, 1500, &v);
    let_pass(sim, 1000 * MS);
    for (int round = 0; round < 20; round++) {
        int stream = come(sim, (uint64_t)round % 7, 30, 400, &v);
        let_pass(sim, 3000 * MS);
        assert_in_range(first_token_after_us(sim, stream), 1, LH_SHARE_PATIENCE_US + 100 * MS);
    }
    print_message("%llu preemptions for 20 late comers\n", (unsigned long long)preemptions_of(sim));
    assert_in_range(preemptions_of(sim), 1, 7);
    end_all(sim, &v);
}

int main(void) {
    lh_log_set_level(LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_late_gets_the_next_place),
        cmocka_unit_test(who_waits_with_nothing_gets_a_place),
        cmocka_unit_test(who_waits_with_nothing_gets_pages),
        cmocka_unit_test(nobody_is_stopped_in_vain),
        cmocka_unit_test(nobody_is_stopped_for_who_would_have_more),
        cmocka_unit_test(places_are_not_taken_back_and_forth),
        cmocka_unit_test(one_at_twenty_times_the_load_does_not_move_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
