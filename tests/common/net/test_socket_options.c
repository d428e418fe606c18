#include "common/net/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int open_socket(void) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(descriptor >= 0);
    return descriptor;
}

static int read_option(int descriptor, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    assert_int_equal(getsockopt(descriptor, IPPROTO_TCP, name, &value, &length), 0);
    return value;
}

static void assert_congestion_control(int descriptor, const char *expected) {
    char name[16] = "";
    socklen_t length = sizeof name;
    assert_int_equal(getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    assert_string_equal(name, expected);
}

static void a_data_connection_gets_its_options(void **state) {
    (void)state;
    int descriptor = open_socket();
    assert_int_equal(lh_socket_set_options(descriptor, 3000, "reno", NULL), LH_OK);
    assert_int_equal(read_option(descriptor, TCP_NODELAY), 1);
    assert_int_equal(read_option(descriptor, TCP_USER_TIMEOUT), 3000);
    assert_int_equal(read_option(descriptor, TCP_NOTSENT_LOWAT), 32 << 10);
    assert_congestion_control(descriptor, "reno");
    lh_socket_set_unsent_max(descriptor, 5000);
    assert_int_equal(read_option(descriptor, TCP_NOTSENT_LOWAT), 5000);
    close(descriptor);
}

static void what_cannot_be_set_is_named(void **state) {
    (void)state;
    lh_error error;
    int descriptor = open_socket();
    assert_int_equal(lh_socket_set_options(descriptor, 3000, "longhaul", &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "longhaul"));
    close(descriptor);
    assert_int_equal(lh_socket_set_options(descriptor, 3000, "", &error), LH_ERR_IO);
    assert_non_null(strstr(error.message, "TCP_NODELAY"));
    assert_int_equal(lh_socket_unsent_bytes(descriptor), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_data_connection_gets_its_options),
        cmocka_unit_test(what_cannot_be_set_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
