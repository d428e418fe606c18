/* Names, and the address that faces another one. */
#include "common/net/route.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_address_resolves_to_itself(void **state) {
    (void)state;
    const lh_address address = {"192.0.2.7", 7100};
    lh_route_targets targets;
    char text[LH_ADDRESS_TEXT_BYTES];
    assert_int_equal(lh_route_resolve(&address, &targets, NULL), LH_OK);
    assert_int_equal(targets.count, 1);
    lh_address_render((struct sockaddr *)&targets.addresses[0], text);
    assert_string_equal(text, "192.0.2.7:7100");
}

static void a_name_that_is_none_is_named(void **state) {
    (void)state;
    const lh_address address = {"no such name.invalid", 7100};
    lh_route_targets targets;
    lh_error error;
    assert_int_equal(lh_route_resolve(&address, &targets, &error), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "no such name.invalid"));
}

static void loopback_faces_loopback(void **state) {
    (void)state;
    const lh_address address = {"127.0.0.9", 1};
    lh_route_targets targets;
    char host[LH_HOST_BYTES];
    assert_int_equal(lh_route_resolve(&address, &targets, NULL), LH_OK);
    assert_true(lh_route_own_host((struct sockaddr *)&targets.addresses[0], host));
    assert_string_equal(host, "127.0.0.1");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_address_resolves_to_itself),
                                       cmocka_unit_test(a_name_that_is_none_is_named),
                                       cmocka_unit_test(loopback_faces_loopback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
