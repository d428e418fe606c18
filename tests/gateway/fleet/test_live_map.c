/* A fleet as a map: who is in it, at which speed, over which links; and when it has become another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/gateway/support/measured_fleet.h"
#include "tests/gateway/support/worker_reports.h"

static const char *const a_b[] = {"a", "b"};
static const uint32_t halves[] = {0, 6};

static void create(measured_fleet *f) {
    measured_fleet_create(f);
    measured_fleet_add(f, "a", "east", 100);
    measured_fleet_add(f, "b", "west", 300);
    measured_fleet_serve(f, 2, a_b, halves);
}

static lh_live_map *map_of(const measured_fleet *f) {
    lh_live_map *live = malloc(sizeof *live);
    const lh_candidates candidates = measured_fleet_candidates(f);
    lh_error error;
    assert_non_null(live);
    assert_int_equal(lh_live_map_make(&f->options, &candidates, &f->planner.speeds, live, &error),
                     LH_OK);
    assert_int_equal(lh_fleet_map_check(&live->map, &error), LH_OK);
    return live;
}

static const lh_map_link *link_of(const lh_live_map *live, const char *from, const char *to) {
    uint32_t a = lh_fleet_map_find_site(&live->map, from),
             b = lh_fleet_map_find_site(&live->map, to);
    assert_true(a != UINT32_MAX && b != UINT32_MAX);
    return &live->map.links[a][b];
}

/* Of the model that is served alone, and within it. */
static void what_is_on_a_disk_is_in_the_map(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    f.reports[0].cached_count = 2;
    f.reports[0].cached[0] = (lh_cached_layers){"another", 1, {{0, 12}}};
    f.reports[0].cached[1] = (lh_cached_layers){"", 2, {{2, 4}, {9, 20}}};
    snprintf(f.reports[0].cached[1].model, LH_MODEL_DIGEST_BYTES, "%s", f.options.model_digest);
    register_report(f.registry, &f.reports[0], f.now_us);
    lh_live_map *live = map_of(&f);
    const lh_map_machine *a =
        &live->machines[lh_fleet_map_find_machine(&live->map, f.reports[0].name)];
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(lh_map_layer_set_has(&a->cached, i),
                         i == 2 || i == 3 || (i >= 9 && i < MEASURED_LAYERS));
    free(live);
    measured_fleet_destroy(&f);
}

static void machines_are_what_their_stages_measured(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    measured_fleet_add(&f, "unlike", "east", 100);
    f.reports[2].speed = (lh_machine_speed){0};
    register_report(f.registry, &f.reports[2], f.now_us);
    lh_live_map *live = map_of(&f);
    assert_int_equal(live->map.machine_count, 2); /* of the third nothing is known */
    const lh_map_machine *b = &live->machines[lh_fleet_map_find_machine(&live->map, "b")];
    assert_true(b->points[0].us == 300);
    assert_int_equal(b->held.first, 6);
    assert_int_equal(b->held.last, 12);
    assert_string_equal(live->map.sites[b->site], "west");
    assert_string_equal(live->map.sites[live->map.gateway_site], "home");
    lh_layout layout;
    assert_true(lh_live_map_layout(live, &f.chain, &layout));
    assert_int_equal(layout.stage_count, 2);
    assert_int_equal(layout.stages[1].layers.first, 6);
    f.chain.stages[0].instance = 2; /* another process */
    assert_false(lh_live_map_layout(live, &f.chain, &layout));
    free(live);
    measured_fleet_destroy(&f);
}

static void links_are_what_the_matrix_knows(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    const lh_link_value fast = {.bytes_per_us = 50, .round_trip_us = 10 * MS, .rate_at_us = 1},
                        bound = {.bytes_per_us = 1,
                                 .bytes_per_us_is_bound = true,
                                 .round_trip_us = 8 * MS,
                                 .rate_at_us = 1};
    lh_link_matrix_note(f.links, "east", "west", &fast, f.now_us);
    lh_link_matrix_note(f.links, "west", "home", &bound, f.now_us);
    lh_live_map *live = map_of(&f);
    assert_true(link_of(live, "east", "west")->bytes_per_us == 50);
    assert_true(link_of(live, "east", "west")->delay_us == 5 * MS);
    assert_true(link_of(live, "west", "home")->bytes_per_us == 12.5); /* at least 1: not known */
    assert_true(link_of(live, "home", "west")->delay_us == 4 * MS);   /* as the other way */
    assert_true(link_of(live, "home", "west")->bytes_per_us == 12.5);
    assert_true(link_of(live, "home", "east")->bytes_per_us == 0); /* nobody has measured it */
    assert_true(link_of(live, "east", "east")->bytes_per_us == 125);
    free(live);
    measured_fleet_destroy(&f);
}

static void a_gateway_without_a_site_has_a_place(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    f.options.origin.site = "";
    const lh_link_value value = {.bytes_per_us = 50, .round_trip_us = 10 * MS, .rate_at_us = 1};
    lh_link_matrix_note(f.links, "", "east", &value, f.now_us);
    lh_live_map *live = map_of(&f);
    assert_string_equal(live->map.sites[live->map.gateway_site], "gateway");
    assert_true(link_of(live, "gateway", "east")->bytes_per_us == 50);
    free(live);
    measured_fleet_destroy(&f);
}

static bool has_drifted(const measured_fleet *f, const lh_live_map *before) {
    lh_live_map *now = map_of(f);
    bool drifted = lh_live_map_has_drifted(now, before);
    free(now);
    return drifted;
}

static void drift_is_more_than_a_tenth(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    measured_fleet_link_all(&f);
    lh_live_map *before = map_of(&f);
    f.layer_us[1] = 320;
    measured_fleet_report(&f);
    measured_fleet_link(&f, "east", "west", 120, 2 * MS);
    assert_false(has_drifted(&f, before));
    measured_fleet_link(&f, "east", "west", 120, 3 * MS);
    assert_true(has_drifted(&f, before));
    measured_fleet_link(&f, "east", "west", 60, 2 * MS);
    assert_true(has_drifted(&f, before));
    measured_fleet_link_all(&f);
    assert_false(has_drifted(&f, before));
    f.layer_us[1] = 340;
    measured_fleet_report(&f);
    assert_true(has_drifted(&f, before));
    f.layer_us[1] = 300;
    measured_fleet_report(&f);
    measured_fleet_add(&f, "c", "east", 100);
    assert_true(has_drifted(&f, before));
    free(before);
    measured_fleet_destroy(&f);
}

/* Every candidate, by what machines said at their start; every way, by a class. */
static void what_is_not_measured_is_assumed(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "east", 100);
    measured_fleet_add(&f, "b", "west", 300);
    const lh_link_value fast = {.bytes_per_us = 50, .round_trip_us = 10 * MS, .rate_at_us = 1};
    lh_link_matrix_note(f.links, "east", "west", &fast, f.now_us);
    lh_live_map *live = malloc(sizeof *live);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    lh_error error;
    assert_non_null(live);
    assert_int_equal(lh_live_map_assume(&f.options, &candidates, &f.planner.speeds, live, &error),
                     LH_OK);
    assert_int_equal(lh_fleet_map_check(&live->map, &error), LH_OK);
    assert_int_equal(live->map.machine_count, 2);
    assert_string_equal(live->machines[1].name, "b");
    assert_true(live->machines[0].points[0].us == 50 && live->machines[1].points[0].us == 150);
    assert_true(link_of(live, "east", "west")->bytes_per_us == 50);
    assert_true(link_of(live, "home", "east")->bytes_per_us == 12.5);
    assert_true(link_of(live, "home", "east")->delay_us == 10 * MS);
    assert_true(link_of(live, "west", "home")->delay_us == 10 * MS);
    const lh_candidates nobody = {0};
    assert_int_equal(lh_live_map_assume(&f.options, &nobody, &f.planner.speeds, live, &error),
                     LH_ERR_UNAVAILABLE);
    free(live);
    measured_fleet_destroy(&f);
}

/* Behind a relay is a place of its own in what is assumed, too. */
static void what_is_assumed_has_relays(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "east", 100);
    measured_fleet_add(&f, "b", "east", 100);
    f.reports[0].relays = f.reports[1].is_behind_relay = true;
    f.reports[0].reach_count = 1;
    f.reports[0].reaches[0] =
        (lh_relay_reach){.name = "b", .hop = {.present = true, .connected = true}};
    register_report(f.registry, &f.reports[1], f.now_us);
    assert_int_equal(lh_relays_create(3000 * MS, &f.options.origin.relays, NULL), LH_OK);
    lh_relays_note(f.options.origin.relays, &f.reports[0], f.now_us);
    const lh_link_value fast = {.bytes_per_us = 50, .round_trip_us = 10 * MS, .rate_at_us = 1};
    lh_link_matrix_note(f.links, "home", "east", &fast, f.now_us);
    lh_live_map *live = malloc(sizeof *live);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    lh_error error;
    assert_non_null(live);
    assert_int_equal(lh_live_map_assume(&f.options, &candidates, &f.planner.speeds, live, &error),
                     LH_OK);
    assert_string_equal(live->map.sites[live->machines[1].site], "east.via.a");
    assert_true(link_of(live, "home", "east.via.a")->bytes_per_us == 50);
    assert_true(link_of(live, "home", "east.via.a")->delay_us >
                link_of(live, "home", "east")->delay_us);
    assert_true(link_of(live, "east", "east.via.a")->delay_us < 1 * MS);
    free(live);
    lh_relays_destroy(f.options.origin.relays);
    measured_fleet_destroy(&f);
}

/* What stages have measured counts more than what machines said at their start. */
static void what_is_measured_is_not_assumed(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    lh_live_map *live = malloc(sizeof *live);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    lh_error error;
    assert_non_null(live);
    assert_int_equal(lh_live_map_assume(&f.options, &candidates, &f.planner.speeds, live, &error),
                     LH_OK);
    assert_true(live->machines[1].points[0].us == 300);
    free(live);
    measured_fleet_destroy(&f);
}

static void without_measurements_there_is_no_map(void **state) {
    (void)state;
    measured_fleet f;
    lh_error error;
    create(&f);
    lh_live_map *live = malloc(sizeof *live);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    static const lh_stage_speeds nothing;
    assert_non_null(live);
    assert_int_equal(lh_live_map_make(&f.options, &candidates, &nothing, live, &error),
                     LH_ERR_UNAVAILABLE);
    free(live);
    measured_fleet_destroy(&f);
}

/* b is behind relay r of its site: the way to it has both legs, the way from it has one. */
static void through_a_relay_both_legs_count(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    lh_worker_report relay = report_of("r"), *behind = &f.reports[1];
    assert_int_equal(lh_relays_create(INT64_C(3600000000), &f.options.origin.relays, NULL), LH_OK);
    snprintf(relay.site, sizeof relay.site, "west");
    relay.relays = true;
    relay.reach_count = 1;
    relay.reaches[0] = (lh_relay_reach){.name = "b", .hop = {.present = true, .connected = true}};
    lh_relays_note(f.options.origin.relays, &relay, f.now_us);
    behind->is_behind_relay = true;
    register_report(f.registry, behind, f.now_us);
    measured_fleet_link(&f, "east", "west", 100, 20 * MS);
    measured_fleet_link(&f, "home", "west", 100, 10 * MS);
    measured_fleet_link(&f, "west", "west", 50, 2 * MS);
    lh_live_map *live = map_of(&f), *before = live;
    assert_true(link_of(live, "east", "west.via.r")->bytes_per_us == 50);
    assert_true(link_of(live, "east", "west.via.r")->delay_us == 11 * MS);
    assert_true(link_of(live, "home", "west.via.r")->delay_us == 6 * MS);
    assert_true(link_of(live, "west.via.r", "east")->bytes_per_us == 100);
    assert_true(link_of(live, "west.via.r", "east")->delay_us == 10 * MS);
    assert_true(link_of(live, "west.via.r", "west.via.r")->bytes_per_us == 50);
    assert_true(link_of(live, "west.via.r", "west.via.r")->delay_us == 1 * MS);
    behind->is_behind_relay = false;
    register_report(f.registry, behind, f.now_us);
    live = map_of(&f);
    assert_true(link_of(live, "east", "west")->delay_us == 10 * MS);
    assert_true(lh_live_map_has_drifted(live, before));
    free(before);
    free(live);
    lh_relays_destroy(f.options.origin.relays);
    measured_fleet_destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_on_a_disk_is_in_the_map),
        cmocka_unit_test(machines_are_what_their_stages_measured),
        cmocka_unit_test(links_are_what_the_matrix_knows),
        cmocka_unit_test(a_gateway_without_a_site_has_a_place),
        cmocka_unit_test(drift_is_more_than_a_tenth),
        cmocka_unit_test(what_is_not_measured_is_assumed),
        cmocka_unit_test(what_is_assumed_has_relays),
        cmocka_unit_test(what_is_measured_is_not_assumed),
        cmocka_unit_test(without_measurements_there_is_no_map),
        cmocka_unit_test(through_a_relay_both_legs_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
