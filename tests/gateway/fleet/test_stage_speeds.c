/* What one machine's layers took says what others' would take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/measured_fleet.h"
#include "tests/gateway/support/worker_reports.h"

static const char *const a_b[] = {"a", "b"};
static const uint32_t at_0_4[] = {0, 4};

static lh_stage_speed speed_of(const measured_fleet *f, uint32_t worker) {
    lh_stage_speed speed;
    assert_true(lh_stage_speeds_find(&f->planner.speeds, &f->reports[worker], &speed));
    assert_string_equal(speed.worker, f->reports[worker].name);
    return speed;
}

static void a_stage_is_measured_for_each_mib(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_add(&f, "b", "home", 300);
    measured_fleet_serve(&f, 2, a_b, at_0_4);
    lh_stage_speed a = speed_of(&f, 0), b = speed_of(&f, 1);
    assert_true(a.points[0].us == 100 && a.points[1].us == 512 * 25);
    assert_true(b.points[0].us == 300 && b.points[1].us == 512 * 75);
    measured_fleet_destroy(&f);
}

/* Not by another one's epoch, not before it is ready, not where its meter says nothing. */
static void what_is_not_of_this_stage_does_not_count(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_serve(&f, 1, a_b, at_0_4);
    f.planner.speeds.count = 0;
    f.chain.epoch++;
    lh_live_planner_note(&f.planner, &f.chain, 0, f.registry, f.now_us);
    f.chain.epoch--;
    f.reports[0].compute.point_count = 0;
    register_report(f.registry, &f.reports[0], f.now_us);
    lh_live_planner_note(&f.planner, &f.chain, 0, f.registry, f.now_us);
    assert_int_equal(f.planner.speeds.count, 0);
    lh_stage_speed speed;
    assert_false(lh_stage_speeds_find(&f.planner.speeds, &f.reports[0], &speed));
    measured_fleet_destroy(&f);
}

/* By the one that it resembles; within a quarter it is taken for the same. */
static void a_spare_is_taken_for_one_like_it(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_add(&f, "b", "home", 1000);
    measured_fleet_serve(&f, 2, a_b, at_0_4);
    measured_fleet_add(&f, "same", "home", 115);
    measured_fleet_add(&f, "slower", "home", 2000);
    lh_stage_speed same = speed_of(&f, 2), slower = speed_of(&f, 3);
    assert_true(same.points[0].us == 100 && same.points[1].us == 512 * 25);
    assert_true(slower.points[0].us == 2000 && slower.points[1].us == 512 * 500);
    f.reports[2].speed.token_us = 0;
    assert_false(lh_stage_speeds_find(&f.planner.speeds, &f.reports[2], &same));
    measured_fleet_destroy(&f);
}

/* What a machine was stays known while it has no stage; when it has restarted it is what it is most
 * like, which is itself. */
static void a_machine_that_lost_its_stage_is_remembered(void **state) {
    (void)state;
    static const char *const b[] = {"b"};
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_add(&f, "b", "home", 100);
    f.layer_us[0] = 250; /* which its start did not show */
    measured_fleet_serve(&f, 2, a_b, at_0_4);
    measured_fleet_serve(&f, 1, b, at_0_4);
    assert_true(speed_of(&f, 0).points[0].us == 250);
    f.reports[0].instance = 2;
    assert_true(speed_of(&f, 0).points[0].us == 250);
    measured_fleet_destroy(&f);
}

/* As measured where it was last; elsewhere as many times that as the layers take. */
static void the_head_is_known_from_where_it_was(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_add(&f, "b", "home", 300);
    measured_fleet_serve(&f, 2, a_b, at_0_4);
    assert_true(speed_of(&f, 0).draw_us == 0 && speed_of(&f, 1).draw_us == 0);
    f.reports[1].compute.draw_us = 900;
    f.reports[1].compute.draw_more_us = 90;
    register_report(f.registry, &f.reports[1], f.now_us);
    lh_live_planner_note(&f.planner, &f.chain, 1, f.registry, f.now_us);
    assert_true(speed_of(&f, 1).draw_us == 900 && speed_of(&f, 1).draw_more_us == 90);
    assert_true(speed_of(&f, 0).draw_us == 300 && speed_of(&f, 0).draw_more_us == 30);
    measured_fleet_report(&f); /* another stage, without the head: what it was stays */
    assert_true(speed_of(&f, 1).draw_us == 900);
    measured_fleet_destroy(&f);
}

/* Neither says anything of the other. */
static void a_team_is_measured_for_itself(void **state) {
    (void)state;
    measured_fleet f;
    lh_stage_speed speed;
    const lh_stage_speeds *speeds = &f.planner.speeds;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    measured_fleet_add(&f, "b", "home", 100);
    measured_fleet_follow(&f, 0, "b");
    f.layer_us[0] = 60;
    measured_fleet_serve(&f, 1, a_b, at_0_4);
    assert_false(lh_stage_speeds_find(speeds, &f.reports[0], &speed));
    assert_false(lh_stage_speeds_find(speeds, &f.reports[1], &speed));
    assert_ptr_equal(lh_stage_speeds_with(speeds, "a"), lh_stage_speeds_with(speeds, "b"));
    assert_int_equal(lh_stage_speeds_with(speeds, "b")->follower_count, 1);
    assert_true(lh_stage_speeds_with(speeds, "b")->points[0].us == 60);
    measured_fleet_follow(&f, 0, NULL);
    f.layer_us[0] = 100;
    measured_fleet_serve(&f, 1, a_b, at_0_4);
    assert_true(speed_of(&f, 0).points[0].us == 100);
    assert_true(speed_of(&f, 1).points[0].us == 100); /* one like it */
    assert_true(lh_stage_speeds_with(speeds, "a")->points[0].us == 60);
    assert_null(lh_stage_speeds_with(speeds, "c"));
    measured_fleet_destroy(&f);
}

static void the_longest_unheard_gives_way(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 100);
    for (uint32_t i = 0; i < LH_STAGE_SPEEDS_MAX; i++)
        f.planner.speeds.speeds[i] = (lh_stage_speed){.noted_us = i == 7 ? 1 : 2 + i};
    f.planner.speeds.count = LH_STAGE_SPEEDS_MAX;
    measured_fleet_serve(&f, 1, a_b, at_0_4);
    assert_int_equal(f.planner.speeds.count, LH_STAGE_SPEEDS_MAX);
    assert_string_equal(f.planner.speeds.speeds[7].worker, "a");
    measured_fleet_destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_measured_for_each_mib),
        cmocka_unit_test(what_is_not_of_this_stage_does_not_count),
        cmocka_unit_test(a_spare_is_taken_for_one_like_it),
        cmocka_unit_test(a_machine_that_lost_its_stage_is_remembered),
        cmocka_unit_test(the_head_is_known_from_where_it_was),
        cmocka_unit_test(a_team_is_measured_for_itself),
        cmocka_unit_test(the_longest_unheard_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
