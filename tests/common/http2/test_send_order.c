#include "common/http2/send_order.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct member {
    lh_send_place place; /* first: a place is its member */
    bool ready;
} member;

static bool is_ready(const lh_send_place *place) {
    return ((const member *)place)->ready;
}

static void picks(const lh_send_order *order, const member *expected) {
    assert_ptr_equal(lh_send_order_pick(order, is_ready), expected ? &expected->place : NULL);
}

static void class_0_goes_first_and_order_holds_within(void **state) {
    (void)state;
    lh_send_order order = {0};
    member bulk1 = {.ready = true}, bulk2 = {.ready = true}, urgent1 = {0},
           urgent2 = {.ready = true};
    picks(&order, NULL);
    lh_send_order_join(&order, &bulk1.place, 1);
    lh_send_order_join(&order, &bulk2.place, 1);
    picks(&order, &bulk1);
    lh_send_order_join(&order, &urgent1.place, 0);
    lh_send_order_join(&order, &urgent2.place, 0);
    picks(&order, &bulk1); /* the first urgent one has nothing to say, the second waits for it */
    urgent1.ready = true;
    picks(&order, &urgent1);
    lh_send_order_leave(&order, &urgent1.place);
    picks(&order, &urgent2);
    lh_send_order_leave(&order, &urgent2.place);
    bulk1.ready = false;
    picks(&order, NULL);
    lh_send_order_leave(&order, &bulk1.place);
    picks(&order, &bulk2);
}

static void any_place_may_leave_and_join_again(void **state) {
    (void)state;
    lh_send_order order = {0};
    member m[3] = {{.ready = true}, {.ready = true}, {.ready = true}};
    for (int i = 0; i < 3; i++)
        lh_send_order_join(&order, &m[i].place, 1);
    lh_send_order_leave(&order, &m[1].place);
    lh_send_order_leave(&order, &m[1].place); /* left already */
    lh_send_order_leave(&order, &m[2].place);
    picks(&order, &m[0]);
    lh_send_order_join(&order, &m[1].place, 1);
    lh_send_order_leave(&order, &m[0].place);
    picks(&order, &m[1]);
    lh_send_order_leave(&order, &m[1].place);
    picks(&order, NULL);
    assert_null(order.last[1]);
}

static void those_around_one_that_leaves_are_neighbours(void **state) {
    (void)state;
    lh_send_order order = {0};
    member m[3] = {{.ready = true}, {.ready = true}, {.ready = true}};
    for (int i = 0; i < 3; i++)
        lh_send_order_join(&order, &m[i].place, 1);
    lh_send_order_leave(&order, &m[1].place);
    lh_send_order_leave(&order, &m[0].place);
    picks(&order, &m[2]);
    lh_send_order_leave(&order, &m[2].place);
    picks(&order, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_0_goes_first_and_order_holds_within),
        cmocka_unit_test(any_place_may_leave_and_join_again),
        cmocka_unit_test(those_around_one_that_leaves_are_neighbours),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
