#include "common/net/connection_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MEMBER = 7, STRANGER = 1000 /* and on */ };

/* Adds a new one; whoever has to go goes. */
static lh_connection_place *come(lh_connection_places *places, lh_connection_place *place,
                                 uint64_t address) {
    lh_connection_places_add(places, place, address);
    lh_connection_place *surplus = lh_connection_places_surplus(places, place);
    if (surplus)
        lh_connection_places_remove(places, surplus);
    return surplus;
}

static lh_connection_place *prove(lh_connection_places *places, lh_connection_place *place) {
    lh_connection_places_prove(places, place);
    lh_connection_place *surplus = lh_connection_places_surplus(places, place);
    if (surplus)
        lh_connection_places_remove(places, surplus);
    return surplus;
}

static void there_is_room_until_all_are_taken(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place a, b, c, d;
    lh_connection_places_init(&places, 2, 2);
    assert_null(come(&places, &a, 1));
    assert_null(come(&places, &b, 1));
    assert_null(prove(&places, &a)); /* its place is another one now */
    assert_null(come(&places, &c, 1));
    assert_ptr_equal(come(&places, &d, 1), &b);
    lh_connection_places_remove(&places, &a);
    assert_int_equal(places.proven_count, 0);
    assert_int_equal(places.new_count, 2);
}

/* Silent strangers from one address or from many: whoever said a word stays. */
static void the_oldest_silent_one_goes(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place member, strangers[300];
    for (int from_many = 0; from_many < 2; from_many++) {
        lh_connection_places_init(&places, 64, 64);
        assert_null(come(&places, &member, MEMBER));
        member.is_active = true;
        for (int i = 0; i < 300; i++)
            assert_ptr_equal(come(&places, &strangers[i], STRANGER + (uint64_t)(from_many ? i : 0)),
                             i < 63 ? NULL : &strangers[i - 63]);
        assert_null(prove(&places, &member));
    }
}

/* Those who talk, and never come to an end. */
static void who_has_most_goes_among_those_that_talk(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place others[4], crowd[4], last;
    lh_connection_places_init(&places, 8, 8);
    for (uint64_t i = 0; i < 4; i++) {
        come(&places, &others[i], i);
        come(&places, &crowd[i], STRANGER);
        others[i].is_active = crowd[i].is_active = true;
    }
    assert_ptr_equal(come(&places, &last, 9), &crowd[0]);
}

static void where_somebody_proved_himself_others_may_do_so_too(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place first, again, strangers[8];
    lh_connection_places_init(&places, 4, 4);
    come(&places, &first, MEMBER);
    prove(&places, &first);
    lh_connection_places_remove(&places, &first); /* it restarts */
    come(&places, &again, MEMBER);
    again.is_active = true;
    for (uint64_t i = 0; i < 8; i++) {
        come(&places, &strangers[i], STRANGER + i);
        strangers[i].is_active = true;
    }
    assert_true(places.new_count == 4);
    assert_null(prove(&places, &again));
}

static void the_last_places_go_to_who_asks_for_something(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place idle, busy, served, newcomer, late, other;
    lh_connection_places_init(&places, 8, 3);
    come(&places, &busy, 1);
    come(&places, &served, 1);
    come(&places, &idle, 2);
    prove(&places, &busy);
    prove(&places, &served);
    prove(&places, &idle);
    busy.is_active = busy.is_busy = served.is_active = true;
    come(&places, &newcomer, 3);
    assert_ptr_equal(prove(&places, &newcomer), &idle); /* it never made a request */
    newcomer.is_active = true;
    come(&places, &late, 3);
    assert_ptr_equal(prove(&places, &late), &late); /* its address has as many as any */
    come(&places, &other, 4);
    assert_ptr_equal(prove(&places, &other), &served);
    assert_int_equal(places.proven_count, 3);
}

static void the_oldest_known_addresses_are_forgotten(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place member, stranger, newcomer;
    lh_connection_places_init(&places, 2, 2);
    for (uint64_t address = 0; address <= LH_KNOWN_ADDRESSES; address++) {
        come(&places, &member, address);
        prove(&places, &member);
        lh_connection_places_remove(&places, &member);
    }
    assert_int_equal(places.known_count, LH_KNOWN_ADDRESSES);
    come(&places, &stranger, LH_KNOWN_ADDRESSES);
    come(&places, &member, 0); /* forgotten: goes first though it is younger */
    assert_ptr_equal(come(&places, &newcomer, STRANGER), &member);
}

/* ---- Turns ---- */

static void turns_go_to_who_waits_longest(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place a, b, c;
    lh_connection_places_init(&places, 8, 8);
    assert_null(lh_connection_places_take_turn(&places));
    come(&places, &a, 1);
    come(&places, &b, 2);
    come(&places, &c, 3);
    assert_null(lh_connection_places_take_turn(&places)); /* nobody has said a word */
    lh_connection_places_wait(&places, &c);
    lh_connection_places_wait(&places, &a);
    lh_connection_places_wait(&places, &b);
    assert_ptr_equal(lh_connection_places_take_turn(&places), &c);
    assert_ptr_equal(lh_connection_places_take_turn(&places), &a);
    lh_connection_places_remove(&places, &b);
    assert_null(lh_connection_places_take_turn(&places));
}

/* Whoever has begun does not wait for all that only begin. */
static void who_has_begun_has_every_other_turn(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place begun, crowd[4];
    lh_connection_places_init(&places, 16, 16);
    come(&places, &begun, STRANGER);
    lh_connection_places_wait(&places, &begun);
    assert_ptr_equal(lh_connection_places_take_turn(&places), &begun);
    for (int i = 0; i < 4; i++) {
        come(&places, &crowd[i], STRANGER);
        lh_connection_places_wait(&places, &crowd[i]);
    }
    for (int i = 0; i < 3; i++) {
        lh_connection_places_wait(&places, &begun);
        assert_ptr_equal(lh_connection_places_take_turn(&places), &begun);
        assert_ptr_equal(lh_connection_places_take_turn(&places), &crowd[i]);
    }
}

/* A crowd of strangers does not keep a member out that comes again, nor one that has proven itself
 * a member that is new. */
static void known_addresses_and_others_have_every_other_turn(void **state) {
    (void)state;
    lh_connection_places places;
    lh_connection_place member, known[3], strangers[3];
    lh_connection_places_init(&places, 16, 16);
    come(&places, &member, MEMBER);
    prove(&places, &member);
    for (int i = 0; i < 3; i++) {
        come(&places, &strangers[i], STRANGER);
        lh_connection_places_wait(&places, &strangers[i]);
    }
    for (int i = 0; i < 3; i++) {
        come(&places, &known[i], MEMBER);
        lh_connection_places_wait(&places, &known[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(lh_connection_places_take_turn(&places), &known[i]);
        assert_ptr_equal(lh_connection_places_take_turn(&places), &strangers[i]);
    }
    assert_null(lh_connection_places_take_turn(&places));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_room_until_all_are_taken),
        cmocka_unit_test(the_oldest_silent_one_goes),
        cmocka_unit_test(who_has_most_goes_among_those_that_talk),
        cmocka_unit_test(where_somebody_proved_himself_others_may_do_so_too),
        cmocka_unit_test(the_last_places_go_to_who_asks_for_something),
        cmocka_unit_test(the_oldest_known_addresses_are_forgotten),
        cmocka_unit_test(turns_go_to_who_waits_longest),
        cmocka_unit_test(who_has_begun_has_every_other_turn),
        cmocka_unit_test(known_addresses_and_others_have_every_other_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
