/* Answers that are computed again on another chain: sound fleets are never blamed, whoever gives
 * wrong tokens that look right is found and left out, and nobody waits for a check. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"
#include "tests/fleet/support/toy_model.h"

#include <stdlib.h>
#include <string.h>

/* A worker of so much memory holds the whole model, or a little more than half of it. */
#define WHOLE 20000u
#define HALF  7000u

static const lh_chain_controller *controller_at(simulation *sim, uint32_t chain) {
    return lh_router_controller(simulation_router(sim), chain);
}

static const lh_chain *chain_at(simulation *sim, uint32_t chain) {
    return lh_fleet_chain(lh_chain_controller_fleet(controller_at(sim, chain)));
}

static lh_scheduler_figures figures_at(simulation *sim, uint32_t chain) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(controller_at(sim, chain)));
}

static lh_spot_figures spot_figures(simulation *sim) {
    return lh_router_spot_figures(simulation_router(sim));
}

static uint64_t verdicts(simulation *sim, lh_spot_verdict verdict) {
    return spot_figures(sim).verdicts[verdict];
}

static bool is_trusted(simulation *sim, int node) {
    const char name[] = {(char)('a' + node - 1), 0};
    return !lh_misconduct_find(lh_router_misconduct(simulation_router(sim)), name);
}

static bool is_suspended(simulation *sim, int node) {
    const char name[] = {(char)('a' + node - 1), 0};
    return lh_misconduct_standing(
               lh_misconduct_find(lh_router_misconduct(simulation_router(sim)), name),
               simulation_now_us(sim)) == LH_STANDING_SUSPENDED;
}

static bool are_ready(simulation *sim, uint32_t chains) {
    for (uint32_t i = 0; i < chains; i++)
        if (chain_at(sim, i)->state != LH_CHAIN_READY)
            return false;
    return true;
}

static void wait_ready(simulation *sim, uint32_t chains) {
    int64_t limit_us = simulation_now_us(sim) + 10000 * MS;
    while (!are_ready(sim, chains) && simulation_now_us(sim) < limit_us)
        small_fleet_pass(sim, 10);
    assert_true(are_ready(sim, chains));
    small_fleet_pass(sim, 2000);
}

static simulation *create(uint32_t chains, int workers, uint64_t memory_bytes, double rate,
                          lh_wire_type wire) {
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : (lh_log_level)(LH_LOG_ERROR - 1));
    simulation *sim = simulation_create(&(simulation_options){.replicas = chains,
                                                              .fleet.wire.type = wire,
                                                              .scheduler.prefix_cache = true,
                                                              .link = {.delay_us = 5 * MS},
                                                              .spot_check_rate = rate});
    for (int i = 0; i < workers; i++) {
        toy_worker_options worker = small_worker(i);
        worker.memory_bytes = memory_bytes;
        worker.measures = true;
        simulation_add_worker(sim, &worker);
    }
    wait_ready(sim, chains);
    return sim;
}

static bool has_ended(const simulation_stream *s) {
    return s->is_finished || s->is_failed || s->is_cancelled;
}

/* The last worker of a chain. */
static int last_node(simulation *sim, uint32_t chain) {
    const lh_chain *c = chain_at(sim, chain);
    return c->stages[c->stage_count - 1].name[0] - 'a' + 1;
}

/* Streams one after the other, with a pause in which checks may run. */
static void serve(simulation *sim, int count, uint32_t tokens, int64_t pause_ms) {
    for (int i = 0; i < count; i++) {
        int stream = simulation_submit(sim, 40 + 17 * (uint32_t)(i % 5), tokens, (uint64_t)i, NULL);
        assert_true(stream >= 0);
        while (!has_ended(simulation_stream_at(sim, stream)))
            small_fleet_pass(sim, 10);
        assert_true(simulation_stream_at(sim, stream)->is_finished);
        small_fleet_pass(sim, pause_ms);
    }
}

static uint64_t falsified_by(simulation *sim, int node) {
    return toy_worker_current_figures(simulation_worker(sim, node)).falsified;
}

static void assert_no_breach(simulation *sim) {
    small_fleet_pass(sim, 2000);
    assert_int_equal(simulation_breaches(sim), 0);
}

/* One to three workers a chain, all sound. */
static void sound_chains_agree(void **state) {
    (void)state;
    static const struct {
        uint32_t chains;
        int workers;
        uint64_t memory_bytes;
        lh_wire_type wire;
    } fleets[] = {{2, 2, WHOLE, LH_WIRE_F32}, {3, 3, WHOLE, LH_WIRE_F16},
                  {2, 4, HALF, LH_WIRE_F32},  {2, 4, HALF, LH_WIRE_F16},
                  {2, 6, 4700, LH_WIRE_F16},  {2, 5, HALF, LH_WIRE_F32}};
    for (size_t i = 0; i < sizeof fleets / sizeof fleets[0]; i++) {
        simulation *sim =
            create(fleets[i].chains, fleets[i].workers, fleets[i].memory_bytes, 1, fleets[i].wire);
        assert_true(spot_figures(sim).is_possible);
        serve(sim, 12, 50, 600);
        small_fleet_pass(sim, 5000);
        assert_int_equal(verdicts(sim, LH_SPOT_AGREED), 12);
        assert_int_equal(spot_figures(sim).waiting, 0);
        for (int node = 1; node <= fleets[i].workers; node++)
            assert_true(is_trusted(sim, node));
        assert_no_breach(sim);
        simulation_destroy(sim);
    }
}

/* Tokens of a lossy wire depend on where the model is split: two and three workers do not compare.
 */
static void other_splits_of_a_lossy_wire_are_not_compared(void **state) {
    (void)state;
    simulation *sim = create(2, 5, HALF, 1, LH_WIRE_F16);
    assert_int_not_equal(chain_at(sim, 0)->stage_count, chain_at(sim, 1)->stage_count);
    assert_false(spot_figures(sim).is_possible);
    serve(sim, 8, 50, 600);
    assert_int_equal(verdicts(sim, LH_SPOT_AGREED) + verdicts(sim, LH_SPOT_WRONG), 0);
    assert_int_equal(spot_figures(sim).waiting, 0);
    for (int node = 1; node <= 5; node++)
        assert_true(is_trusted(sim, node));
    simulation_destroy(sim);
}

static void the_rate_is_kept(void **state) {
    (void)state;
    simulation *sim = create(2, 2, WHOLE, 0.25, LH_WIRE_F32);
    serve(sim, 200, 10, 400);
    assert_in_range(verdicts(sim, LH_SPOT_AGREED), 30, 70);
    simulation_destroy(sim);
    sim = create(2, 2, WHOLE, 0, LH_WIRE_F32);
    serve(sim, 20, 10, 400);
    assert_int_equal(verdicts(sim, LH_SPOT_AGREED), 0);
    simulation_destroy(sim);
}

/* One token in fifty, of two or three chains of one worker: it is found, and the others are not
 * blamed. With two, it contradicts itself when it is asked again. */
static void who_forges_is_found_and_left_out(void **state) {
    (void)state;
    for (uint32_t chains = 2; chains <= 3; chains++)
        for (uint32_t guilty = 0; guilty < 2; guilty++) {
            simulation *sim = create(chains, (int)chains, WHOLE, 0.5, LH_WIRE_F32);
            int forger = last_node(sim, guilty);
            toy_worker_set_falsifying(simulation_worker(sim, forger), 50);
            int served = 0;
            for (; served < 100 && !is_suspended(sim, forger); served++) {
                serve(sim, 3, 40, 100);
                small_fleet_pass(sim, 1500);
            }
            print_message(
                "%u chains, the %u. forges: suspended after %d answers, %u of %u tokens\n", chains,
                guilty + 1, 3 * served, (unsigned)falsified_by(sim, forger),
                (unsigned)(3 * served * 40));
            assert_true(is_suspended(sim, forger));
            for (int node = 1; node <= (int)chains; node++)
                assert_true(node == forger || is_trusted(sim, node));
            assert_int_not_equal(chain_at(sim, guilty)->state, LH_CHAIN_READY);
            assert_int_equal(verdicts(sim, LH_SPOT_WRONG), 2);
            int first = simulation_submit(sim, 60, 100, 77, NULL);
            while (!has_ended(simulation_stream_at(sim, first)))
                small_fleet_pass(sim, 10);
            assert_true(simulation_stream_at(sim, first)->is_finished &&
                        simulation_stream_is_true(simulation_stream_at(sim, first)));
            assert_no_breach(sim);
            simulation_destroy(sim);
        }
}

/* In a chain of two whoever of them falsifies: both are held responsible, and nobody of the other
 * chains. What the chain's workers keep is not relied upon any more. */
static void the_whole_chain_is_held_responsible(void **state) {
    (void)state;
    for (int guilty = 0; guilty < 2; guilty++) {
        simulation *sim = create(3, 6, HALF, 1, LH_WIRE_F16);
        int nodes[2];
        for (int i = 0; i < 2; i++)
            nodes[i] = chain_at(sim, 1)->stages[i].name[0] - 'a' + 1;
        toy_worker_set_falsifying(simulation_worker(sim, nodes[guilty]), guilty ? 50 : 300);
        for (int i = 0; i < 60 && !is_suspended(sim, nodes[0]); i++) {
            small_fleet_submit(sim, 3, 40);
            small_fleet_pass(sim, 4000);
        }
        for (int node = 1; node <= 6; node++)
            assert_int_equal(is_suspended(sim, node), node == nodes[0] || node == nodes[1]);
        assert_no_breach(sim);
        simulation_destroy(sim);
    }
}

/* Of two chains that each stay with what they say nobody can tell which is wrong. */
static void nobody_is_blamed_where_nobody_knows(void **state) {
    (void)state;
    simulation *sim = create(2, 2, WHOLE, 1, LH_WIRE_F32);
    toy_worker_set_falsifying(simulation_worker(sim, last_node(sim, 0)), 1);
    serve(sim, 6, 40, 1500);
    small_fleet_pass(sim, 10000);
    assert_in_range(verdicts(sim, LH_SPOT_UNDECIDED), 1, 6);
    assert_int_equal(verdicts(sim, LH_SPOT_WRONG), 0);
    assert_true(is_trusted(sim, 1) && is_trusted(sim, 2));
    simulation_destroy(sim);
}

/* It is checked again while on trial, however low the rate, and trusted when enough was right. */
static void a_trial_ends_by_answers_that_were_right(void **state) {
    (void)state;
    simulation *sim = create(3, 3, WHOLE, 0.5, LH_WIRE_F32);
    int forger = last_node(sim, 0);
    const char name[] = {(char)('a' + forger - 1), 0};
    toy_worker_set_falsifying(simulation_worker(sim, forger), 10);
    for (int i = 0; i < 100 && !is_suspended(sim, forger); i++)
        serve(sim, 3, 40, 500);
    assert_true(is_suspended(sim, forger));
    toy_worker_set_falsifying(simulation_worker(sim, forger), 0);
    small_fleet_pass(sim, 35000);
    const lh_misconduct *misconduct = lh_router_misconduct(simulation_router(sim));
    assert_int_equal(
        lh_misconduct_standing(lh_misconduct_find(misconduct, name), simulation_now_us(sim)),
        LH_STANDING_ON_TRIAL);
    wait_ready(sim, 3);
    for (int i = 0; i < 30; i++) {
        small_fleet_submit(sim, 3, 40);
        small_fleet_pass(sim, 3000);
    }
    assert_int_equal(
        lh_misconduct_standing(lh_misconduct_find(misconduct, name), simulation_now_us(sim)),
        LH_STANDING_TRUSTED);
    simulation_destroy(sim);
}

/* The same requests at the same times, with no answer checked, a twentieth of them, and all: no
 * client's token comes later, and nothing cached is given up. */
static void clients_do_not_wait_for_checks(void **state) {
    (void)state;
    static const double rates[] = {0, 0.05, 1};
    enum { STREAMS = 120, RATES = 3 };
    int64_t first_us[RATES] = {0}, whole_us[RATES] = {0};
    uint64_t evicted[RATES] = {0}, agreed[RATES] = {0};
    for (int run = 0; run < RATES; run++) {
        simulation *sim = create(2, 4, HALF, rates[run], LH_WIRE_F32);
        for (int i = 0; i < STREAMS; i++) {
            assert_int_equal(simulation_submit(sim, 200, 40, (uint64_t)i, NULL), i);
            small_fleet_pass(sim, 50 + 97 * i % 900);
        }
        assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
        for (int i = 0; i < STREAMS; i++) {
            const simulation_stream *s = simulation_stream_at(sim, i);
            assert_true(s->is_finished && simulation_stream_is_true(s));
            first_us[run] += s->first_token_us - s->submitted_us;
            whole_us[run] += s->ended_us - s->submitted_us;
        }
        agreed[run] = verdicts(sim, LH_SPOT_AGREED);
        small_fleet_pass(sim, 60000);
        assert_no_breach(sim);
        for (uint32_t chain = 0; chain < 2; chain++) {
            const lh_kv_ledger *ledger =
                lh_scheduler_ledger(lh_chain_controller_scheduler(controller_at(sim, chain)));
            assert_int_equal(ledger->blocks_live + ledger->blocks_returning, 0);
            evicted[run] += figures_at(sim, chain).evicted_blocks;
        }
        print_message("rate %.2f: first token after %.2f ms, whole answer %.2f ms; %u of %u "
                      "answers checked meanwhile\n",
                      rates[run], (double)first_us[run] / MS / STREAMS,
                      (double)whole_us[run] / MS / STREAMS, (unsigned)agreed[run], STREAMS);
        simulation_destroy(sim);
    }
    assert_true(agreed[2] > STREAMS / 4);
    for (int run = 1; run < RATES; run++) {
        assert_int_equal(evicted[run], evicted[0]);
        assert_in_range(first_us[run], 0, first_us[0] + 3 * MS * STREAMS);
        assert_in_range(whole_us[run], 0, whole_us[0] + 3 * MS * STREAMS);
    }
}

/* Chains that always have clients check nothing, and keep no more answers than they may. */
static void a_busy_fleet_checks_nothing(void **state) {
    (void)state;
    simulation *sim = create(2, 2, WHOLE, 1, LH_WIRE_F32);
    for (int i = 0; i < 400; i++) {
        assert_true(simulation_submit(sim, 60, 40, (uint64_t)i, NULL) >= 0);
        small_fleet_pass(sim, 40);
    }
    assert_int_equal(verdicts(sim, LH_SPOT_AGREED), 0);
    assert_true(verdicts(sim, LH_SPOT_DROPPED) > 300);
    assert_in_range(spot_figures(sim).waiting, 1, 16);
    small_fleet_pass(sim, 60000);
    assert_int_equal(spot_figures(sim).waiting, 0);
    assert_true(verdicts(sim, LH_SPOT_AGREED) >= 10);
    simulation_destroy(sim);
}

/* Workers come and go and requests are cancelled, while all answers are checked: nobody is blamed.
 */
static void a_fleet_in_trouble_blames_nobody(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        simulation *sim = create(2, 5, HALF, 1, seed % 2 ? LH_WIRE_F32 : LH_WIRE_F16);
        uint64_t dice = seed * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < 60; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            int stream = simulation_submit(sim, 30 + (uint32_t)(dice >> 40) % 200, 60, dice, NULL);
            small_fleet_pass(sim, (int64_t)(dice >> 33) % 700);
            if (stream >= 0 && (dice >> 50) % 5 == 0)
                simulation_cancel(sim, stream);
            int node = 1 + (int)((dice >> 20) % 5);
            if ((dice >> 55) % 6 == 0 && toy_worker_is_alive(simulation_worker(sim, node))) {
                toy_worker_kill(simulation_worker(sim, node));
                small_fleet_pass(sim, (int64_t)(dice >> 30) % 1500);
                toy_worker_start(simulation_worker(sim, node));
            }
        }
        small_fleet_pass(sim, 30000);
        assert_int_equal(verdicts(sim, LH_SPOT_WRONG) + verdicts(sim, LH_SPOT_UNDECIDED), 0);
        assert_true(verdicts(sim, LH_SPOT_AGREED) > 0);
        for (int node = 1; node <= 5; node++)
            assert_true(is_trusted(sim, node));
        assert_int_equal(simulation_breaches(sim), 0);
        simulation_destroy(sim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_chains_agree),
        cmocka_unit_test(other_splits_of_a_lossy_wire_are_not_compared),
        cmocka_unit_test(the_rate_is_kept),
        cmocka_unit_test(who_forges_is_found_and_left_out),
        cmocka_unit_test(the_whole_chain_is_held_responsible),
        cmocka_unit_test(nobody_is_blamed_where_nobody_knows),
        cmocka_unit_test(a_trial_ends_by_answers_that_were_right),
        cmocka_unit_test(clients_do_not_wait_for_checks),
        cmocka_unit_test(a_busy_fleet_checks_nothing),
        cmocka_unit_test(a_fleet_in_trouble_blames_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
