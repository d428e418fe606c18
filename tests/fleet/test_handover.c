/* The chain changes because somebody wants to: a worker leaves, or another one has come. The next
 * chain is prepared while this one serves, so that nobody waits for weights. */
#include <stddef.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"

#include <string.h>

/* Between the end of an epoch and the first token of the next: a report of each worker,
 * connections, the replay at 10 rows a millisecond. Loading takes 300 ms and does not show. */
#define TELL_MAX_US (170 * MS)
#define ROW_US      100

static const simulation_options near = {.link = {.delay_us = 5 * MS}};

static const lh_fleet *fleet_of(simulation *sim) {
    return lh_chain_controller_fleet(simulation_controller(sim));
}

static const lh_chain *chain_of(simulation *sim) {
    return lh_fleet_chain(fleet_of(sim));
}

/* As if every token of all of them had been replayed. */
static int64_t pause_max_us(simulation *sim, int count) {
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += simulation_stream_at(sim, i)->prompt_tokens + simulation_stream_at(sim, i)->count;
    return TELL_MAX_US + rows * ROW_US;
}

static uint64_t waits(simulation *sim) {
    uint64_t sum = 0;
    for (int node = 1; simulation_worker(sim, node); node++)
        sum += toy_worker_current_figures(simulation_worker(sim, node)).waits;
    return sum;
}

static void leave(simulation *sim, int node) {
    toy_worker_set_leaving(simulation_worker(sim, node), true);
}

static void wait_for_successor(simulation *sim) {
    const char *cause;
    int64_t limit_us = simulation_now_us(sim) + 1000 * MS;
    while (!lh_fleet_successor(fleet_of(sim), &cause) && simulation_now_us(sim) < limit_us)
        small_fleet_pass(sim, 10);
    assert_non_null(lh_fleet_successor(fleet_of(sim), &cause));
}

static bool is_alive(simulation *sim, int node) {
    return toy_worker_is_alive(simulation_worker(sim, node));
}

/* Workers whose memory holds so much of the model's 13,000 bytes. */
static simulation *create_with_memory(int workers, uint64_t memory_bytes,
                                      const simulation_options *options) {
    simulation *sim = simulation_create(options);
    for (int i = 0; i < workers; i++) {
        toy_worker_options worker = small_worker(i);
        worker.memory_bytes = memory_bytes;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    small_fleet_pass(sim, 1000);
    return sim;
}

/* ---- Leaving ---- */

static void a_leaving_worker_hands_over_what_it_holds(void **state) {
    (void)state;
    for (int node = 1; node <= 3; node++) {
        simulation *sim = small_fleet_create(&near, 3);
        small_fleet_submit(sim, 5, 200);
        small_fleet_pass(sim, 500);
        uint64_t before = waits(sim);
        leave(sim, node);
        wait_for_successor(sim);
        assert_int_equal(chain_of(sim)->stage_count, 3);
        assert_true(is_alive(sim, node));
        small_fleet_pass(sim, 1400);
        assert_int_equal(chain_of(sim)->stage_count, 2);
        assert_false(is_alive(sim, node));
        int64_t longest_us = small_fleet_assert_finished(sim, 5);
        assert_in_range(longest_us, 0, pause_max_us(sim, 5));
        assert_int_equal(waits(sim), before);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* Every worker in turn, under load, twice: the promise to operators. */
static void every_worker_can_be_restarted_under_load(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&near, 3);
    small_fleet_submit(sim, 5, 1500);
    for (int turn = 0; turn < 6; turn++) {
        int node = 1 + turn % 3;
        small_fleet_pass(sim, 700);
        leave(sim, node);
        for (int ms = 0; ms < 5000 && is_alive(sim, node); ms += 10)
            small_fleet_pass(sim, 10);
        assert_false(is_alive(sim, node));
        toy_worker_start(simulation_worker(sim, node));
    }
    int64_t longest_us = small_fleet_assert_finished(sim, 5);
    assert_in_range(longest_us, 0, pause_max_us(sim, 5));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* The others go on with the stages that they have. */
static void a_spare_takes_the_very_place(void **state) {
    (void)state;
    simulation_options options = near;
    options.fleet.aim.stages = 3;
    simulation *sim = small_fleet_create(&options, 4);
    small_fleet_submit(sim, 5, 200);
    small_fleet_pass(sim, 500);
    lh_chain before = *chain_of(sim);
    assert_int_equal(lh_chain_find(&before, "d"), -1);
    leave(sim, 1);
    int64_t longest_us = small_fleet_assert_finished(sim, 5);
    assert_in_range(longest_us, 0, pause_max_us(sim, 5));
    assert_string_equal(chain_of(sim)->stages[0].name, "d");
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(chain_of(sim)->stages[i].first_layer, before.stages[i].first_layer);
    for (int node = 2; node <= 4; node++)
        assert_int_equal(toy_worker_current_figures(simulation_worker(sim, node)).loads, 1);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Also where it is gone without a word: only the spare loads. */
static void a_spare_takes_the_very_place_of_one_that_died(void **state) {
    (void)state;
    simulation_options options = near;
    options.fleet.aim.stages = 3;
    simulation *sim = small_fleet_create(&options, 4);
    small_fleet_submit(sim, 5, 200);
    small_fleet_pass(sim, 500);
    toy_worker_kill(simulation_worker(sim, 2));
    assert_in_range(small_fleet_assert_finished(sim, 5), 300 * MS, 3500 * MS);
    assert_string_equal(chain_of(sim)->stages[1].name, "d");
    assert_int_equal(toy_worker_current_figures(simulation_worker(sim, 1)).loads, 1);
    assert_int_equal(toy_worker_current_figures(simulation_worker(sim, 3)).loads, 1);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Two stages do not fit: the weights are fetched beforehand (150 of 300 ms), loading is the pause;
 * it is still asked first. */
static void where_memory_holds_one_stage_it_is_loaded_in_the_pause(void **state) {
    (void)state;
    simulation *sim = create_with_memory(3, 8000, &near);
    small_fleet_submit(sim, 5, 200);
    small_fleet_pass(sim, 500);
    leave(sim, 2);
    assert_in_range(small_fleet_assert_finished(sim, 5), 300 * MS, 700 * MS);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    assert_false(is_alive(sim, 2));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Nobody can: it stays as long as it is needed, and is told why; then it goes, and new sequences
 * are refused. */
static void where_nobody_can_take_over_it_stays_while_it_is_needed(void **state) {
    (void)state;
    simulation *sim = create_with_memory(2, 7000, &near);
    small_fleet_submit(sim, 3, 200);
    small_fleet_pass(sim, 300);
    leave(sim, 2);
    small_fleet_pass(sim, 2000);
    assert_true(is_alive(sim, 2));
    assert_in_range(small_fleet_assert_finished(sim, 3), 0, 100 * MS);
    small_fleet_pass(sim, 2000);
    assert_false(is_alive(sim, 2));
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_NONE);
    assert_non_null(strstr(lh_fleet_reason(fleet_of(sim)), "no split fits"));
    toy_worker_start(simulation_worker(sim, 2));
    simulation_wait_ready(sim, simulation_now_us(sim) + 4000 * MS);
    simulation_destroy(sim);
}

/* One that was to take over dies while it loads: the next plan does without it, too. */
static void a_successor_that_loses_a_worker_is_planned_anew(void **state) {
    (void)state;
    simulation_options options = near;
    options.fleet.aim.stages = 2;
    simulation *sim = small_fleet_create(&options, 4);
    small_fleet_submit(sim, 5, 400);
    small_fleet_pass(sim, 500);
    leave(sim, 1);
    wait_for_successor(sim);
    toy_worker_kill(simulation_worker(sim, 3)); /* c, which is first among the spares */
    int64_t longest_us = small_fleet_assert_finished(sim, 5);
    assert_in_range(longest_us, 0, pause_max_us(sim, 5));
    assert_string_equal(chain_of(sim)->stages[0].name, "d");
    assert_false(is_alive(sim, 1));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* The one that leaves does not wait for the others: what they load is used all the same. */
static void one_that_goes_too_soon_costs_what_is_left_to_load(void **state) {
    (void)state;
    for (int after_ms = 0; after_ms < 1200; after_ms += 60) {
        simulation *sim = small_fleet_create(&near, 3);
        small_fleet_submit(sim, 5, 200);
        small_fleet_pass(sim, 500);
        leave(sim, 2);
        small_fleet_pass(sim, after_ms);
        toy_worker_kill(simulation_worker(sim, 2));
        assert_in_range(small_fleet_assert_finished(sim, 5), 0, 3500 * MS);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* ---- Growing ---- */

static simulation_options growing(void) {
    simulation_options options = near;
    options.fleet.rebalance_delay_us = 10000 * MS;
    return options;
}

/* 2 workers become 3: after ten seconds, without a pause for loading, once. */
static void one_that_has_come_is_used_when_it_has_stayed(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = small_fleet_create(&options, 2);
    small_fleet_submit(sim, 5, 3000);
    toy_worker_options third = small_worker(2);
    simulation_add_worker(sim, &third);
    uint32_t epoch = chain_of(sim)->epoch;
    small_fleet_pass(sim, 9900);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    small_fleet_pass(sim, 2000);
    assert_int_equal(chain_of(sim)->stage_count, 3);
    int64_t longest_us = small_fleet_assert_finished(sim, 5);
    assert_in_range(longest_us, 0, pause_max_us(sim, 5));
    epoch = chain_of(sim)->epoch;
    small_fleet_pass(sim, 200000);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* 5 workers become 6: three layers are the slowest stage before and two after, a third less; 6 and
 * 7: the same either way. */
static void one_with_which_nothing_becomes_faster_changes_nothing(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = small_fleet_create(&options, 6);
    assert_int_equal(chain_of(sim)->stage_count, 6);
    toy_worker_options seventh = small_worker(6);
    simulation_add_worker(sim, &seventh);
    uint32_t epoch = chain_of(sim)->epoch;
    small_fleet_pass(sim, 100000);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    simulation_destroy(sim);
}

/* A stall ejects one of three; it comes back, and after a while the chain has three again. */
static void one_that_comes_back_after_a_stall_is_used_again(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = small_fleet_create(&options, 3);
    small_fleet_submit(sim, 5, 2000);
    small_fleet_pass(sim, 500);
    network_stall(simulation_network(sim), 2, simulation_now_us(sim) + 4000 * MS);
    small_fleet_pass(sim, 5000);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    small_fleet_pass(sim, 9000);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    small_fleet_pass(sim, 4000);
    assert_int_equal(chain_of(sim)->stage_count, 3);
    small_fleet_assert_finished(sim, 5);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* One that stalls again and again is taken back at most once a minute, then less often. */
static void one_that_comes_and_goes_is_taken_back_ever_more_seldom(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = small_fleet_create(&options, 3);
    int taken_back = 0, first_ten_minutes = 0;
    bool was_whole = true;
    for (int second = 0; second < 3600; second++) {
        small_fleet_pass(sim, 1000);
        bool is_whole = chain_of(sim)->stage_count == 3;
        taken_back += is_whole && !was_whole;
        if (is_whole)
            network_stall(simulation_network(sim), 2, simulation_now_us(sim) + 4000 * MS);
        was_whole = is_whole;
        if (second == 600)
            first_ten_minutes = taken_back;
    }
    assert_in_range(first_ten_minutes, 2, 5);
    assert_in_range(taken_back - first_ten_minutes, 2, 6);
    simulation_destroy(sim);
}

static void switched_off_a_spare_waits(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&near, 2);
    toy_worker_options third = small_worker(2);
    simulation_add_worker(sim, &third);
    small_fleet_pass(sim, 100000);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    simulation_destroy(sim);
}

/* Growing would cost a pause for loading, as memory holds no two stages: only while nobody asks
 * anything. */
static void where_memory_holds_one_stage_it_grows_when_it_is_idle(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = create_with_memory(2, 8000, &options);
    toy_worker_options third = small_worker(2);
    third.memory_bytes = 8000;
    simulation_add_worker(sim, &third);
    small_fleet_submit(sim, 3, 2500);
    small_fleet_pass(sim, 20000);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    assert_in_range(small_fleet_assert_finished(sim, 3), 0, 100 * MS);
    small_fleet_pass(sim, 3000);
    assert_int_equal(chain_of(sim)->stage_count, 3);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* ---- Teams ---- */

static void add_joining(simulation *sim, int index) {
    toy_worker_options worker = small_worker(index);
    worker.joins = true;
    simulation_add_worker(sim, &worker);
}

/* So many compute each stage together, as far as they are so many. */
static simulation *create_teams(uint32_t size, int workers, const simulation_options *from) {
    simulation_options options = *from;
    options.fleet.teams.size = size;
    simulation *sim = simulation_create(&options);
    lh_log_set_level(LH_LOG_ERROR);
    for (int i = 0; i < workers; i++)
        add_joining(sim, i);
    simulation_wait_ready(sim, 10000 * MS);
    small_fleet_pass(sim, 1000);
    return sim;
}

static uint32_t followers(simulation *sim) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < chain_of(sim)->stage_count; i++)
        count += chain_of(sim)->stages[i].team.follower_count;
    return count;
}

/* Of a+b and c: one that leads, one that follows, one that is alone. */
static void a_member_that_leaves_hands_over_its_part(void **state) {
    (void)state;
    for (int node = 1; node <= 3; node++) {
        simulation *sim = create_teams(2, 3, &near);
        assert_int_equal(chain_of(sim)->stage_count, 2);
        small_fleet_submit(sim, 5, 200);
        small_fleet_pass(sim, 500);
        uint64_t before = waits(sim);
        leave(sim, node);
        wait_for_successor(sim);
        assert_true(is_alive(sim, node));
        small_fleet_pass(sim, 1400);
        assert_int_equal(chain_of(sim)->stage_count, 1);
        assert_int_equal(followers(sim), 1);
        assert_false(is_alive(sim, node));
        int64_t longest_us = small_fleet_assert_finished(sim, 5);
        assert_in_range(longest_us, 0, pause_max_us(sim, 5));
        assert_int_equal(waits(sim), before);
        simulation_destroy(sim);
    }
}

static void every_member_can_be_restarted_under_load(void **state) {
    (void)state;
    simulation_options options = near;
    options.fleet.rebalance_delay_us = 1000 * MS;
    simulation *sim = create_teams(2, 4, &options);
    small_fleet_submit(sim, 5, 2500);
    for (int turn = 0; turn < 8; turn++) {
        int node = 1 + turn % 4;
        small_fleet_pass(sim, 700);
        leave(sim, node);
        for (int ms = 0; ms < 5000 && is_alive(sim, node); ms += 10)
            small_fleet_pass(sim, 10);
        assert_false(is_alive(sim, node));
        toy_worker_start(simulation_worker(sim, node));
    }
    int64_t longest_us = small_fleet_assert_finished(sim, 5);
    assert_in_range(longest_us, 0, pause_max_us(sim, 5));
    simulation_destroy(sim);
}

/* Also where it is of the successor that is being prepared. */
static void a_member_that_dies_meanwhile_is_done_without(void **state) {
    (void)state;
    for (int node = 1; node <= 3; node++) {
        simulation *sim = create_teams(2, 4, &near);
        small_fleet_submit(sim, 5, 200);
        small_fleet_pass(sim, 500);
        leave(sim, 4);
        wait_for_successor(sim);
        toy_worker_kill(simulation_worker(sim, node));
        small_fleet_pass(sim, 8000);
        assert_false(is_alive(sim, 4));
        small_fleet_assert_finished(sim, 5);
        simulation_destroy(sim);
    }
}

/* Two, one behind the other, become a team of three. */
static void one_that_has_come_is_taken_into_a_team(void **state) {
    (void)state;
    simulation_options options = growing();
    simulation *sim = create_teams(3, 2, &options);
    assert_int_equal(chain_of(sim)->stage_count, 2);
    small_fleet_submit(sim, 3, 2500);
    add_joining(sim, 2);
    uint64_t before = waits(sim);
    small_fleet_pass(sim, 14000);
    assert_int_equal(chain_of(sim)->stage_count, 1);
    assert_int_equal(followers(sim), 2);
    int64_t longest_us = small_fleet_assert_finished(sim, 3);
    assert_in_range(longest_us, 0, pause_max_us(sim, 3));
    assert_int_equal(waits(sim), before);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaving_worker_hands_over_what_it_holds),
        cmocka_unit_test(every_worker_can_be_restarted_under_load),
        cmocka_unit_test(a_spare_takes_the_very_place),
        cmocka_unit_test(a_spare_takes_the_very_place_of_one_that_died),
        cmocka_unit_test(where_memory_holds_one_stage_it_is_loaded_in_the_pause),
        cmocka_unit_test(where_nobody_can_take_over_it_stays_while_it_is_needed),
        cmocka_unit_test(a_successor_that_loses_a_worker_is_planned_anew),
        cmocka_unit_test(one_that_goes_too_soon_costs_what_is_left_to_load),
        cmocka_unit_test(one_that_has_come_is_used_when_it_has_stayed),
        cmocka_unit_test(one_with_which_nothing_becomes_faster_changes_nothing),
        cmocka_unit_test(one_that_comes_back_after_a_stall_is_used_again),
        cmocka_unit_test(one_that_comes_and_goes_is_taken_back_ever_more_seldom),
        cmocka_unit_test(switched_off_a_spare_waits),
        cmocka_unit_test(where_memory_holds_one_stage_it_grows_when_it_is_idle),
        cmocka_unit_test(a_member_that_leaves_hands_over_its_part),
        cmocka_unit_test(every_member_can_be_restarted_under_load),
        cmocka_unit_test(a_member_that_dies_meanwhile_is_done_without),
        cmocka_unit_test(one_that_has_come_is_taken_into_a_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
