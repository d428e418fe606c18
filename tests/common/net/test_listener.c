/* Addresses as people write them. */
#include "common/net/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void refuses_malformed_addresses(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",      "localhost", "8080",         "127.0.0.1:", "127.0.0.1:x",     "::1:80",
        "[::1]", "[::1:80",   "127.0.0.1:-1", "a:80:80",    "127.0.0.1:123456"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int fd;
        uint16_t port;
        lh_error error;
        assert_int_equal(lh_listener_open(wrong[i], &fd, &port, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "HOST:PORT"));
    }
}

static void listens_on_a_free_port(void **state) {
    (void)state;
    int fd, second;
    uint16_t port, other;
    lh_error error;
    assert_int_equal(lh_listener_open("127.0.0.1:0", &fd, &port, &error), LH_OK);
    assert_true(port > 0);
    char taken[32];
    snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
    assert_int_equal(lh_listener_open(taken, &second, &other, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, taken));
    close(fd);
    assert_int_equal(lh_listener_open(taken, &second, &other, &error), LH_OK);
    assert_int_equal(other, port);
    close(second);
    assert_int_equal(lh_listener_open(":0", &second, &other, &error), LH_OK);
    close(second);
}

static void knows_whether_only_this_machine_reaches_it(void **state) {
    (void)state;
    static const struct {
        const char *address;
        bool is_loopback;
    } cases[] = {{"127.0.0.1:0", true}, {"127.9.9.9:0", true}, {"0.0.0.0:0", false}, {":0", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd;
        uint16_t port;
        lh_error error;
        assert_int_equal(lh_listener_open(cases[i].address, &fd, &port, &error), LH_OK);
        assert_int_equal(lh_listener_is_loopback(fd), cases[i].is_loopback);
        close(fd);
    }
}

static void tells_what_cannot_be_resolved(void **state) {
    (void)state;
    int fd;
    uint16_t port;
    lh_error error;
    assert_int_equal(lh_listener_open("999.1.1.1:80", &fd, &port, &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "999.1.1.1:80"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_malformed_addresses),
        cmocka_unit_test(listens_on_a_free_port),
        cmocka_unit_test(knows_whether_only_this_machine_reaches_it),
        cmocka_unit_test(tells_what_cannot_be_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
