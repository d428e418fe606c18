/* By which names the API may be asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/net/allowed_hosts.h"

#include <string.h>

static bool permits(const char *list, bool listens_on_loopback, const char *host) {
    lh_allowed_hosts hosts;
    lh_error error;
    assert_int_equal(lh_allowed_hosts_parse(list, listens_on_loopback, &hosts, &error), LH_OK);
    return lh_allowed_hosts_permit(&hosts, host);
}

static void this_machine_is_asked_for_by_its_own_names(void **state) {
    (void)state;
    static const char *const own[] = {"localhost",      "localhost:8080", "LocalHost",
                                      "localhost.",     "a.localhost:1",  "a.b.localhost",
                                      "127.0.0.1",      "127.0.0.1:8080", "127.255.0.3",
                                      "[::1]",          "[::1]:8080",     "[0:0:0:0:0:0:0:1]:80",
                                      "localhost.:8080"};
    static const char *const foreign[] = {"evil.example",
                                          "evil.example:8080",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "notlocalhost",
                                          ".localhost.evil",
                                          "128.0.0.1",
                                          "10.0.0.1:8080",
                                          "0.0.0.0:8080",
                                          "[::2]",
                                          "[::]:8080",
                                          "[::ffff:10.0.0.1]",
                                          "127.1",
                                          "0177.0.0.1",
                                          "%6cocalhost",
                                          ".localhost",
                                          ""};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_true(permits("", true, own[i]));
        assert_true(permits(NULL, true, own[i]));
        assert_true(permits("llm.example", false, own[i]));
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_false(permits("", true, foreign[i]));
    char longest[600];
    memset(longest, 'a', sizeof longest);
    strcpy(longest + sizeof longest - 11, ".localhost");
    assert_false(permits("", true, longest));
}

static void no_browser_leaves_its_host_out(void **state) {
    (void)state;
    assert_true(permits("", true, NULL));
}

static void the_list_adds_to_them_wherever_it_listens(void **state) {
    (void)state;
    static const char list[] = "llm.example.org,192.0.2.1,[2001:db8::1],2001:db8::2";
    for (int listens_on_loopback = 0; listens_on_loopback < 2; listens_on_loopback++) {
        assert_true(permits(list, listens_on_loopback, "llm.example.org"));
        assert_true(permits(list, listens_on_loopback, "LLM.example.org.:443"));
        assert_true(permits(list, listens_on_loopback, "192.0.2.1:80"));
        assert_true(permits(list, listens_on_loopback, "[2001:DB8::1]:443"));
        assert_true(permits(list, listens_on_loopback, "[2001:db8::2]"));
        assert_false(permits(list, listens_on_loopback, "example.org"));
        assert_false(permits(list, listens_on_loopback, "a.llm.example.org"));
        assert_false(permits(list, listens_on_loopback, "llm.example.org.evil"));
        assert_false(permits(list, listens_on_loopback, "192.0.2.10"));
        assert_false(permits(list, listens_on_loopback, ""));
        assert_true(permits("*", listens_on_loopback, "evil.example"));
    }
    assert_true(permits("", false, "evil.example"));
}

static void what_is_no_name_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"http://a", "a:80", "a,",  ",a",    "a,,b",  "a b", ",",
                                        "a,*",      "*.a",  "a/b", "[a]:1", "[zz]:", "."};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lh_allowed_hosts hosts;
        lh_error error;
        assert_int_equal(lh_allowed_hosts_parse(wrong[i], true, &hosts, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "is no host name"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_is_asked_for_by_its_own_names),
        cmocka_unit_test(no_browser_leaves_its_host_out),
        cmocka_unit_test(the_list_adds_to_them_wherever_it_listens),
        cmocka_unit_test(what_is_no_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
