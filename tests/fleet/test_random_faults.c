/* Thousands of random schedules of faults under load: processes die, freeze and come back, the
 * gateway's own among them; lines are cut in one direction or both, are slow, lose and corrupt; old
 * frames come again; clients hang up and run out of time. Whatever happens, every stream ends, its
 * tokens are a true beginning of what the model gives, no worker sees a promise broken, and when
 * all is well again nothing is left behind.
 *
 * LONGHAUL_SEED=n runs one schedule alone (LONGHAUL_LOG=1 shows its log), LONGHAUL_SEEDS=n so many.
 * A schedule follows from its seed alone. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"

#define SEEDS       2000
#define SEEDS_QUICK 300 /* for programs that a sanitizer makes slow */
#define WORKERS_MAX 5

/* What the schedules came to, so that they are known to have tried something. */
enum {
    KILL,
    START,
    STALL,
    BLOCK,
    PARTITION,
    CUT,
    BAD_LINK,
    RESTART_GATEWAY,
    STALL_GATEWAY,
    REPLAY,
    LEAVE,
    FAULT_KINDS
};

static struct {
    uint64_t finished, failed, cancelled, timed_out, replays, replayed_rows, corrupt, ignored,
        repeated;
    uint64_t faults[FAULT_KINDS];
} totals;

typedef struct schedule {
    simulation *sim;
    int workers;
    uint64_t seed;
} schedule;

static uint64_t dice(schedule *s, uint64_t below) {
    return network_random(simulation_network(s->sim), below);
}

static int64_t dice_ms(schedule *s, uint64_t most_ms) {
    return (int64_t)dice(s, most_ms) * MS;
}

static void build(schedule *s) {
    simulation_options options = {.seed = s->seed * 7919 + 1};
    uint64_t random = options.seed * 0x9e3779b97f4a7c15u;
    options.link.delay_us = (int64_t)(random >> 60) * 3 * MS;
    options.link.bytes_per_s = (random >> 58 & 3) ? 1000000 : 0;
    options.link.loss = (random >> 56 & 3) == 0 ? 0.01 : 0;
    options.scheduler.sequences_max = 2 + (uint32_t)(random >> 40 & 7);
    options.scheduler.queue_max = (uint32_t)(random >> 32 & 15);
    options.scheduler.overlap =
        (lh_overlap_spec){LH_OVERLAP_MANUAL, 1 + (uint32_t)(random >> 24 & 63), 1};
    options.scheduler.step_budget_us = (random >> 20 & 3) * 3 * MS;
    options.replicas = (random >> 18 & 3) == 0 ? 2 : 1;
    options.fleet.rebalance_delay_us = (random >> 16 & 3) == 0 ? 2000 * MS : 0;
    options.fleet.teams.size = (random >> 14 & 3) == 0 ? 2 : 0;
    bool measures = random >> 22 & 1;
    s->sim = simulation_create(&options);
    s->workers = 2 + (int)dice(s, WORKERS_MAX - 1);
    for (int i = 0; i < s->workers; i++) {
        toy_worker_options worker = small_worker(i);
        worker.memory_bytes = dice(s, 2) ? 7500 : 1 << 20;
        worker.pages_total = 30 + (uint32_t)dice(s, 100);
        worker.page_positions = 8u << dice(s, 3);
        worker.step_us = dice_ms(s, 5) + 100;
        worker.measures = measures;
        worker.joins = true;
        worker.threads = 1 + (uint32_t)dice(s, 8);
        simulation_add_worker(s->sim, &worker);
    }
}

static void revive(schedule *s, int node) {
    if (!toy_worker_is_alive(simulation_worker(s->sim, node)))
        toy_worker_start(simulation_worker(s->sim, node));
}

static void one_fault(schedule *s) {
    network *net = simulation_network(s->sim);
    int64_t now_us = simulation_now_us(s->sim);
    int node = 1 + (int)dice(s, (uint64_t)s->workers),
        other = (int)dice(s, (uint64_t)s->workers + 1);
    int kind = (int)dice(s, FAULT_KINDS);
    totals.faults[kind]++;
    switch (kind) {
    case KILL:
        toy_worker_kill(simulation_worker(s->sim, node));
        break;
    case START:
        if (!toy_worker_is_alive(simulation_worker(s->sim, node)))
            toy_worker_start(simulation_worker(s->sim, node));
        break;
    case STALL:
        network_stall(net, node, now_us + dice_ms(s, 5000));
        break;
    case BLOCK:
        if (node != other)
            network_block(net, node, other, now_us + dice_ms(s, 6000));
        break;
    case PARTITION:
        if (node != other) {
            network_block(net, node, other, now_us + dice_ms(s, 6000));
            network_block(net, other, node, now_us + dice_ms(s, 6000));
        }
        break;
    case CUT:
        if (node != other)
            network_cut(net, node, other);
        break;
    case BAD_LINK:
        network_set_link(net, node, other,
                         (link_options){.delay_us = dice_ms(s, 50),
                                        .bytes_per_s = 100000,
                                        .loss = 0.05,
                                        .corruption = 0.002});
        break;
    case RESTART_GATEWAY:
        if (simulation_has_gateway(s->sim) && dice(s, 3) == 0)
            simulation_restart_gateway(s->sim, dice_ms(s, 2000) + 1);
        break;
    case STALL_GATEWAY:
        if (simulation_has_gateway(s->sim))
            simulation_pause_gateway(s->sim, now_us + dice_ms(s, 5000));
        break;
    case REPLAY:
        for (uint64_t i = dice(s, 20); i > 0; i--)
            network_replay(net);
        break;
    case LEAVE:
        toy_worker_set_leaving(simulation_worker(s->sim, node), true);
        break;
    }
}

static void one_client(schedule *s, int *streams) {
    lh_status status;
    uint32_t prompt[150], length = 1 + (uint32_t)dice(s, 150);
    if (!simulation_has_gateway(s->sim))
        return;
    for (uint32_t i = 0; i < length; i++)
        prompt[i] = (uint32_t)dice(s, TOY_VOCABULARY);
    lh_sequence_request request = {
        .prompt = prompt,
        .prompt_tokens = length,
        .max_tokens = 1 + (uint32_t)dice(s, 60),
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = dice(s, 1000)},
        .deadline_us = dice(s, 6) ? 0 : simulation_now_us(s->sim) + dice_ms(s, 3000) + 1};
    int stream = simulation_submit_request(s->sim, &request, &status);
    if (stream < 0)
        assert_true(status == LH_ERR_BUSY || status == LH_ERR_UNAVAILABLE ||
                    status == LH_ERR_LIMIT || status == LH_ERR_TIMEOUT);
    else
        *streams = stream + 1;
    if (*streams && dice(s, 4) == 0)
        simulation_cancel(s->sim, (int)dice(s, (uint64_t)*streams));
}

static void heal(schedule *s) {
    for (int node = 1; node <= s->workers; node++) {
        toy_worker_set_leaving(simulation_worker(s->sim, node), false);
        revive(s, node);
        for (int other = 0; other <= s->workers; other++) {
            network_set_link(simulation_network(s->sim), node, other,
                             (link_options){.delay_us = 2 * MS});
            network_set_link(simulation_network(s->sim), other, node,
                             (link_options){.delay_us = 2 * MS});
        }
    }
}

static lh_scheduler_figures figures_at(simulation *sim, uint32_t chain) {
    return lh_scheduler_current_figures(
        lh_chain_controller_scheduler(lh_router_controller(simulation_router(sim), chain)));
}

static bool is_settled(simulation *sim) {
    uint32_t busy = 0;
    for (uint32_t i = 0; i < lh_router_count(simulation_router(sim)); i++) {
        lh_scheduler_figures f = figures_at(sim, i);
        busy += f.running + f.waiting + f.truncating;
        busy += f.decode_steps + f.prefill_steps + f.truncation_steps;
    }
    return lh_router_is_up(simulation_router(sim)) && busy == 0;
}

/* Of several chains: perhaps there are too few workers for all of them. */
static void assert_clean(simulation *sim) {
    if (lh_router_count(simulation_router(sim)) == 1) {
        small_fleet_assert_clean(sim);
        return;
    }
    int64_t limit_us = simulation_now_us(sim) + 60000 * MS;
    while (!is_settled(sim) && simulation_now_us(sim) < limit_us)
        simulation_step_until(sim, simulation_now_us(sim) + 10 * MS);
    assert_true(is_settled(sim));
    assert_int_equal(simulation_breaches(sim), 0);
}

static uint64_t current_seed;

static int say_seed_on_failure(void **state) {
    (void)state;
    if (current_seed != UINT64_MAX)
        fprintf(stderr, "to replay: LONGHAUL_SEED=%llu LONGHAUL_LOG=1\n",
                (unsigned long long)current_seed);
    return 0;
}

static void run_schedule(uint64_t seed) {
    schedule s = {.seed = seed};
    int streams = 0;
    build(&s);
    while (simulation_now_us(s.sim) < 25000 * MS) {
        simulation_step_until(s.sim, simulation_now_us(s.sim) + dice_ms(&s, 200) + 1);
        one_client(&s, &streams);
        if (dice(&s, 12) == 0)
            one_fault(&s);
    }
    while (!simulation_has_gateway(s.sim))
        simulation_step_until(s.sim, simulation_now_us(s.sim) + 100 * MS);
    heal(&s);
    assert_true(simulation_run_streams(s.sim, simulation_now_us(s.sim) + 120000 * MS));
    for (int i = 0; i < streams; i++) {
        const simulation_stream *stream = simulation_stream_at(s.sim, i);
        assert_true(simulation_stream_is_true(stream));
        assert_int_equal(stream->is_finished + stream->is_failed + stream->is_cancelled, 1);
        totals.finished += stream->is_finished;
        totals.failed += stream->is_failed;
        totals.cancelled += stream->is_cancelled;
        if (stream->is_failed) /* CLOSED: with its gateway */
            assert_true(stream->status == LH_ERR_UNAVAILABLE || stream->status == LH_ERR_CLOSED ||
                        stream->status == LH_ERR_TIMEOUT);
        totals.timed_out += stream->is_failed && stream->status == LH_ERR_TIMEOUT;
        if (stream->is_finished)
            assert_int_equal(stream->count, stream->max_tokens);
    }
    assert_clean(s.sim);
    assert_true(simulation_submit(s.sim, 20, 5, 1, NULL) >= 0);
    assert_true(simulation_run_streams(s.sim, simulation_now_us(s.sim) + 5000 * MS));
    assert_true(simulation_stream_at(s.sim, streams)->is_finished);
    for (uint32_t i = 0; i < lh_router_count(simulation_router(s.sim)); i++) {
        lh_scheduler_figures figures = figures_at(s.sim, i);
        totals.replays += figures.replays;
        totals.replayed_rows += figures.replayed_rows;
        totals.ignored += figures.results_ignored;
    }
    for (int node = 1; node <= s.workers; node++) {
        toy_worker_figures worker = toy_worker_current_figures(simulation_worker(s.sim, node));
        totals.corrupt += worker.corrupt;
        totals.repeated += worker.repeated;
    }
    simulation_destroy(s.sim);
}

static void streams_survive_any_schedule(void **state) {
    (void)state;
    const char *one = getenv("LONGHAUL_SEED"), *many = getenv("LONGHAUL_SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0;
    uint64_t usual = getenv("LONGHAUL_TEST_QUICK") ? SEEDS_QUICK : SEEDS;
    uint64_t count = one ? 1 : many ? strtoull(many, NULL, 10) : usual;
    for (uint64_t seed = first; seed < first + count; seed++) {
        current_seed = seed;
        run_schedule(seed);
    }
    current_seed = UINT64_MAX;
    printf("%llu schedules: %llu streams finished, %llu failed (%llu of them late), %llu "
           "cancelled; %llu replays of %llu rows, %llu corrupt bodies, %llu results ignored, %llu "
           "steps refused that had come before\n",
           (unsigned long long)count, (unsigned long long)totals.finished,
           (unsigned long long)totals.failed, (unsigned long long)totals.timed_out,
           (unsigned long long)totals.cancelled, (unsigned long long)totals.replays,
           (unsigned long long)totals.replayed_rows, (unsigned long long)totals.corrupt,
           (unsigned long long)totals.ignored, (unsigned long long)totals.repeated);
    for (int kind = 0; kind < FAULT_KINDS && !one; kind++)
        assert_true(totals.faults[kind] > 0);
    if (!one)
        assert_true(totals.finished && totals.failed && totals.timed_out && totals.cancelled &&
                    totals.replays && totals.corrupt && totals.ignored && totals.repeated);
}

int main(void) {
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_survive_any_schedule, say_seed_on_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
