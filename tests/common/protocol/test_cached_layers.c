/* Runs of layers, and their text. */
#include "common/protocol/cached_layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void layers_that_touch_are_one_run(void **state) {
    (void)state;
    static const uint32_t layers[] = {0, 1, 2, 7, 9, 10};
    lh_cached_layers cached = {0};
    char text[LH_CACHED_TEXT_BYTES];
    lh_cached_layers_render(&cached, text);
    assert_string_equal(text, "");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        lh_cached_layers_add(&cached, layers[i]);
    lh_cached_layers_render(&cached, text);
    assert_string_equal(text, "0-2,7-7,9-10");
    lh_cached_layers read = {0};
    assert_true(lh_cached_layers_parse(text, &read));
    assert_int_equal(read.run_count, 3);
    assert_memory_equal(read.runs, cached.runs, 3 * sizeof *read.runs);
}

static void of_too_many_runs_the_longest_are_told(void **state) {
    (void)state;
    lh_cached_layers cached = {0};
    for (uint32_t layer = 0; layer < 100; layer += 3) {
        lh_cached_layers_add(&cached, layer);
        if (layer % 2 == 0)
            lh_cached_layers_add(&cached, layer + 1);
    }
    assert_int_equal(cached.run_count, LH_CACHED_RUNS_MAX);
    for (uint32_t i = 0; i + 1 < cached.run_count; i++)
        assert_int_equal(cached.runs[i].last - cached.runs[i].first, 2);
}

static void the_longest_text_fits(void **state) {
    (void)state;
    lh_cached_layers cached = {0};
    char text[LH_CACHED_TEXT_BYTES];
    for (uint32_t layer = LH_CACHED_LAYERS_MAX - 2 * LH_CACHED_RUNS_MAX;
         layer < LH_CACHED_LAYERS_MAX; layer += 2)
        lh_cached_layers_add(&cached, layer);
    lh_cached_layers_render(&cached, text);
    assert_int_equal(strlen(text) + 1, LH_CACHED_TEXT_BYTES - 1);
    assert_true(lh_cached_layers_parse(text, &cached));
    assert_int_equal(cached.run_count, LH_CACHED_RUNS_MAX);
}

static void what_is_no_such_text_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "0",   "0-",      "-3",   "a-3",        "0-3,",          "0-3,,5-6", "5-3",
        ",",   "0-3,4-5", "0-3 ", "0-3,2-5",    "7-8,0-3",       "0-4096",   "00000-3",
        "0x1", "0-3;5-6", "1-2-", "0-99999999", "0-18446744073", "1-1,1-1",  " 1-2"};
    lh_cached_layers cached = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (lh_cached_layers_parse(wrong[i], &cached))
            fail_msg("\"%s\" is taken", wrong[i]);
    char many[256] = "";
    for (int i = 0; i <= (int)LH_CACHED_RUNS_MAX; i++)
        strcat(many, (const char *[]){"0-0", ",2-2", ",4-4", ",6-6", ",8-8", ",10-10", ",12-12",
                                      ",14-14", ",16-16", ",18-18", ",20-20", ",22-22", ",24-24",
                                      ",26-26", ",28-28", ",30-30", ",32-32"}[i]);
    assert_false(lh_cached_layers_parse(many, &cached));
    assert_true(lh_cached_layers_parse("", &cached));
    assert_int_equal(cached.run_count, 0);
    assert_true(lh_cached_layers_parse("0-4095", &cached));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_touch_are_one_run),
        cmocka_unit_test(of_too_many_runs_the_longest_are_told),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(what_is_no_such_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
