/* What owners hold, compared with a plain array while owners come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/holdings.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>

#define OWNERS 40

static void owners_come_and_go(void **state) {
    (void)state;
    lh_holdings holdings;
    uint64_t plain[OWNERS] = {0};
    uint64_t seed = 7;
    /* Numbers that are close together, and numbers that share their low or their high half. */
    static const uint64_t strides[] = {1, 1ull << 32, 0x0123456700000089ull};
    for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++) {
        assert_int_equal(lh_holdings_init(&holdings, OWNERS, NULL), LH_OK);
        for (int step = 0; step < 20000; step++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t owner = (seed >> 33) % OWNERS, amount = (seed >> 50) % 4;
            bool gives = seed >> 63;
            if (gives)
                lh_holdings_add(&holdings, owner * strides[s], amount);
            else
                lh_holdings_take(&holdings, owner * strides[s],
                                 amount = amount < plain[owner] ? amount : plain[owner]);
            plain[owner] = gives ? plain[owner] + amount : plain[owner] - amount;
            for (uint64_t i = 0; i < OWNERS; i++)
                assert_int_equal(lh_holdings_of(&holdings, i * strides[s]), plain[i]);
        }
        for (uint64_t i = 0; i < OWNERS; i++) {
            lh_holdings_take(&holdings, i * strides[s], plain[i]);
            plain[i] = 0;
        }
        assert_int_equal(holdings.owners, 0);
        lh_holdings_reset(&holdings);
    }
}

static void without_memory_there_are_none(void **state) {
    (void)state;
    lh_holdings holdings;
    failing_malloc_arm(1);
    assert_int_equal(lh_holdings_init(&holdings, OWNERS, NULL), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_come_and_go),
        cmocka_unit_test(without_memory_there_are_none),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
