/* A chain breaks and is formed again; the streams go on with the same tokens, or end cleanly. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

static const lh_chain *chain_of(simulation *sim) {
    return lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)));
}

/* Two workers, each of which holds half of the model and no more. */
static simulation *create_without_spare(void) {
    simulation *sim = simulation_create(&(simulation_options){.link = {.delay_us = 5 * MS}});
    for (int i = 0; i < 2; i++) {
        toy_worker_options worker = small_worker(i);
        worker.memory_bytes = 7000;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

/* Each worker, at many moments: killed and started again. */
static void a_restarted_worker_is_replayed(void **state) {
    (void)state;
    for (int node = 1; node <= 3; node++) {
        for (int after_ms = 0; after_ms < 2000; after_ms += 130) {
            simulation *sim =
                small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
            small_fleet_submit(sim, 5, 100);
            simulation_step_until(sim, simulation_now_us(sim) + after_ms * MS);
            toy_worker_kill(simulation_worker(sim, node));
            simulation_step_until(sim, simulation_now_us(sim) + 400 * MS);
            toy_worker_start(simulation_worker(sim, node));
            assert_in_range(small_fleet_assert_finished(sim, 5), 0, 3000 * MS);
            small_fleet_assert_clean(sim);
            simulation_destroy(sim);
        }
    }
}

/* Two of three are enough to hold the model: the lost one's layers are taken over, before its lease
 * would have ended. */
static void other_workers_take_over(void **state) {
    (void)state;
    for (int node = 1; node <= 3; node++) {
        simulation *sim =
            small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
        small_fleet_submit(sim, 5, 100);
        simulation_step_until(sim, simulation_now_us(sim) + 600 * MS);
        toy_worker_kill(simulation_worker(sim, node));
        assert_in_range(small_fleet_assert_finished(sim, 5), 0, 3500 * MS);
        assert_int_equal(chain_of(sim)->stage_count, 2);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* A spare that joined later changes nothing until it is needed. */
static void a_spare_waits_until_it_is_needed(void **state) {
    (void)state;
    simulation *sim = simulation_create(&(simulation_options){.link = {.delay_us = 5 * MS}});
    toy_worker_options workers[3] = {small_worker(0), small_worker(1), small_worker(2)};
    for (int i = 0; i < 3; i++)
        workers[i].memory_bytes = 7000; /* of 13,000: one alone cannot hold the model */
    simulation_add_worker(sim, &workers[0]);
    simulation_add_worker(sim, &workers[1]);
    simulation_wait_ready(sim, 10000 * MS);
    uint32_t epoch = chain_of(sim)->epoch;
    simulation_add_worker(sim, &workers[2]);
    small_fleet_submit(sim, 4, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 700 * MS);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    toy_worker_kill(simulation_worker(sim, 1));
    assert_in_range(small_fleet_assert_finished(sim, 4), 0, 3500 * MS);
    assert_int_equal(lh_chain_find(chain_of(sim), "a"), -1);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Nothing can take over: an error within the replay timeout and what follows, a refusal from then
 * on, and back when the worker is. */
static void without_a_spare_the_streams_end_cleanly(void **state) {
    (void)state;
    simulation *sim = create_without_spare();
    small_fleet_submit(sim, 3, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
    int64_t killed_us = simulation_now_us(sim);
    toy_worker_kill(simulation_worker(sim, 2));
    assert_true(simulation_run_streams(sim, killed_us + 5100 * MS));
    for (int i = 0; i < 3; i++) {
        const simulation_stream *s = simulation_stream_at(sim, i);
        assert_true(s->is_failed && simulation_stream_is_true(s));
        assert_int_equal(s->status, LH_ERR_UNAVAILABLE);
    }
    lh_status status;
    assert_int_equal(simulation_submit(sim, 10, 10, 1, &status), -1);
    assert_int_equal(status, LH_ERR_UNAVAILABLE);
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_NONE);
    toy_worker_start(simulation_worker(sim, 2));
    simulation_wait_ready(sim, simulation_now_us(sim) + 4000 * MS);
    assert_true(simulation_submit(sim, 10, 10, 1, &status) >= 0);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 1000 * MS));
    assert_true(simulation_stream_at(sim, 3)->is_finished);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Three workers that load for so long, of which two are needed: three streams run, and one of the
 * two is killed. counts_load: workers report how far they are with loading. */
static simulation *create_bereft(int64_t load_us, bool counts_load, int64_t takeover_timeout_us) {
    simulation *sim = simulation_create(
        &(simulation_options){.link = {.delay_us = 5 * MS},
                              .fleet.aim.stages = 2,
                              .scheduler.takeover_timeout_us = takeover_timeout_us});
    toy_worker_options workers[3] = {small_worker(0), small_worker(1), small_worker(2)};
    for (int i = 0; i < 3; i++) {
        workers[i].memory_bytes = 7000;
        workers[i].load_us = load_us;
        workers[i].counts_load = counts_load;
        simulation_add_worker(sim, &workers[i]);
    }
    simulation_wait_ready(sim, load_us + 12000 * MS);
    small_fleet_submit(sim, 3, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
    toy_worker_kill(simulation_worker(sim, 2));
    return sim;
}

/* What was lost takes longer to load than the streams would wait for nothing. */
static void a_spare_that_loads_for_long_is_waited_for(void **state) {
    (void)state;
    simulation *sim = create_bereft(8000 * MS, false, 15000 * MS);
    assert_in_range(small_fleet_assert_finished(sim, 3), 8000 * MS, 10000 * MS);
    simulation_destroy(sim);
}

/* The limit counts from the last byte, however long all of them take. */
static void a_spare_whose_bytes_come_is_waited_for_longer(void **state) {
    (void)state;
    simulation *sim = create_bereft(40000 * MS, true, 6000 * MS);
    assert_in_range(small_fleet_assert_finished(sim, 3), 40000 * MS, 42000 * MS);
    simulation_destroy(sim);
}

static void but_not_for_ever(void **state) {
    (void)state;
    simulation *sim = create_bereft(8000 * MS, false, 6000 * MS);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 6200 * MS));
    assert_true(simulation_stream_at(sim, 0)->is_failed);
    simulation_destroy(sim);
}

/* Nothing can take over, and it shows only after a while: but the client's patience began when it
 * last heard something. */
static void the_time_to_an_error_counts_from_the_last_step(void **state) {
    (void)state;
    for (int one_way = 0; one_way < 2; one_way++) {
        simulation *sim = simulation_create(&(simulation_options){.link = {.delay_us = 5 * MS}});
        toy_worker_options workers[2] = {small_worker(0), small_worker(1)};
        workers[0].memory_bytes = workers[1].memory_bytes = 7000;
        simulation_add_worker(sim, &workers[0]);
        simulation_add_worker(sim, &workers[1]);
        simulation_wait_ready(sim, 10000 * MS);
        small_fleet_submit(sim, 3, 100);
        simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
        int64_t lost_us = simulation_now_us(sim);
        if (one_way)
            for (int other = 0; other < 2; other++)
                network_block(simulation_network(sim), 2, other, lost_us + 20000 * MS);
        else
            network_stall(simulation_network(sim), 2, lost_us + 20000 * MS);
        /* what was on its way came */
        assert_true(simulation_run_streams(sim, lost_us + 5050 * MS));
        for (int i = 0; i < 3; i++)
            assert_true(simulation_stream_at(sim, i)->is_failed);
        simulation_destroy(sim);
    }
}

static void a_stalled_worker_is_replaced_and_comes_back_harmless(void **state) {
    (void)state;
    for (int stall_ms = 200; stall_ms <= 9000; stall_ms += 800) {
        simulation *sim =
            small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
        small_fleet_submit(sim, 5, 100);
        simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
        network_stall(simulation_network(sim), 2, simulation_now_us(sim) + stall_ms * MS);
        assert_in_range(small_fleet_assert_finished(sim, 5), 0, 7000 * MS);
        simulation_step_until(sim, simulation_now_us(sim) + 10000 * MS);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

static void a_partitioned_worker_is_replaced(void **state) {
    (void)state;
    for (int one_way = 0; one_way < 2; one_way++) {
        for (int node = 1; node <= 3; node++) {
            simulation *sim =
                small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
            small_fleet_submit(sim, 5, 100);
            simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
            for (int other = 0; other <= 3; other++) {
                if (other == node)
                    continue;
                network_block(simulation_network(sim), node, other,
                              simulation_now_us(sim) + 20000 * MS);
                if (!one_way)
                    network_block(simulation_network(sim), other, node,
                                  simulation_now_us(sim) + 20000 * MS);
            }
            assert_in_range(small_fleet_assert_finished(sim, 5), 0, 7000 * MS);
            assert_int_equal(chain_of(sim)->stage_count, 2);
            simulation_destroy(sim);
        }
    }
}

static uint64_t replayed_rows(simulation *sim) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)))
        .replayed_rows;
}

/* One hop is cut and comes back: the same stages under the next epoch. Nobody has lost anything, so
 * what was under way is computed again and no more: a row of each stream, of a hundred and more. */
static void a_cut_hop_is_formed_again(void **state) {
    (void)state;
    static const int hops[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++) {
        simulation *sim =
            small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
        small_fleet_submit(sim, 5, 100);
        simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
        uint32_t epoch = chain_of(sim)->epoch;
        network_cut(simulation_network(sim), hops[i][0], hops[i][1]);
        assert_in_range(small_fleet_assert_finished(sim, 5), 1, 2500 * MS);
        assert_true(chain_of(sim)->epoch > epoch);
        assert_int_equal(chain_of(sim)->stage_count, 3);
        assert_in_range(replayed_rows(sim), 1, 5);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* Two neighbours do not reach each other, though all else does: the spare takes the place of one of
 * them; and where there is none, an error in time. */
static void a_hop_that_stays_down_is_avoided(void **state) {
    (void)state;
    static const int hops[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    for (size_t i = 0; i < sizeof hops / sizeof hops[0] * 2; i++) {
        const int *hop = hops[i / 2];
        simulation *sim = small_fleet_create(
            &(simulation_options){.link = {.delay_us = 5 * MS}, .fleet.aim.stages = 3}, 4);
        small_fleet_submit(sim, 5, 100);
        simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
        network_block(simulation_network(sim), hop[0], hop[1], simulation_now_us(sim) + 30000 * MS);
        if (i % 2)
            network_block(simulation_network(sim), hop[1], hop[0],
                          simulation_now_us(sim) + 30000 * MS);
        assert_in_range(small_fleet_assert_finished(sim, 5), 1, 5000 * MS);
        assert_int_equal(chain_of(sim)->stage_count, 3);
        simulation_step_until(sim, simulation_now_us(sim) + 40000 * MS);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

static void without_a_way_around_a_hop_the_streams_end_cleanly(void **state) {
    (void)state;
    simulation *sim = create_without_spare();
    small_fleet_submit(sim, 3, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 300 * MS);
    int64_t cut_us = simulation_now_us(sim);
    network_block(simulation_network(sim), 1, 2, cut_us + 9000 * MS);
    assert_true(simulation_run_streams(sim, cut_us + 5050 * MS));
    assert_true(simulation_stream_at(sim, 0)->is_failed);
    simulation_step_until(sim, cut_us + 9000 * MS);
    simulation_wait_ready(sim, cut_us + 11000 * MS);
    simulation_destroy(sim);
}

/* The checksums find a flipped bit, and the replay repairs it. */
static void corruption_never_becomes_text(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        simulation *sim = small_fleet_create(
            &(simulation_options){.seed = seed, .link = {.delay_us = 5 * MS, .corruption = 0.004}},
            3);
        small_fleet_submit(sim, 5, 100);
        assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 200000 * MS));
        for (int i = 0; i < 5; i++)
            assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
        assert_int_equal(simulation_breaches(sim), 0);
        simulation_destroy(sim);
    }
}

/* A sequence that a worker refuses fails by itself; those that travelled with it go on. */
static void a_poisonous_sequence_fails_alone(void **state) {
    (void)state;
    simulation *sim = simulation_create(&(simulation_options){.link = {.delay_us = 5 * MS}});
    toy_worker_options workers[2] = {small_worker(0), small_worker(1)};
    workers[1].poison_token = 4999;
    simulation_add_worker(sim, &workers[0]);
    simulation_add_worker(sim, &workers[1]);
    simulation_wait_ready(sim, 10000 * MS);
    uint32_t prompt[30] = {1, 2, 3, 4999, 5};
    lh_sequence_request request = {.prompt = prompt,
                                   .prompt_tokens = 5,
                                   .max_tokens = 50,
                                   .sampling = {.top_p = 1, .repetition_penalty = 1}};
    int poisonous = simulation_submit_request(sim, &request, NULL);
    prompt[3] = 4;
    int others[3];
    for (int i = 0; i < 3; i++) {
        request.sampling.seed = (uint64_t)i;
        others[i] = simulation_submit_request(sim, &request, NULL);
    }
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 20000 * MS));
    assert_true(simulation_stream_at(sim, poisonous)->is_failed);
    assert_int_equal(simulation_stream_at(sim, poisonous)->status, LH_ERR_INTERNAL);
    for (int i = 0; i < 3; i++) {
        assert_true(simulation_stream_at(sim, others[i])->is_finished);
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, others[i])));
    }
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* The gateway dies and starts anew while workers keep their weights: three seconds, and a greater
 * epoch. */
static void a_restarted_gateway_finds_its_fleet(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
    small_fleet_submit(sim, 5, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
    uint32_t epoch = chain_of(sim)->epoch;
    simulation_restart_gateway(sim, 500 * MS);
    simulation_step_until(sim, simulation_now_us(sim) + 501 * MS);
    simulation_wait_ready(sim, simulation_now_us(sim) + 3000 * MS);
    assert_true(chain_of(sim)->epoch > epoch);
    for (int node = 1; node <= 3; node++)
        assert_int_equal(toy_worker_current_figures(simulation_worker(sim, node)).loads, 1);
    assert_int_equal(simulation_submit(sim, 100, 20, 1, NULL), 5);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 2000 * MS));
    assert_true(simulation_stream_at(sim, 5)->is_finished);
    assert_true(simulation_stream_is_true(simulation_stream_at(sim, 5)));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Asked to leave, it is replaced while it still serves. */
static void a_leaving_worker_is_let_go(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&(simulation_options){.link = {.delay_us = 5 * MS}}, 3);
    small_fleet_submit(sim, 5, 100);
    simulation_step_until(sim, simulation_now_us(sim) + 500 * MS);
    toy_worker_set_leaving(simulation_worker(sim, 2), true);
    simulation_step_until(sim, simulation_now_us(sim) + 2000 * MS);
    assert_int_equal(lh_chain_find(chain_of(sim), "b"), -1);
    toy_worker_kill(simulation_worker(sim, 2));
    assert_in_range(small_fleet_assert_finished(sim, 5), 0, 2500 * MS);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Who serves and who is a spare has changed since the first plan: a new gateway takes what it
 * finds, and nobody loads anything. */
static void a_restarted_gateway_takes_the_chain_that_is_there(void **state) {
    (void)state;
    for (int lost = 1; lost <= 3; lost++) {
        simulation *sim = small_fleet_create(
            &(simulation_options){.link = {.delay_us = 5 * MS}, .fleet.aim.stages = 3}, 4);
        toy_worker_kill(simulation_worker(sim, lost));
        small_fleet_pass(sim, 3000);
        toy_worker_start(simulation_worker(sim, lost));
        small_fleet_pass(sim, 3000);
        assert_int_equal(lh_chain_find(chain_of(sim), "d"), lost - 1);
        uint64_t loads[5];
        for (int node = 1; node <= 4; node++)
            loads[node] = toy_worker_current_figures(simulation_worker(sim, node)).loads;
        simulation_restart_gateway(sim, 500 * MS);
        small_fleet_pass(sim, 501);
        simulation_wait_ready(sim, simulation_now_us(sim) + 1000 * MS);
        assert_int_equal(lh_chain_find(chain_of(sim), "d"), lost - 1);
        small_fleet_pass(sim, 2000);
        for (int node = 1; node <= 4; node++)
            assert_int_equal(toy_worker_current_figures(simulation_worker(sim, node)).loads,
                             loads[node]);
        simulation_destroy(sim);
    }
}

/* One of its workers went away with the gateway: a spare takes that place, the others stay. */
static void a_restarted_gateway_fills_a_gap(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(
        &(simulation_options){.link = {.delay_us = 5 * MS}, .fleet.aim.stages = 3}, 4);
    toy_worker_kill(simulation_worker(sim, 2));
    simulation_restart_gateway(sim, 500 * MS);
    small_fleet_pass(sim, 501);
    simulation_wait_ready(sim, simulation_now_us(sim) + 6000 * MS);
    assert_int_equal(lh_chain_find(chain_of(sim), "d"), 1);
    assert_int_equal(toy_worker_current_figures(simulation_worker(sim, 1)).loads, 1);
    assert_int_equal(toy_worker_current_figures(simulation_worker(sim, 3)).loads, 1);
    simulation_destroy(sim);
}

static uint64_t rows_of(simulation *sim, int node) {
    return toy_worker_current_figures(simulation_worker(sim, node)).rows;
}

/* A spare takes a place: those after it have what they had, and compute what is new alone; it, and
 * those before it, the history, too. */
static void stages_after_a_new_one_keep_what_they_have(void **state) {
    (void)state;
    for (int lost = 1; lost <= 3; lost++) {
        simulation *sim = small_fleet_create(
            &(simulation_options){.link = {.delay_us = 5 * MS}, .fleet.aim.stages = 3}, 4);
        small_fleet_submit(sim, 5, 60);
        small_fleet_pass(sim, 600);
        uint64_t before[5];
        for (int node = 1; node <= 4; node++)
            before[node] = rows_of(sim, node);
        assert_true(before[3] > 40 + 57 + 74 + 91 + 108);
        toy_worker_kill(simulation_worker(sim, lost));
        assert_in_range(small_fleet_assert_finished(sim, 5), 0, 3500 * MS);
        assert_int_equal(lh_chain_find(chain_of(sim), "d"), lost - 1);
        for (int node = 1; node <= 3; node++) {
            if (node < lost)
                /* what it has had, and some more */
                assert_true(rows_of(sim, node) - before[node] > 370);
            if (node > lost)
                assert_true(rows_of(sim, node) - before[node] <= 5 * 60);
        }
        assert_true(rows_of(sim, 4) > 370);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restarted_worker_is_replayed),
        cmocka_unit_test(other_workers_take_over),
        cmocka_unit_test(a_spare_waits_until_it_is_needed),
        cmocka_unit_test(without_a_spare_the_streams_end_cleanly),
        cmocka_unit_test(a_spare_that_loads_for_long_is_waited_for),
        cmocka_unit_test(a_spare_whose_bytes_come_is_waited_for_longer),
        cmocka_unit_test(but_not_for_ever),
        cmocka_unit_test(the_time_to_an_error_counts_from_the_last_step),
        cmocka_unit_test(a_stalled_worker_is_replaced_and_comes_back_harmless),
        cmocka_unit_test(a_partitioned_worker_is_replaced),
        cmocka_unit_test(a_cut_hop_is_formed_again),
        cmocka_unit_test(a_hop_that_stays_down_is_avoided),
        cmocka_unit_test(without_a_way_around_a_hop_the_streams_end_cleanly),
        cmocka_unit_test(corruption_never_becomes_text),
        cmocka_unit_test(a_poisonous_sequence_fails_alone),
        cmocka_unit_test(a_restarted_gateway_finds_its_fleet),
        cmocka_unit_test(a_leaving_worker_is_let_go),
        cmocka_unit_test(a_restarted_gateway_takes_the_chain_that_is_there),
        cmocka_unit_test(a_restarted_gateway_fills_a_gap),
        cmocka_unit_test(stages_after_a_new_one_keep_what_they_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
