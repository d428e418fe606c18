/* Flags that need each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/cli/settings.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static lh_status run(int argc, char **argv, lh_error *error) {
    lh_gateway_settings settings;
    lh_option_action action;
    lh_status status =
        lh_options_parse(&lh_gateway_option_table, argc, argv, &settings, stdout, &action, error);
    return status == LH_OK ? lh_gateway_settings_check(&settings, error) : status;
}

#define RUN(error, ...)                                                                            \
    run((int)(sizeof((char *[]){"longhaul-gateway", __VA_ARGS__}) / sizeof(char *)),               \
        (char *[]){"longhaul-gateway", __VA_ARGS__, NULL}, error)

static void the_defaults_hold(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x.gguf"), LH_OK);
}

/* Whether the gateway has a CA of its own with these flags, which are right. */
static bool has_own_ca(int argc, char **argv) {
    lh_gateway_settings settings;
    lh_option_action action;
    lh_error error;
    assert_int_equal(
        lh_options_parse(&lh_gateway_option_table, argc, argv, &settings, stdout, &action, &error),
        LH_OK);
    assert_int_equal(lh_gateway_settings_check(&settings, &error), LH_OK);
    return lh_gateway_settings_have_own_ca(&settings);
}

#define HAS_OWN_CA(...)                                                                            \
    has_own_ca((int)(sizeof((char *[]){"longhaul-gateway", "--model", "x", __VA_ARGS__}) /         \
                     sizeof(char *)),                                                              \
               (char *[]){"longhaul-gateway", "--model", "x", __VA_ARGS__, NULL})

static void a_fleet_port_for_others_has_tls_unless_a_word_is_said(void **state) {
    (void)state;
    static char *const reachable[] = {"0.0.0.0:7100", "[::]:7100", "192.0.2.1:7100",
                                      "127.0.0.1.example.org:7100"};
    for (size_t i = 0; i < sizeof reachable / sizeof reachable[0]; i++) {
        assert_true(HAS_OWN_CA("--fleet-listen", reachable[i]));
        assert_false(HAS_OWN_CA("--fleet-listen", reachable[i], "--insecure-plaintext"));
        assert_false(HAS_OWN_CA("--fleet-listen", reachable[i], "--tls-cert", "a", "--tls-key", "b",
                                "--tls-ca", "c"));
    }
    assert_false(HAS_OWN_CA("--fleet-listen", "[::1]:7100"));
    assert_false(HAS_OWN_CA("--fleet-listen", "localhost:7100"));
    assert_true(HAS_OWN_CA("--fleet-listen", "localhost:7100", "--state-dir", "state"));
}

static void a_ca_of_its_own_excludes_another_one(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--state-dir", "state", "--tls-cert", "a",
                         "--tls-key", "b", "--tls-ca", "c"),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--state-dir"));
    assert_int_equal(RUN(&error, "--model", "x", "--certificate-life", "9s"), LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--certificate-life", "1"), LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--certificate-life", "90d"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--fleet-listen", ":7100"), LH_ERR_INVALID);
}

static void an_api_for_others_needs_keys_or_a_word(void **state) {
    (void)state;
    static const char *const reachable[] = {"0.0.0.0:8080", ":8080", "[::]:8080", "192.0.2.1:8080",
                                            "llm.example.org:8080"};
    lh_error error;
    for (size_t i = 0; i < sizeof reachable / sizeof reachable[0]; i++) {
        char *listen = (char *)(uintptr_t)reachable[i];
        assert_int_equal(RUN(&error, "--model", "x", "--listen", listen), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "--insecure-no-keys"));
        assert_int_equal(RUN(&error, "--model", "x", "--listen", listen, "--insecure-no-keys"),
                         LH_OK);
        assert_int_equal(RUN(&error, "--model", "x", "--listen", listen, "--api-key-file", "k"),
                         LH_OK);
    }
    assert_int_equal(RUN(&error, "--model", "x", "--ollama-listen", "0.0.0.0:11434"),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--ollama-listen 0.0.0.0:11434 is reachable by others"));
    assert_int_equal(RUN(&error, "--model", "x", "--ollama-listen", "127.0.0.1:11434"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--listen", "[::1]:8080"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--listen", "localhost:8080"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--allowed-hosts", "a,b"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--allowed-hosts", "a:80"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--allowed-hosts"));
}

static void tls_needs_all_three(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--tls-cert", "a", "--tls-key", "b"),
                     LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--tls-ca", "c"), LH_ERR_INVALID);
}

static void q8_is_allowed_where_the_gateway_chooses(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--wire", "auto", "--wire-allow-q8"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--wire", "q8"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--wire-allow-q8"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--wire auto"));
    assert_int_equal(RUN(&error, "--model", "x", "--wire", "q4"), LH_ERR_INVALID);
}

static void answers_are_checked_by_another_chain(void **state) {
    (void)state;
    lh_error error;
    static char *const none[] = {"", "x", "0.5x", "-0.1", "1.1", "nan", "inf"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(RUN(&error, "--model", "x", "--replicas", "2", "--spot-check", none[i]),
                         LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "a number from 0 to 1"));
    }
    assert_int_equal(RUN(&error, "--model", "x", "--replicas", "2", "--spot-check", "0.05"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--spot-check", "0"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--spot-check", "1"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--replicas 2"));
    assert_int_equal(
        RUN(&error, "--model", "x", "--replicas", "2", "--spot-check", "1", "--gpu-math", "fast"),
        LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--gpu-math exact"));
}

static void figures_fit_each_other(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--renew-ms", "2000"), LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--rows-max", "32", "--overlap", "rows=33"),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--rows-max 32"));
    assert_int_equal(RUN(&error, "--model", "x", "--rows-max", "32", "--overlap", "rows=32"),
                     LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--overlap", "rows=32,columns=4"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--overlap", "off"), LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--overlap", "fast"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--overlap \"fast\""));
    assert_int_equal(RUN(&error, "--listen", "127.0.0.1:1"), LH_ERR_INVALID);
}

static void defaults_of_sampling_are_in_the_ranges_of_requests(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--default-temperature", "0", "--default-top-p",
                         "0.9", "--default-top-k", "-1", "--default-min-p", "1",
                         "--default-repetition-penalty", "1.1"),
                     LH_OK);
    assert_int_equal(RUN(&error, "--model", "x", "--default-temperature", "2.1"), LH_ERR_INVALID);
    assert_string_equal(error.message,
                        "--default-temperature: 2.1 is not at least 0 and at most 2");
    assert_int_equal(RUN(&error, "--model", "x", "--default-top-p", "0"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--default-top-p: "));
    assert_int_equal(RUN(&error, "--model", "x", "--default-top-k", "1.5"), LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--default-min-p", "some"), LH_ERR_INVALID);
    assert_int_equal(RUN(&error, "--model", "x", "--default-repetition-penalty", "0"),
                     LH_ERR_INVALID);
}

static void limits_of_keys_need_keys(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(RUN(&error, "--model", "x", "--key-tokens-per-minute", "5"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--api-key-file"));
    assert_int_equal(
        RUN(&error, "--model", "x", "--key-tokens-per-minute", "5", "--api-key-file", "k"), LH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_hold),
        cmocka_unit_test(a_fleet_port_for_others_has_tls_unless_a_word_is_said),
        cmocka_unit_test(a_ca_of_its_own_excludes_another_one),
        cmocka_unit_test(an_api_for_others_needs_keys_or_a_word),
        cmocka_unit_test(tls_needs_all_three),
        cmocka_unit_test(q8_is_allowed_where_the_gateway_chooses),
        cmocka_unit_test(answers_are_checked_by_another_chain),
        cmocka_unit_test(figures_fit_each_other),
        cmocka_unit_test(defaults_of_sampling_are_in_the_ranges_of_requests),
        cmocka_unit_test(limits_of_keys_need_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
