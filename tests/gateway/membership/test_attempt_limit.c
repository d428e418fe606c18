/* Ten wrong secrets in a minute, and no more. */
#include "gateway/membership/attempt_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND_US INT64_C(1000000)

static void an_address_waits_for_the_rest_of_its_minute(void **state) {
    (void)state;
    lh_attempt_limit limit = {0};
    for (int i = 0; i < 10; i++) {
        assert_true(lh_attempt_limit_allows(&limit, 1, i * SECOND_US));
        lh_attempt_limit_note(&limit, 1, i * SECOND_US);
    }
    assert_false(lh_attempt_limit_allows(&limit, 1, 10 * SECOND_US));
    assert_true(lh_attempt_limit_allows(&limit, 2, 10 * SECOND_US));
    assert_false(lh_attempt_limit_allows(&limit, 1, 59 * SECOND_US));
    assert_true(lh_attempt_limit_allows(&limit, 1, 60 * SECOND_US));
    lh_attempt_limit_note(&limit, 1, 60 * SECOND_US);
    assert_true(lh_attempt_limit_allows(&limit, 1, 61 * SECOND_US));
}

/* Those that began the longest ago go first. */
static void the_table_does_not_grow(void **state) {
    (void)state;
    lh_attempt_limit limit = {0};
    for (int i = 0; i < 10; i++)
        lh_attempt_limit_note(&limit, 1, SECOND_US);
    for (unsigned i = 0; i < LH_ATTEMPT_LIMIT_ADDRESSES - 1; i++)
        lh_attempt_limit_note(&limit, 100 + i, 2 * SECOND_US);
    assert_false(lh_attempt_limit_allows(&limit, 1, 3 * SECOND_US));
    lh_attempt_limit_note(&limit, 99, 3 * SECOND_US);
    assert_true(lh_attempt_limit_allows(&limit, 1, 3 * SECOND_US));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_waits_for_the_rest_of_its_minute),
        cmocka_unit_test(the_table_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
