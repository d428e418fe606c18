/* Words that people mistype, and words that are something else. */
#include "common/base/nearest_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *nearest_of(const char *word, size_t length) {
    static const char *const names[] = {"status", "start", "listen",           "fleet-listen",
                                        "wire",   "q8",    "LONGHAUL_KV_BYTES"};
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, word, length);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        lh_nearest_name_try(&nearest, names[i]);
    return nearest.name;
}

static void test_a_slip_is_known(void **state) {
    (void)state;
    static const char *const slips[][2] = {{"staus", "status"},
                                           {"sttaus", "status"},
                                           {"stauts", "status"},
                                           {"status", "status"},
                                           {"listn", "listen"},
                                           {"fleet_listen", "fleet-listen"},
                                           {"star", "start"},
                                           {"fleetlisten", "fleet-listen"},
                                           {"LONGHAUL_KV_BYTE", "LONGHAUL_KV_BYTES"}};
    for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++)
        assert_string_equal(nearest_of(slips[i][0], strlen(slips[i][0])), slips[i][1]);
}

static void test_another_word_is_not(void **state) {
    (void)state;
    static const char *const others[] = {"elephant", "workers", "statistics of what"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(nearest_of(others[i], strlen(others[i])));
}

static void test_the_word_ends_where_it_is_said(void **state) {
    (void)state;
    assert_string_equal(nearest_of("wier=q8,f32,f16", 4), "wire");
}

static void test_the_longest_word(void **state) {
    (void)state;
    char word[200];
    memset(word, 'x', sizeof word);
    for (size_t length = 60; length <= sizeof word; length++)
        assert_null(nearest_of(word, length));
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, word, 63);
    word[199] = '\0';
    lh_nearest_name_try(&nearest, word + 199 - 63);
    assert_ptr_equal(nearest.name, word + 199 - 63);
    lh_nearest_name_init(&nearest, word, 64);
    lh_nearest_name_try(&nearest, word + 199 - 64);
    assert_null(nearest.name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slip_is_known),
        cmocka_unit_test(test_another_word_is_not),
        cmocka_unit_test(test_the_word_ends_where_it_is_said),
        cmocka_unit_test(test_the_longest_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
