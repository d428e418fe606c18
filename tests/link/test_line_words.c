/* A line's settings in words, and networks. */
#include "link/line_words.h"

#include "link/uplink_routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_what_is_named_is_set_and_the_rest_stays(void **state) {
    (void)state;
    lh_line_settings settings = {.queue_ms = 50, .delay_ms = 3};
    char words[] = "loss=0.5 rate=12.4 jitter=2";
    assert_null(lh_line_words_read(&settings, words));
    assert_float_equal(settings.rate_mbit, 12.4, 0);
    assert_float_equal(settings.loss_percent, 0.5, 0);
    assert_float_equal(settings.jitter_ms, 2, 0);
    assert_float_equal(settings.delay_ms, 3, 0);
    assert_float_equal(settings.queue_ms, 50, 0);
}

static void test_the_wrong_word_is_told(void **state) {
    (void)state;
    static const char *const wrong[] = {"speed=3",  "rate",     "rate=", "rate=-1", "rate=1x",
                                        "rate=1e9", "rate=nan", "=3",    "ratex=3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lh_line_settings settings = {0};
        char words[64] = "delay=1 ";
        strcat(words, wrong[i]);
        const char *told = lh_line_words_read(&settings, words);
        assert_non_null(told);
        assert_string_equal(told, wrong[i]);
    }
}

static void test_networks(void **state) {
    (void)state;
    static const char *const wrong[] = {"10.0.0.0",  "10.0.0.0/33", "10.0.0.0/",   "10.0.0/8",
                                        "fe80::/10", "/8",          "10.0.0.0/8x", "office/8"};
    uint32_t network, mask;
    const uint8_t *n = (const uint8_t *)&network, *m = (const uint8_t *)&mask;
    assert_true(lh_uplink_network_read("10.77.3.9/16", &network, &mask));
    assert_memory_equal(n, ((uint8_t[]){10, 77, 0, 0}), 4);
    assert_memory_equal(m, ((uint8_t[]){255, 255, 0, 0}), 4);
    assert_true(lh_uplink_network_read("10.1.2.3/32", &network, &mask));
    assert_int_equal(mask, UINT32_MAX);
    assert_true(lh_uplink_network_read("0.0.0.0/0", &network, &mask));
    assert_int_equal(mask, 0);
    assert_true(lh_uplink_network_read("", &network, &mask));
    assert_int_equal(network | mask, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(lh_uplink_network_read(wrong[i], &network, &mask));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_named_is_set_and_the_rest_stays),
        cmocka_unit_test(test_the_wrong_word_is_told),
        cmocka_unit_test(test_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
