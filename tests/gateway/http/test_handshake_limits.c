/* How many handshakes an address may leave without a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/handshake_limits.h"

#include <stdlib.h>
#include <string.h>

#define SECOND 1000000
#define STOCK  512
#define NOW    (1000 * (int64_t)SECOND)

static lh_handshake_limits limits;

static int start(void **state) {
    (void)state;
    memset(&limits, 0, sizeof limits);
    return 0;
}

/* How many of so many that begin at this time may. */
static int begin(uint64_t address, int count, int64_t now_us) {
    int begun = 0;
    for (int i = 0; i < count; i++)
        begun += lh_handshake_limits_begin(&limits, address, now_us);
    return begun;
}

static void an_address_has_a_stock_that_comes_back(void **state) {
    (void)state;
    assert_int_equal(begin(1, 1000, NOW), STOCK);
    assert_int_equal(begin(2, 1, NOW), 1);
    assert_int_equal(begin(1, 100, NOW + SECOND), 8);
    assert_int_equal(begin(1, 100, NOW + SECOND), 0);
    assert_int_equal(begin(1, 1000, NOW + 1000 * (int64_t)SECOND), STOCK);
}

static void who_asks_is_not_limited(void **state) {
    (void)state;
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(begin(1, 1, NOW), 1);
        lh_handshake_limits_complete(&limits, 1, false, NOW);
    }
    assert_int_equal(begin(1, 1000, NOW), STOCK);
    lh_handshake_limits_complete(&limits, 1, false, NOW); /* gives back its own, and no more */
    assert_int_equal(begin(1, 1000, NOW), 1);
}

/* Nobody gathers more than a stock. */
static void a_stock_is_never_more_than_whole(void **state) {
    (void)state;
    assert_int_equal(begin(1, 1, NOW), 1);
    for (int i = 0; i < 5000; i++)
        lh_handshake_limits_complete(&limits, 1, false, NOW);
    assert_int_equal(begin(1, 1000, NOW), STOCK);
    lh_handshake_limits_complete(&limits, 3, true, NOW); /* of whom nothing is known */
    assert_int_equal(begin(3, 1000, NOW), STOCK);
}

static void an_address_with_a_key_is_free_for_a_while(void **state) {
    (void)state;
    assert_int_equal(begin(1, 1000, NOW), STOCK);
    lh_handshake_limits_complete(&limits, 1, true, NOW);
    assert_int_equal(begin(1, 5000, NOW + 599 * (int64_t)SECOND), 5000);
    assert_int_equal(begin(1, 5000, NOW + 600 * (int64_t)SECOND), STOCK);
}

/* Of more addresses than are known those are forgotten of whom there is least to know. */
static void the_last_addresses_are_known(void **state) {
    (void)state;
    assert_int_equal(begin(7, 1000, NOW), STOCK);
    lh_handshake_limits_complete(&limits, 7, true, NOW);
    for (uint64_t address = 1000; address < 101000; address++)
        assert_int_equal(begin(address, 1, NOW), 1);
    assert_int_equal(begin(7, 1000, NOW), 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_address_has_a_stock_that_comes_back, start),
        cmocka_unit_test_setup(who_asks_is_not_limited, start),
        cmocka_unit_test_setup(a_stock_is_never_more_than_whole, start),
        cmocka_unit_test_setup(an_address_with_a_key_is_free_for_a_while, start),
        cmocka_unit_test_setup(the_last_addresses_are_known, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
