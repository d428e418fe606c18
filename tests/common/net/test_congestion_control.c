#include "common/net/congestion_control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int open_with(const char *name) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(descriptor >= 0);
    assert_true(lh_congestion_control_set(descriptor, name));
    return descriptor;
}

static void assert_name(int descriptor, const char *expected) {
    char name[16] = "";
    socklen_t length = sizeof name;
    assert_int_equal(getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    assert_string_equal(name, expected);
}

static void the_systems_own_choice_is_always_there(void **state) {
    (void)state;
    assert_int_equal(lh_congestion_control_check("", NULL), LH_OK);
    assert_int_equal(lh_congestion_control_check("reno", NULL), LH_OK); /* in every kernel */
}

static void an_unknown_one_is_refused_with_those_that_there_are(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(lh_congestion_control_check("longhaul", &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "'longhaul'"));
    assert_non_null(strstr(error.message, "reno"));
    assert_int_equal(
        lh_congestion_control_check("a-name-that-is-much-too-long-for-the-kernel", &error),
        LH_ERR_INVALID);
}

static void only_cubic_is_replaced_while_a_window_opens(void **state) {
    (void)state;
    int descriptor = open_with("reno");
    assert_false(lh_congestion_control_begin_opening(descriptor));
    assert_name(descriptor, "reno");
    if (lh_congestion_control_set(descriptor, "cubic")) {
        assert_true(lh_congestion_control_begin_opening(descriptor));
        assert_name(descriptor, "reno");
        lh_congestion_control_end_opening(descriptor);
        assert_name(descriptor, "cubic");
    }
    close(descriptor);
    assert_false(lh_congestion_control_begin_opening(descriptor));
}

/* What the kernel does to a window is the setting's, but for "bbr", which keeps it. */
static void an_idle_window_goes_as_the_kernel_is_set(void **state) {
    (void)state;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "r");
    int digit = file ? fgetc(file) : '1';
    if (file)
        fclose(file);
    int descriptor = open_with("reno");
    assert_int_equal(lh_congestion_control_decays(descriptor), digit != '0');
    if (lh_congestion_control_set(descriptor, "bbr"))
        assert_false(lh_congestion_control_decays(descriptor));
    close(descriptor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_own_choice_is_always_there),
        cmocka_unit_test(an_unknown_one_is_refused_with_those_that_there_are),
        cmocka_unit_test(only_cubic_is_replaced_while_a_window_opens),
        cmocka_unit_test(an_idle_window_goes_as_the_kernel_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
