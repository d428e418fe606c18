/* Addresses at which somebody listens, nobody does, or that nobody knows. */
#include "common/net/reach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A socket of 127.0.0.1 whose port is *port. */
static int open_socket(int *port) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&any, &length), 0);
    *port = ntohs(any.sin_port);
    return descriptor;
}

static void who_listens_is_reached_by_name_and_address(void **state) {
    (void)state;
    lh_address address = {.host = "127.0.0.1"};
    char reached[LH_ADDRESS_TEXT_BYTES], expected[LH_ADDRESS_TEXT_BYTES];
    int descriptor = open_socket(&address.port);
    assert_int_equal(listen(descriptor, 8), 0);
    snprintf(expected, sizeof expected, "127.0.0.1:%d", address.port);
    assert_int_equal(lh_reach_try(&address, 5000, reached, NULL), LH_OK);
    assert_string_equal(reached, expected);
    strcpy(address.host, "localhost");
    assert_int_equal(lh_reach_try(&address, 5000, reached, NULL), LH_OK);
    assert_string_equal(reached, expected);
    close(descriptor);
}

/* Bound, but nobody listens: the port is nobody else's meanwhile. */
static void who_does_not_listen_is_named(void **state) {
    (void)state;
    lh_address address = {.host = "127.0.0.1"};
    char reached[LH_ADDRESS_TEXT_BYTES], expected[LH_ADDRESS_TEXT_BYTES + 32];
    lh_error error;
    int descriptor = open_socket(&address.port);
    assert_int_equal(lh_reach_try(&address, 5000, reached, &error), LH_ERR_UNAVAILABLE);
    snprintf(expected, sizeof expected, "127.0.0.1:%d: Connection refused", address.port);
    assert_string_equal(error.message, expected);
    close(descriptor);
}

static void a_name_that_nobody_has_is_said(void **state) {
    (void)state;
    const lh_address address = {.host = "nobody.invalid", .port = 7100};
    char reached[LH_ADDRESS_TEXT_BYTES];
    lh_error error;
    assert_int_equal(lh_reach_try(&address, 5000, reached, &error), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "nobody.invalid"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_listens_is_reached_by_name_and_address),
        cmocka_unit_test(who_does_not_listen_is_named),
        cmocka_unit_test(a_name_that_nobody_has_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
