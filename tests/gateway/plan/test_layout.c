/* What a layout sends, loads and has room for. */
#include "gateway/plan/layout.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB UINT64_C(1048576)

/* Ten layers of 10 MiB, an embedding of 3 and a head of 5; 100 MB/s from the gateway. */
static void make_map(lh_fleet_map *map, lh_map_machine *machines, uint32_t count) {
    *map = (lh_fleet_map){
        .model = {.layers = 10, .width = 64, .embedding_bytes = 3 * MIB, .head_bytes = 5 * MIB},
        .site_count = 1,
        .sites = {"home"},
        .machines = machines,
        .machine_count = count};
    map->links[0][0] = (lh_map_link){100, 50};
    for (uint32_t i = 0; i < 10; i++)
        map->model.layer_bytes[i] = map->model.row_bytes[i] = 10 * MIB;
    for (uint32_t m = 0; m < count; m++) {
        machines[m] =
            (lh_map_machine){.memory_bytes = 1000 * MIB, .point_count = 1, .points = {{1, 10}}};
        snprintf(machines[m].name, sizeof machines[m].name, "m%u", m);
    }
}

static void what_is_on_the_disk_is_not_sent(void **state) {
    lh_map_machine machines[1];
    lh_fleet_map map;
    const lh_layout_stage all = {0, {0, 10}}, middle = {0, {2, 8}};
    (void)state;
    make_map(&map, machines, 1);
    assert_int_equal(lh_layout_moved_bytes(&map, &all), 108 * MIB);
    machines[0].held = (lh_map_layers){2, 6};
    assert_int_equal(lh_layout_moved_bytes(&map, &all), 68 * MIB);
    lh_map_layer_set_add(&machines[0].cached, (lh_map_layers){5, 9}); /* one is held as well */
    assert_int_equal(lh_layout_moved_bytes(&map, &all), 38 * MIB);
    assert_int_equal(lh_layout_moved_bytes(&map, &middle), 0);
    lh_map_layer_set_add(&machines[0].cached, (lh_map_layers){0, 1}); /* with the embedding */
    assert_int_equal(lh_layout_moved_bytes(&map, &all), 25 * MIB);
    lh_map_layer_set_add(&machines[0].cached, (lh_map_layers){9, 10}); /* with the head */
    assert_int_equal(lh_layout_moved_bytes(&map, &all), 10 * MIB);
}

/* But for the very stage that is in its memory. */
static void what_is_on_the_disk_is_loaded(void **state) {
    lh_map_machine machines[1];
    lh_fleet_map map;
    const lh_layout_stage held = {0, {2, 6}}, shorter = {0, {2, 5}};
    (void)state;
    make_map(&map, machines, 1);
    machines[0].held = held.layers;
    assert_int_equal(lh_layout_loaded_bytes(&map, &held), 0);
    assert_int_equal(lh_layout_loaded_bytes(&map, &shorter), 30 * MIB);
}

static double loading_us(const lh_fleet_map *map) {
    const lh_layout layout = {2, {{0, {0, 5}}, {1, {5, 10}}}};
    return lh_layout_loading_us(map, &layout);
}

static void all_load_at_once(void **state) {
    lh_map_machine machines[2];
    lh_fleet_map map;
    (void)state;
    make_map(&map, machines, 2);
    const double sent_us = 55.0 * MIB / 100; /* of the one with the head */
    double us = loading_us(&map);
    assert_true(us > sent_us && us < 1.5 * sent_us);
    lh_map_layer_set_add(&machines[1].cached, (lh_map_layers){5, 10});
    assert_true(loading_us(&map) < us && loading_us(&map) > 53.0 * MIB / 100);
    lh_map_layer_set_add(&machines[0].cached, (lh_map_layers){0, 5});
    assert_true(loading_us(&map) < sent_us / 3 && loading_us(&map) > 0);
    machines[0].held = (lh_map_layers){0, 5};
    machines[1].held = (lh_map_layers){5, 10};
    assert_true(loading_us(&map) == 0);
}

/* Of a page of 64 positions a layer keeps a MiB; what a plan wants is no matter for what stands. */
static void a_stage_needs_room_for_a_page(void **state) {
    lh_map_machine machines[2];
    lh_fleet_map map;
    const lh_layout layout = {2, {{0, {0, 5}}, {1, {5, 10}}}};
    (void)state;
    make_map(&map, machines, 2);
    assert_int_equal(lh_layout_kv_pages(&map, &layout), UINT32_MAX);
    map.model.kv = (lh_kv_need){.position_bytes = MIB / 64, .pages = 4};
    machines[0].kv_bytes = 15 * MIB;
    machines[1].kv_bytes = 5 * MIB;
    assert_true(lh_layout_is_sound(&layout, &map));
    assert_int_equal(lh_layout_kv_pages(&map, &layout), 1);
    assert_false(lh_layout_stage_fits(&map.model, &map.machines[layout.stages[0].machine],
                                      layout.stages[0].layers, &map.model.kv));
    assert_true(
        lh_layout_stage_fits(&map.model, &map.machines[0], (lh_map_layers){0, 3}, &map.model.kv));
    machines[1].kv_bytes--;
    assert_false(lh_layout_is_sound(&layout, &map));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_on_the_disk_is_not_sent),
        cmocka_unit_test(what_is_on_the_disk_is_loaded),
        cmocka_unit_test(all_load_at_once),
        cmocka_unit_test(a_stage_needs_room_for_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
