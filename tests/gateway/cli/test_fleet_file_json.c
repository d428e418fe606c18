/* The file of a fleet: what it says, and each way in which it may be wrong. */
#include "gateway/cli/fleet_file_json.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "\"model\": {\"layers\": 4, \"width\": 64, \"layer_bytes\": 1000, \"head_bytes\": 70"
#define SITES "\"gateway\": {\"site\": \"a\"}, \"sites\": [{\"name\": \"a\"}, {\"name\": \"b\"}]"
#define SPEED "\"memory_bytes\": 9000, \"speed\": {\"prompt_us\": 1, \"token_us\": 6}"

static const char sound[] =
    "{" MODEL
    ", \"others\": [{\"layers\": \"1-2\", \"layer_bytes\": 3000, \"row_bytes\": 500}]}," SITES
    ", \"links\": [{\"from\": \"a\", \"to\": \"b\", \"rate_mbps\": 80, \"rate_back_mbps\": 8,"
    " \"round_trip_ms\": 30}],"
    "\"machines\": [{\"name\": \"x\", \"site\": \"b\", " SPEED ", \"count\": 3, \"held\": \"2-3\"},"
    "{\"name\": \"y\", \"site\": \"a\", \"memory_bytes\": 1, \"step_us\": 5, \"times\":"
    "[{\"rows\": 1, \"us\": 7.5}, {\"rows\": 64, \"us\": 70}]}]}";

static lh_status parse(const char *text, bool is_more, lh_fleet_map *map, lh_error *error) {
    return lh_fleet_file_parse("fleet.json", text, strlen(text), is_more, map, error);
}

static lh_fleet_map *new_map(void) {
    lh_fleet_map *map = calloc(1, sizeof *map);
    assert_non_null(map);
    return map;
}

static void free_map(lh_fleet_map *map) {
    lh_fleet_file_reset(map);
    free(map);
}

static void it_says_what_is_there(void **state) {
    lh_fleet_map *map = new_map();
    (void)state;
    assert_int_equal(parse(sound, false, map, NULL), LH_OK);
    assert_int_equal(lh_fleet_map_check(map, NULL), LH_OK);
    assert_int_equal(map->model.layers, 4);
    assert_int_equal(map->model.layer_bytes[0], 1000);
    assert_int_equal(map->model.layer_bytes[2], 3000);
    assert_int_equal(map->model.row_bytes[2], 500);
    assert_int_equal(map->model.row_bytes[3], 1000);
    assert_true(map->links[0][1].bytes_per_us == 10 && map->links[1][0].bytes_per_us == 1);
    assert_true(map->links[0][1].delay_us == 15000 && map->links[1][0].delay_us == 15000);
    assert_true(map->links[1][1].bytes_per_us == 125 && map->links[1][1].delay_us == 100);
    assert_int_equal(map->machine_count, 4);
    assert_string_equal(map->machines[2].name, "x3");
    assert_int_equal(map->machines[2].held.first, 2);
    assert_int_equal(map->machines[2].held.last, 4);
    assert_true(map->machines[2].points[0].us == 6 && map->machines[2].points[1].us == 512);
    assert_int_equal(map->machines[3].points[1].rows, 64);
    assert_true(map->machines[3].step_us == 5);
    free_map(map);
}

#define TWO                                                                                        \
    "{" MODEL ", \"gather_row_bytes\": 500, \"gathers\": 5}," SITES                                \
    ", \"machines\": [{\"name\": \"x\", \"site\": "                                                \
    "\"b\", " SPEED ", \"count\": 3, \"can_join\": true}], \"teams\": ["

static void it_says_who_computes_together(void **state) {
    lh_fleet_map *map = new_map();
    (void)state;
    assert_int_equal(parse(TWO "{\"members\": [\"x2\", \"x1\"], \"stands\": true},"
                               "{\"members\": [\"x1\", \"x3\"], \"step_us\": 4, \"times\": "
                               "[{\"rows\": 1, \"us\": 7.5}]}]}",
                           false, map, NULL),
                     LH_OK);
    assert_int_equal(lh_fleet_map_check(map, NULL), LH_OK);
    assert_int_equal(map->model.gather_row_bytes, 500);
    assert_int_equal(map->model.layer_gathers, 5);
    assert_true(map->machines[2].can_join);
    assert_int_equal(map->team_count, 2);
    assert_int_equal(map->teams[0].team.members[0], 1);
    assert_int_equal(map->teams[0].team.members[1], 0);
    assert_true(map->teams[0].stands && map->teams[0].measured.point_count == 0);
    assert_true(!map->teams[1].stands && map->teams[1].measured.points[0].us == 7.5);
    assert_true(map->teams[1].measured.step_us == 4);
    free_map(map);
}

#define KEPT_OF(kv, cached)                                                                        \
    "{" MODEL ", \"kv\": " kv "}," SITES                                                           \
    ", \"machines\": [{\"name\": \"x\", \"site\": \"b\", \"kv_bytes\": 4096, \"cached\": " cached  \
    ", " SPEED "}]}"

#define KEPT(kv) KEPT_OF(kv, "null")

static void it_says_what_is_kept_of_a_position(void **state) {
    lh_fleet_map *map = new_map();
    (void)state;
    assert_int_equal(parse(KEPT("{\"position_bytes\": 100, \"heads\": 3, \"positions\": 130}"),
                           false, map, NULL),
                     LH_OK);
    assert_int_equal(lh_fleet_map_check(map, NULL), LH_OK);
    assert_int_equal(map->model.kv.position_bytes, 100);
    assert_int_equal(map->model.kv.heads, 3);
    assert_int_equal(map->model.kv.pages, 3);
    assert_int_equal(map->machines[0].kv_bytes, 4096);
    map->model.kv.pages = LH_KV_NEED_PAGES_MAX + 1;
    assert_int_equal(lh_fleet_map_check(map, NULL), LH_ERR_INVALID);
    free_map(map);
    map = new_map();
    assert_int_equal(parse(KEPT("null"), false, map, NULL), LH_OK);
    assert_int_equal(map->model.kv.position_bytes, 0);
    free_map(map);
    map = new_map();
    assert_int_equal(parse(KEPT("{\"position_bytes\": 0}"), false, map, NULL), LH_ERR_INVALID);
    free_map(map);
}

static void it_says_what_is_on_a_disk(void **state) {
    static const char *const wrong[] = {"\"0-9\"", "\"2-1\"", "\"1;2\"", "3", "\"x\""};
    lh_fleet_map *map = new_map();
    (void)state;
    assert_int_equal(parse(KEPT_OF("null", "\"0-1,3\""), false, map, NULL), LH_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(lh_map_layer_set_has(&map->machines[0].cached, i), i != 2);
    free_map(map);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1024];
        lh_error error;
        map = new_map();
        snprintf(text, sizeof text, KEPT_OF("null", "%s"), wrong[i]);
        assert_int_equal(parse(text, false, map, &error), LH_ERR_INVALID);
        free_map(map);
    }
}

static void a_team_is_of_machines_that_are_there(void **state) {
    static const char *const wrong[] = {
        "{\"members\": [\"x1\", \"y\"]}]}",
        "{\"members\": [\"x1\", 3]}]}",
        "{\"members\": \"x1\"}]}",
        "{}]}",
        "{\"members\": [\"x1\", \"a b\"]}]}",
        "{\"members\": [\"x1\", \"x2\"], \"stands\": 1}]}",
        "{\"members\": [\"x1\", \"x2\"], \"times\": [{\"rows\": 0, \"us\": 1}]}]}"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1024];
        lh_fleet_map *map = new_map();
        lh_error error;
        snprintf(text, sizeof text, "%s%s", TWO, wrong[i]);
        assert_int_equal(parse(text, false, map, &error), LH_ERR_INVALID);
        free_map(map);
    }
}

static void another_file_adds_to_it(void **state) {
    lh_fleet_map *map = new_map();
    (void)state;
    assert_int_equal(parse(sound, false, map, NULL), LH_OK);
    assert_int_equal(parse("{\"sites\": [{\"name\": \"c\"}], \"links\": [{\"from\": \"c\", \"to\": "
                           "\"a\", \"rate_mbps\": 8, \"round_trip_ms\": 2}], \"machines\": "
                           "[{\"name\": \"z\", \"site\": \"c\", " SPEED "}]}",
                           true, map, NULL),
                     LH_OK);
    assert_int_equal(map->site_count, 3);
    assert_int_equal(map->machine_count, 5);
    assert_int_equal(map->machines[4].site, 2);
    assert_true(map->links[2][0].bytes_per_us == 1);
    free_map(map);
}

/* The text, and what the message says. */
static void assert_refused(const char *text, lh_status wanted, const char *told) {
    lh_fleet_map *map = new_map();
    lh_error error = {0};
    lh_status status = parse(text, false, map, &error);
    if (status == LH_OK)
        status = lh_fleet_map_check(map, &error);
    if (status != wanted || !strstr(error.message, told))
        fail_msg("%s: %s, not %s", text, error.message, told);
    free_map(map);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    assert_refused("{", LH_ERR_MALFORMED, "fleet.json");
    assert_refused("{}", LH_ERR_INVALID, "model");
    assert_refused("{\"model\": {\"layers\": 1025}}", LH_ERR_INVALID, "model.layers");
    assert_refused("{" MODEL ", \"others\": [{\"layers\": \"3-4\", \"layer_bytes\": 1}]}}",
                   LH_ERR_INVALID, "0-3");
    assert_refused("{" MODEL ", \"row_bytes\": 1001}}", LH_ERR_INVALID, "model.row_bytes");
    assert_refused("{" MODEL "}, \"sites\": [{\"name\": \"a b\"}]}", LH_ERR_INVALID, "name");
    assert_refused("{" MODEL "}, \"sites\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
                   LH_ERR_INVALID, "no other site");
    assert_refused("{" MODEL "}, " SITES ", \"links\": [{\"from\": \"a\", \"to\": \"c\"}]}",
                   LH_ERR_INVALID, "to must be one of the sites");
    assert_refused("{" MODEL "}, " SITES ", \"links\": [{\"from\": \"a\", \"to\": \"a\", "
                   "\"rate_mbps\": 1, \"round_trip_ms\": 1}]}",
                   LH_ERR_INVALID, "another site");
    assert_refused("{" MODEL "}, " SITES ", \"machines\": [{\"name\": \"x\", \"site\": \"a\", "
                   "\"memory_bytes\": 1}]}",
                   LH_ERR_INVALID, "speed");
    assert_refused("{" MODEL "}, " SITES ", \"machines\": [{\"name\": \"x\", \"site\": \"a\", "
                   "\"memory_bytes\": 1, \"times\": [{\"rows\": 4, \"us\": 1}, {\"rows\": 4, "
                   "\"us\": 2}]}]}",
                   LH_ERR_INVALID, "ascend");
    assert_refused("{" MODEL "}, " SITES
                   ", \"machines\": [{\"name\": \"x\", \"site\": \"a\", " SPEED
                   "}, {\"name\": \"x\", \"site\": \"b\", " SPEED "}]}",
                   LH_ERR_INVALID, "two machines");
    assert_refused("{" MODEL "}, " SITES ", \"machines\": []}", LH_ERR_UNAVAILABLE, "no machine");
}

static void layers_are_read_strictly(void **state) {
    static const char *const wrong[] = {"",  "-",    "3-",   "-3",    "2-1",        "0-4",
                                        "4", "0-3x", "0 -3", "00001", "99999999999"};
    lh_map_layers layers;
    (void)state;
    assert_true(lh_fleet_file_parse_layers("0-3", 4, &layers));
    assert_true(layers.first == 0 && layers.last == 4);
    assert_true(lh_fleet_file_parse_layers("2", 4, &layers));
    assert_true(layers.first == 2 && layers.last == 3);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(lh_fleet_file_parse_layers(wrong[i], 4, &layers));
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_fleet_map *map = new_map();
        failing_malloc_arm(n);
        lh_status status = parse(sound, false, map, NULL);
        bool has_failed = failing_malloc_disarm();
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        free_map(map);
        if (!has_failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_is_there),
        cmocka_unit_test(it_says_who_computes_together),
        cmocka_unit_test(it_says_what_is_kept_of_a_position),
        cmocka_unit_test(it_says_what_is_on_a_disk),
        cmocka_unit_test(a_team_is_of_machines_that_are_there),
        cmocka_unit_test(another_file_adds_to_it),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(layers_are_read_strictly),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
