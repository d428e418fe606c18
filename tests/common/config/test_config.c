/* One table with an option of each kind, and a file beside flags and environment. */
#include "common/config/config.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct settings {
    lh_config_options config;
    const char *site, *sites, *wire;
    int64_t threads, kv_bytes;
    bool quiet;
} settings;

static const lh_option options[] = {
    LH_OPTION_CONFIG_ROWS(settings, config),
    {"site", LH_OPTION_TEXT, offsetof(settings, site), NULL, "NAME", 0, 0, NULL, "Site"},
    {"sites", LH_OPTION_TEXT, offsetof(settings, sites), "", "A,B,...", 0, 0, NULL, "All"},
    {"wire", LH_OPTION_CHOICE, offsetof(settings, wire), "f32", NULL, 0, 0, "f32|f16", "Type"},
    {"threads", LH_OPTION_NUMBER, offsetof(settings, threads), "2", "N", 1, 1024, NULL, "Threads"},
    {"kv-bytes", LH_OPTION_BYTES, offsetof(settings, kv_bytes), "1G", "BYTES", 1 << 20, INT64_MAX,
     NULL, "Budget"},
    {"quiet", LH_OPTION_FLAG, offsetof(settings, quiet), NULL, NULL, 0, 0, NULL, "Say nothing"},
};
static const lh_option_table table = {.program = "longhaul-test",
                                      .summary = "Tests.",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

static settings got;
static lh_config *config;
static lh_option_action action;
static lh_error error;
static char *printed, *complaints, path[64];

static int reset(void **state) {
    (void)state;
    lh_config_destroy(config);
    config = NULL;
    free(printed);
    free(complaints);
    printed = complaints = NULL;
    return 0;
}

static int clear(void **state) {
    unsetenv("LONGHAUL_CONFIG");
    unsetenv("LONGHAUL_SITE");
    unsetenv("LONGHAUL_THREADS");
    return reset(state);
}

static void write_file(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static lh_status parse_arguments(char **argv, int argc) {
    size_t size, complaints_size;
    reset(NULL);
    FILE *out = open_memstream(&printed, &size);
    FILE *err = open_memstream(&complaints, &complaints_size);
    memset(&got, 0xff, sizeof got);
    lh_status status =
        lh_config_parse(&table, argc, argv, &got, out, err, &config, &action, &error);
    fclose(out);
    fclose(err);
    return status;
}

/* With --config and up to two more arguments. */
static lh_status parse(const char *text, const char *first, const char *second) {
    char *argv[] = {(char *)"longhaul-test", (char *)"--config", path, (char *)first,
                    (char *)second};
    write_file(text);
    return parse_arguments(argv, 3 + (first != NULL) + (second != NULL));
}

static void test_the_order_of_sources(void **state) {
    (void)state;
    static const char file[] = "site: home\nthreads: 5\nkv-bytes: 2M\nquiet: yes\nsites: [a, b]\n";
    assert_int_equal(parse(file, NULL, NULL), LH_OK);
    assert_int_equal(action, LH_OPTIONS_RUN);
    assert_string_equal(got.site, "home");
    assert_string_equal(got.sites, "a,b");
    assert_string_equal(got.wire, "f32");
    assert_int_equal(got.threads, 5);
    assert_int_equal(got.kv_bytes, 2 << 20);
    assert_true(got.quiet);
    setenv("LONGHAUL_THREADS", "6", 1);
    assert_int_equal(parse(file, NULL, NULL), LH_OK);
    assert_int_equal(got.threads, 6);
    assert_int_equal(parse(file, "--threads=7", "--kv-bytes=3M"), LH_OK);
    assert_int_equal(got.threads, 7);
    assert_int_equal(got.kv_bytes, 3 << 20);
    assert_string_equal(got.site, "home");
}

static void test_without_a_file(void **state) {
    (void)state;
    char *argv[] = {(char *)"longhaul-test", (char *)"--site=x"};
    assert_int_equal(parse_arguments(argv, 2), LH_OK);
    assert_string_equal(got.config.file, "");
    assert_string_equal(got.site, "x");
    assert_int_equal(got.threads, 2);
    assert_int_equal(parse_arguments(argv, 1), LH_ERR_INVALID);
    assert_int_equal(action, LH_OPTIONS_EXIT);
}

static void test_the_environment_names_it(void **state) {
    (void)state;
    char *argv[] = {(char *)"longhaul-test"};
    write_file("site: env\n");
    setenv("LONGHAUL_CONFIG", path, 1);
    assert_int_equal(parse_arguments(argv, 1), LH_OK);
    assert_string_equal(got.site, "env");
}

static void test_all_faults_are_told(void **state) {
    (void)state;
    static const char *const wanted[] = {
        ":1: unknown name thread: did you mean threads?\n",
        ":2: unknown name elephant: longhaul-test --help lists them, without --\n",
        ":3: kv-bytes: 1K is not in 1M..",
        ":4: wire: one value is wanted, and not a list\n",
        ":5: config: is for the command line alone\n",
        ":6: quiet: 'maybe' is neither",
        ":7: threads: 'many' is not a whole number\n"};
    assert_int_equal(parse("thread: 1\nelephant: 2\nkv-bytes: 1K\nwire: [f32]\nconfig: x\nquiet: "
                           "maybe\nthreads: many\nsite: a\n",
                           "--threads=1", NULL),
                     LH_ERR_INVALID);
    assert_int_equal(action, LH_OPTIONS_EXIT);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char line[200];
        snprintf(line, sizeof line, "%s%s", path, wanted[i]);
        if (!strstr(complaints, line))
            fail_msg("%s is not in: %s", line, complaints);
    }
    assert_non_null(strstr(error.message, "7 faults, told above"));
}

static void test_a_required_value_may_be_in_the_file(void **state) {
    (void)state;
    assert_int_equal(parse("threads: 3\n", NULL, NULL), LH_ERR_INVALID);
    assert_string_equal(error.message, "--site NAME is required (or LONGHAUL_SITE in the "
                                       "environment), or in the file of --config");
    assert_int_equal(parse("site: ''\n", NULL, NULL), LH_ERR_INVALID);
    assert_non_null(strstr(complaints, ":1: site: must not be empty\n"));
    assert_int_equal(parse("site: x\n", NULL, NULL), LH_OK);
}

static void test_what_is_in_effect_is_a_file(void **state) {
    (void)state;
    char wanted[600];
    setenv("LONGHAUL_THREADS", "6", 1);
    assert_int_equal(parse("# x\nsite: 'a b'\nquiet: true\n", "--kv-bytes=3M", "--print-config"),
                     LH_OK);
    assert_int_equal(action, LH_OPTIONS_EXIT);
    snprintf(wanted, sizeof wanted,
             "# What is in effect of longhaul-test " LONGHAUL_VERSION ", and where it comes from.\n"
             "site: \"a b\"  # %s:2\n"
             "sites: \"\"  # default\n"
             "wire: f32  # default\n"
             "threads: 6  # LONGHAUL_THREADS\n"
             "kv-bytes: 3M  # --kv-bytes\n"
             "quiet: true  # %s:3\n",
             path, path);
    assert_string_equal(printed, wanted);
    unsetenv("LONGHAUL_THREADS");
    assert_int_equal(parse(wanted, NULL, NULL), LH_OK);
    assert_string_equal(got.site, "a b");
    assert_int_equal(got.threads, 6);
    assert_int_equal(got.kv_bytes, 3 << 20);
    assert_true(got.quiet);
}

static void test_texts_come_back(void **state) {
    (void)state;
    static const char *const texts[] = {"*",
                                        "a: b",
                                        "x #y",
                                        "null",
                                        "~",
                                        "[::1]:80",
                                        "{\"a\": \"b\\c\"}",
                                        "-x",
                                        "'",
                                        "a:",
                                        " a ",
                                        "tab\there",
                                        "\x01",
                                        "x,y",
                                        "https://a/b?c=d&e",
                                        "/a-b/c.d",
                                        "\xc3\xa4",
                                        "!x",
                                        "%x",
                                        "@x"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *argv[] = {(char *)"longhaul-test", (char *)"--print-config", (char *)"--site",
                        (char *)texts[i]};
        assert_int_equal(parse_arguments(argv, 4), LH_OK);
        char *text = strdup(printed);
        assert_int_equal(parse(text, NULL, NULL), LH_OK);
        assert_string_equal(got.site, texts[i]);
        free(text);
    }
}

static void test_errors_find_their_line(void **state) {
    (void)state;
    assert_int_equal(parse("threads: 3\n\nsite: x\nquiet: true\n", "--quiet", NULL), LH_OK);
    static const struct {
        const char *message, *fallback, *line;
    } cases[] = {{"--site x is no place", NULL, ":3: "},
                 {"with --wire f32 --threads is 1", NULL, ":1: "},
                 {"--wire f32 is wrong", NULL, ""},
                 {"--quiet is wrong", NULL, ""},
                 {"--sites is wrong -- and", NULL, ""},
                 {"it is wrong", "site", ":3: "},
                 {"it is wrong", "wire", ""},
                 {"it is wrong", "quiet", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[200];
        lh_fail(&error, LH_ERR_INVALID, "%s", cases[i].message);
        lh_config_locate(config, cases[i].fallback, &error);
        snprintf(wanted, sizeof wanted, "%s%s%s", cases[i].line[0] ? path : "", cases[i].line,
                 cases[i].message);
        assert_string_equal(error.message, wanted);
        assert_int_equal(error.status, LH_ERR_INVALID);
    }
}

static void test_help_needs_no_file(void **state) {
    (void)state;
    char *argv[] = {(char *)"longhaul-test", (char *)"--config=/nowhere", (char *)"--help"};
    assert_int_equal(parse_arguments(argv, 3), LH_OK);
    assert_int_equal(action, LH_OPTIONS_EXIT);
    assert_non_null(strstr(printed, "--config FILE"));
    assert_int_equal(parse_arguments(argv, 2), LH_ERR_INVALID);
    assert_string_equal(complaints, "/nowhere: cannot be read: No such file or directory\n");
}

static void test_no_memory(void **state) {
    (void)state;
    write_file("site: a\nthreads: 3\nsites: [x]\n");
    for (size_t n = 1;; n++) {
        char *argv[] = {(char *)"longhaul-test", (char *)"--config", path};
        reset(NULL);
        failing_malloc_arm(n);
        lh_status status =
            lh_config_parse(&table, 3, argv, &got, stdout, stderr, &config, &action, &error);
        if (!failing_malloc_disarm())
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_null(config);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_order_of_sources, clear),
        cmocka_unit_test_setup(test_without_a_file, clear),
        cmocka_unit_test_setup(test_the_environment_names_it, clear),
        cmocka_unit_test_setup(test_all_faults_are_told, clear),
        cmocka_unit_test_setup(test_a_required_value_may_be_in_the_file, clear),
        cmocka_unit_test_setup(test_what_is_in_effect_is_a_file, clear),
        cmocka_unit_test_setup(test_texts_come_back, clear),
        cmocka_unit_test_setup(test_errors_find_their_line, clear),
        cmocka_unit_test_setup(test_help_needs_no_file, clear),
        cmocka_unit_test_setup(test_no_memory, clear),
    };
    snprintf(path, sizeof path, "/tmp/longhaul-config-%d.yaml", (int)getpid());
    int failures = cmocka_run_group_tests(tests, NULL, reset);
    unlink(path);
    return failures;
}
