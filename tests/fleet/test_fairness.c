/* Tenants side by side on one chain: what a greedy one does to the others' first tokens. */
#include <stddef.h>

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
    int stream =
        simulation_submit_request(sim,
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

static void run_customers(simulation *sim, customer *customers, uint32_t count, int64_t until_us, visits *v) {
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

/* The first tokens' 99th percentile of all but the greedy one, after the first 5 s: until then nobody knows what the others
 * need. */
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

/* Four tenants that ask twice a second each, and in half of the cases one that asks for 40 a second. */
static double run_others(uint32_t prompt_tokens, bool with_greedy) {
    simulation *sim =
        small_fleet_create(&(simulation_options){.scheduler = {.sequences_max = 32, .queue_max = 4000},
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
        print_message("prompts of %u tokens: p99 %.1f ms alone, %.1f ms beside the greedy one\n", prompts[i],
                      alone_ms, beside_ms);
        assert_true(beside_ms <= 1.5 * alone_ms);
    }
}

/* Nobody else has asked yet: the greedy one has all places, for long. Who comes then waits for the first of them that is
 * free, and for no more than that. */
static void who_comes_late_gets_the_next_place(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(
        &(simulation_options){.scheduler = {.sequences_max = 4}, .link = {.delay_us = 5 * MS}}, 2);
    customer greedy = {.tenant = GREEDY, .prompt_tokens = 30}, other = {.tenant = 1, .prompt_tokens = 30};
    visits *v = calloc(1, sizeof *v);
    assert_non_null(v);
    for (uint32_t i = 0; i < 20; i++) {
        greedy.max_tokens = 100 + 50 * i;
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
        assert_true(simulation_stream_at(sim, v->streams[i])->first_token_us > late->first_token_us);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_late_gets_the_next_place),
        cmocka_unit_test(one_at_twenty_times_the_load_does_not_move_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
