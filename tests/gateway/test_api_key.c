/* Who is let in. */
#include "gateway/api_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void admits_the_key_alone(void **state) {
    (void)state;
    lh_api_key key;
    assert_int_equal(lh_api_key_init(&key, "secret"), LH_OK);
    assert_true(lh_api_key_admits(&key, "Bearer secret"));
    assert_true(lh_api_key_admits(&key, "bearer  secret"));
    static const char *const wrong[] = {NULL,
                                        "",
                                        "secret",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer secre",
                                        "Basic secret",
                                        "Bearer secret ",
                                        "Bearer Secret",
                                        "Bearer secretx"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(lh_api_key_admits(&key, wrong[i]));
}

static void admits_all_without_a_key(void **state) {
    (void)state;
    lh_api_key key;
    assert_int_equal(lh_api_key_init(&key, ""), LH_OK);
    assert_true(lh_api_key_admits(&key, NULL));
    assert_int_equal(lh_api_key_init(&key, NULL), LH_OK);
    assert_true(lh_api_key_admits(&key, "Bearer x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admits_the_key_alone),
        cmocka_unit_test(admits_all_without_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
