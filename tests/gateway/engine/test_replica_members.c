/* The places of workers over time: the deal, newcomers, a move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/replica_members.h"
#include "gateway/fleet/registry.h"
#include "tests/support/log_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000
#define NONE   LH_REPLICA_NONE

static const lh_model_profile model = {
    .layers = 12, .layer_bytes = {[0 ... 11] = 100}, .row_bytes = {[0 ... 11] = 100}};

static lh_replica_members *make_members(uint32_t expected) {
    const lh_fleet_options fleet = {.chain_name = "main",
                                    .workers_expected = expected,
                                    .model = &model,
                                    .plan_delay_us = SECOND,
                                    .lease_us = 5 * SECOND};
    lh_replica_members *members;
    assert_int_equal(lh_replica_members_create(2, &fleet, 0, &members, NULL), LH_OK);
    return members;
}

/* Each holds half of the model, but for one that is told otherwise. */
static lh_replica_place note_with(lh_replica_members *members, const char *name, uint64_t memory,
                                  bool leaving, int64_t now_us) {
    lh_worker_report report = {.site = "s",
                               .threads = 4,
                               .memory_bytes = memory,
                               .speed = {0.25, 1.5},
                               .leaving = leaving};
    snprintf(report.name, sizeof report.name, "%s", name);
    lh_replica_place place;
    assert_int_equal(lh_replica_members_note(members, &report, now_us, &place, NULL), LH_OK);
    return place;
}

static lh_replica_place note(lh_replica_members *members, const char *name, int64_t now_us) {
    return note_with(members, name, 700, false, now_us);
}

static void nobody_is_dealt_before_all_are_there(void **state) {
    (void)state;
    lh_replica_members *members = make_members(4);
    assert_int_equal(note(members, "a", 0).replica, NONE);
    assert_int_equal(note(members, "b", 0).replica, NONE);
    assert_int_equal(note(members, "c", 2 * SECOND).replica, NONE);
    assert_int_equal(note(members, "a", 7 * SECOND / 2).replica, NONE); /* stable, but not all */
    assert_int_equal(note(members, "d", 7 * SECOND / 2).replica, 1);
    assert_int_equal(note(members, "a", 7 * SECOND / 2).replica, 0);
    assert_int_equal(note(members, "b", 7 * SECOND / 2).replica, 0);
    assert_int_equal(note(members, "c", 7 * SECOND / 2).replica, 1);
    lh_replica_members_destroy(members);
}

/* Chains have the names in the log that they have everywhere. */
static void the_log_calls_chains_by_their_names(void **state) {
    (void)state;
    lh_replica_members *members = make_members(2);
    log_capture_begin();
    note(members, "a", 0);
    note(members, "b", 2 * SECOND);
    note(members, "a", 2 * SECOND);
    note_with(members, "c", 1300, false, 2 * SECOND);
    char *log = log_capture_end();
    lh_replica_members_destroy(members);
    assert_non_null(strstr(log, "worker is dealt worker=a chain=main\n"));
    assert_non_null(strstr(log, "worker joins a chain worker=c chain=main-2\n"));
    free(log);
}

static void without_a_number_they_are_dealt_when_no_more_come(void **state) {
    (void)state;
    lh_replica_members *members = make_members(0);
    assert_int_equal(note(members, "a", 0).replica, NONE);
    assert_int_equal(note(members, "b", SECOND / 2).replica, NONE);
    assert_int_equal(note(members, "a", SECOND).replica, NONE); /* b is new for half a second */
    assert_int_equal(note(members, "a", 3 * SECOND / 2).replica, 0);
    lh_replica_members_destroy(members);
}

/* The first chain loses a worker; a spare of the second one comes to it, once it may. */
static void a_move_is_over_when_the_old_chain_lets_go(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    lh_replica_members *members = make_members(5);
    lh_replica_place places[5];
    int64_t now_us = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++)
            places[i] = note(members, names[i], now_us);
    uint32_t counts[2] = {0};
    for (int i = 0; i < 5; i++)
        counts[places[i].replica]++;
    uint32_t poor = counts[0] < counts[1] ? 0 : 1;
    int lost = 0, moves = -1;
    while (places[lost].replica != poor)
        lost++;
    note_with(members, names[lost], 700, true, now_us);
    for (int i = 0; i < 5; i++) /* it may just be restarting */
        assert_true(i == lost || note(members, names[i], SECOND / 2).moving_to == NONE);
    for (now_us = SECOND; moves < 0 && now_us < 4 * SECOND; now_us += SECOND)
        for (int i = 0; i < 5; i++)
            if (i != lost && note(members, names[i], now_us).moving_to != NONE)
                moves = i;
    assert_true(moves >= 0);
    lh_replica_place place = note(members, names[moves], now_us);
    assert_int_equal(place.replica, 1 - poor);
    assert_int_equal(place.moving_to, poor);
    lh_replica_members_moved(members, names[moves]);
    place = note(members, names[moves], now_us);
    assert_int_equal(place.replica, poor);
    assert_int_equal(place.moving_to, NONE);
    lh_replica_members_moved(members, names[moves]); /* says nothing new */
    assert_int_equal(note(members, names[moves], now_us).replica, poor);
    lh_replica_members_destroy(members);
}

static void only_a_worker_whose_lease_is_over_gives_its_place_away(void **state) {
    (void)state;
    lh_replica_members *members = make_members(LH_WORKERS_MAX + 1);
    char name[16];
    for (uint32_t i = 0; i < LH_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w-%u", i);
        note(members, name, i == 7 ? 0 : SECOND);
    }
    lh_worker_report late = {.name = "late", .site = "s", .threads = 4, .memory_bytes = 700};
    lh_replica_place place;
    lh_error error;
    assert_int_equal(lh_replica_members_note(members, &late, 5 * SECOND - 1, &place, &error),
                     LH_ERR_LIMIT);
    assert_int_equal(lh_replica_members_note(members, &late, 5 * SECOND, &place, NULL), LH_OK);
    snprintf(late.name, sizeof late.name, "later");
    assert_int_equal(lh_replica_members_note(members, &late, 5 * SECOND, &place, &error),
                     LH_ERR_LIMIT);
    lh_replica_members_destroy(members);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_dealt_before_all_are_there),
        cmocka_unit_test(the_log_calls_chains_by_their_names),
        cmocka_unit_test(without_a_number_they_are_dealt_when_no_more_come),
        cmocka_unit_test(a_move_is_over_when_the_old_chain_lets_go),
        cmocka_unit_test(only_a_worker_whose_lease_is_over_gives_its_place_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
