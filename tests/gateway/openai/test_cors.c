/* Lists of origins; what a browser is told is in test_api.c. */
#include "gateway/openai/cors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void lists_are_checked(void **state) {
    (void)state;
    static const char *const good[] = {"", "https://chat.example", "http://localhost:3000",
                                       "http://[::1]:80,app://obsidian.md"};
    static const char *const bad[] = {"*",
                                      "null",
                                      "chat.example",
                                      "https://",
                                      "https://chat.example/",
                                      "https://Chat.example",
                                      "https://a b",
                                      "https://a,",
                                      ",https://a",
                                      "https://a,,https://b",
                                      "https://a\r\nx: y"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(lh_cors_check(good[i], NULL), LH_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (lh_cors_check(bad[i], NULL) != LH_ERR_INVALID)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(lh_cors_check(NULL, NULL), LH_OK);
}

static void nothing_is_told_without_a_list(void **state) {
    (void)state;
    lh_http_reply reply = {0};
    lh_cors_add_headers("", (lh_cors_origin){NULL, 0}, "GET", &reply);
    lh_cors_add_headers(NULL, (lh_cors_origin){NULL, 0}, NULL, &reply);
    assert_int_equal(reply.header_count, 0);
    lh_cors_add_headers("https://a", (lh_cors_origin){NULL, 0}, NULL, &reply);
    assert_int_equal(reply.header_count, 1); /* Vary */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_checked),
        cmocka_unit_test(nothing_is_told_without_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
