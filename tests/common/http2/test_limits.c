/* The defaults that limits.h promises, and what a program's options change of them. */
#include "common/http2/limits.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void defaults_are_as_promised(void **state) {
    (void)state;
    const lh_h2_limits limits = lh_h2_default_limits();
    assert_int_equal(limits.window_bytes, 16 << 20);
    assert_int_equal(limits.streams_max, 256);
    assert_int_equal(limits.connections_max, 64);
    assert_int_equal(limits.header_bytes_max, 16 << 10);
    assert_int_equal(limits.ping_interval_ms, 500);
    assert_int_equal(limits.dead_after_ms, 2000);
    assert_int_equal(limits.connect_timeout_ms, 3000);
    assert_int_equal(limits.renew_after, 1u << 29);
    assert_int_equal(limits.probe_percent, 0);
    assert_int_equal(limits.probe_bytes_max, 8 << 20);
    assert_string_equal(limits.congestion_control, "");
}

static void options_say_what_a_link_may_be_used_for(void **state) {
    (void)state;
    const lh_program_options options = {.hop_probe_budget = 3, .congestion_control = "reno"};
    const lh_h2_limits limits = lh_h2_limits_of_program(&options);
    assert_int_equal(limits.probe_percent, 3);
    assert_string_equal(limits.congestion_control, "reno");
    assert_int_equal(limits.window_bytes, 16 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_as_promised),
        cmocka_unit_test(options_say_what_a_link_may_be_used_for),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
