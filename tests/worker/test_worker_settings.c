/* The worker's flags: what they need of each other, and what stands in where they are not given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/worker_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lh_worker_settings settings;
static lh_error error;

static lh_status run(int argc, char **argv) {
    lh_option_action action;
    settings = (lh_worker_settings){0};
    lh_status status =
        lh_options_parse(&lh_worker_option_table, argc, argv, &settings, stdout, &action, &error);
    assert_int_equal(status, LH_OK);
    return lh_worker_settings_complete(&settings, &error);
}

#define RUN(...)                                                                                   \
    run((int)(sizeof((char *[]){"longhaul-worker", __VA_ARGS__}) / sizeof(char *)),                \
        (char *[]){"longhaul-worker", __VA_ARGS__, NULL})
#define ASSERT_REFUSED(part, ...)                                                                  \
    do {                                                                                           \
        assert_int_equal(RUN(__VA_ARGS__), LH_ERR_INVALID);                                        \
        if (!strstr(error.message, part))                                                          \
            fail_msg("\"%s\" lacks \"%s\"", error.message, part);                                  \
    } while (0)
#define TLS "--tls-cert", "a", "--tls-key", "b", "--tls-ca", "c"

static void what_is_not_given_is_filled_in(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/some/cache", 1);
    assert_int_equal(RUN("--site", "here"), LH_OK);
    assert_true(lh_name_is_valid(settings.name));
    assert_string_equal(settings.listen, "127.0.0.1:7101");
    assert_string_equal(settings.gateway, "http://127.0.0.1:7100");
    assert_string_equal(settings.cache_dir, "/some/cache/longhaul");
    assert_true(settings.threads >= 1);
    assert_true(settings.memory_bytes > 1 << 20);
    assert_int_equal(RUN("--threads", "3", "--memory-bytes", "5M", "--cache-dir", "x"), LH_OK);
    assert_int_equal(settings.threads, 3);
    assert_int_equal(settings.memory_bytes, 5 << 20);
    assert_string_equal(settings.cache_dir, "x");
}

static void the_cache_folder_needs_a_home(void **state) {
    (void)state;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/of/some one", 1);
    assert_int_equal(RUN("--site", "here"), LH_OK);
    assert_string_equal(settings.cache_dir, "/home/of/some one/.cache/longhaul");
    char deep[1100];
    memset(deep, 'd', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    setenv("HOME", deep, 1);
    ASSERT_REFUSED("--cache-dir", "--site", "here");
    unsetenv("HOME");
    ASSERT_REFUSED("HOME is not set", "--site", "here");
    assert_int_equal(RUN("--cache-dir", "x"), LH_OK);
    setenv("HOME", "/root", 1);
}

static void names_are_checked(void **state) {
    (void)state;
    char longest[64], longer[65];
    memset(longest, 'n', sizeof longest);
    memset(longer, 'n', sizeof longer);
    longest[63] = longer[64] = '\0';
    assert_int_equal(RUN("--name", longest), LH_OK);
    assert_string_equal(settings.name, longest);
    ASSERT_REFUSED("--name", "--name", longer);
    ASSERT_REFUSED("--name: 'a b'", "--name", "a b");
    ASSERT_REFUSED("--name", "--name", "a/b");
    ASSERT_REFUSED("--site: ''", "--site=");
    ASSERT_REFUSED("--site", "--site", "a\nb");
}

static void the_gateway_is_a_url(void **state) {
    (void)state;
    assert_int_equal(RUN("--gateway", "http://localhost:80/"), LH_OK);
    assert_string_equal(settings.gateway, "http://localhost:80");
    assert_int_equal(RUN("--gateway", "http://[::1]:80"), LH_OK);
    ASSERT_REFUSED("neither http:// nor https://", "--gateway", "localhost:80");
    ASSERT_REFUSED("neither http:// nor https://", "--gateway=");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost:0");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost:80/fleet");
    char endless[LH_CONTROL_URL_BYTES + 32];
    memset(endless, '1', sizeof endless);
    memcpy(endless, "http://", 7);
    memcpy(endless + sizeof endless - 4, ":80", 4);
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", endless);
    ASSERT_REFUSED("https:// needs --tls-cert", "--gateway", "https://localhost:80");
    assert_int_equal(RUN("--gateway", "https://example.org:80", TLS), LH_OK);
}

static void tls_needs_all_three(void **state) {
    (void)state;
    ASSERT_REFUSED("all three", "--tls-cert", "a", "--tls-key", "b");
    ASSERT_REFUSED("all three", "--tls-ca", "c");
    ASSERT_REFUSED("--listen-tls needs", "--listen-tls", "0.0.0.0:1");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:1", TLS), LH_OK);
    assert_string_equal(settings.listen, ""); /* nothing in the clear unless it is asked for */
    assert_true(lh_program_options_have_tls(&settings.program));
    assert_string_equal(settings.program.tls.ca_file, "c");
}

static void plaintext_beyond_loopback_needs_a_word(void **state) {
    (void)state;
    ASSERT_REFUSED("--insecure-plaintext", "--listen", "0.0.0.0:1");
    ASSERT_REFUSED("--insecure-plaintext", "--listen", "127.0.0.1.example.org:1");
    ASSERT_REFUSED("--insecure-plaintext", "--gateway", "http://127.example.org:1");
    ASSERT_REFUSED("--insecure-plaintext", "--gateway", "http://10.0.0.1:1", TLS);
    ASSERT_REFUSED("address \"nonsense\"", "--listen", "nonsense");
    assert_int_equal(RUN("--listen", "0.0.0.0:1", "--insecure-plaintext"), LH_OK);
    assert_int_equal(RUN("--gateway", "http://10.0.0.1:1", "--insecure-plaintext"), LH_OK);
    assert_int_equal(RUN("--listen", "127.3.2.1:0"), LH_OK);
}

static void a_slowdown_is_read(void **state) {
    (void)state;
    assert_int_equal(RUN("--slowdown", "2.5,4"), LH_OK);
    assert_true(settings.slowdown_factors[0] == 2.5 && settings.slowdown_factors[1] == 4);
    ASSERT_REFUSED("--slowdown", "--slowdown", "fast");
}

static void others_are_told_how_to_reach_it(void **state) {
    (void)state;
    char text[LH_ADDRESS_BYTES];
    assert_int_equal(RUN("--listen", "127.0.0.1:0", "--listen-tls", "[::1]:5", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, false, 4711, text, &error), LH_OK);
    assert_string_equal(text, "127.0.0.1:4711");
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "[::1]:5");

    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, false, 0, text, &error), LH_OK);
    assert_string_equal(text, "");
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--advertise-tls: nobody can connect to '0.0.0.0'"));

    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office.example:443", TLS),
                     LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "office.example:443");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office.example:0", TLS),
                     LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "office.example:5");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error),
                     LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_is_filled_in),
        cmocka_unit_test(the_cache_folder_needs_a_home),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(the_gateway_is_a_url),
        cmocka_unit_test(tls_needs_all_three),
        cmocka_unit_test(plaintext_beyond_loopback_needs_a_word),
        cmocka_unit_test(a_slowdown_is_read),
        cmocka_unit_test(others_are_told_how_to_reach_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
