/* One table with an option of each kind; argv, environment and --help as a user meets them. */
#include "common/base/options.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct settings {
    const char *site, *model, *wire;
    int64_t threads, kv_bytes;
    bool quiet;
} settings;

static const lh_option options[] = {
    {"site", LH_OPTION_TEXT, offsetof(settings, site), NULL, "NAME", 0, 0, NULL,
     "Site of this machine"},
    {"model", LH_OPTION_TEXT, offsetof(settings, model), "", "PATH", 0, 0, NULL,
     "GGUF file with the weights; without it they are fetched from the gateway and kept in the "
     "cache folder"},
    {"wire", LH_OPTION_CHOICE, offsetof(settings, wire), "f32", NULL, 0, 0, "f32|f16",
     "Type of values on a hop"},
    {"threads", LH_OPTION_NUMBER, offsetof(settings, threads), "2", "N", 1, 1024, NULL,
     "Compute threads"},
    {"kv-bytes", LH_OPTION_BYTES, offsetof(settings, kv_bytes), "1G", "BYTES", 1 << 20, INT64_MAX,
     NULL, "Budget of the KV cache"},
    {"quiet", LH_OPTION_FLAG, offsetof(settings, quiet), NULL, NULL, 0, 0, NULL, "Say \"nothing\""},
};
static const lh_option_table table = {.program = "longhaul-test",
                                      .summary =
                                          "Tests the table of options, in a sentence that is long "
                                          "enough that it must be wrapped at the end of a line.",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

static settings got;
static lh_option_action action;
static lh_error error;
static char *printed;

/* Parses the arguments, NULL-terminated; what was printed is in `printed` until the next call. */
static lh_status parse(const char *first, ...) {
    char *argv[16] = {(char *)"longhaul-test", (char *)first};
    int argc = first ? 2 : 1;
    va_list list;
    va_start(list, first);
    while (argc > 1 && argc < 15 && (argv[argc] = va_arg(list, char *)))
        argc++;
    va_end(list);
    size_t size;
    free(printed);
    printed = NULL;
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    memset(&got, 0xff, sizeof got);
    lh_status status = lh_options_parse(&table, argc, argv, &got, out, &action, &error);
    fclose(out);
    return status;
}

#define EXPECT_ERROR(part, ...)                                                                    \
    do {                                                                                           \
        assert_int_equal(parse(__VA_ARGS__, NULL), LH_ERR_INVALID);                                \
        if (!strstr(error.message, part))                                                          \
            fail_msg("\"%s\" lacks \"%s\"", error.message, part);                                  \
        assert_int_equal(action, LH_OPTIONS_EXIT);                                                 \
    } while (0)

static int clear_environment(void **state) {
    (void)state;
    static const char *const names[] = {"LONGHAUL_SITE",    "LONGHAUL_MODEL",    "LONGHAUL_WIRE",
                                        "LONGHAUL_THREADS", "LONGHAUL_KV_BYTES", "LONGHAUL_QUIET"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    return 0;
}

static void test_defaults(void **state) {
    (void)state;
    assert_int_equal(parse("--site", "a", NULL), LH_OK);
    assert_int_equal(action, LH_OPTIONS_RUN);
    assert_string_equal(got.site, "a");
    assert_string_equal(got.model, "");
    assert_string_equal(got.wire, "f32");
    assert_int_equal(got.threads, 2);
    assert_int_equal(got.kv_bytes, 1 << 30);
    assert_false(got.quiet);
}

static void test_flags(void **state) {
    (void)state;
    assert_int_equal(parse("--site=b", "--wire", "f16", "--threads", "1024", "--kv-bytes=2097152",
                           "--quiet", "--model", "-", "--site", "c", NULL),
                     LH_OK);
    assert_string_equal(got.site, "c");
    assert_string_equal(got.model, "-");
    assert_string_equal(got.wire, "f16");
    assert_int_equal(got.threads, 1024);
    assert_int_equal(got.kv_bytes, 2 << 20);
    assert_true(got.quiet);
    assert_int_equal(parse("--site=a=b", "--model=", NULL), LH_OK);
    assert_string_equal(got.site, "a=b");
    assert_string_equal(got.model, "");
}

static void test_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"1024K", 1 << 20},
                 {"3M", 3 << 20},
                 {"2G", 2ll << 30},
                 {"4t", 4ll << 40},
                 {"1048577", 1048577}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse("--site=a", "--kv-bytes", cases[i].text, NULL), LH_OK);
        assert_int_equal(got.kv_bytes, cases[i].value);
    }
    static const char *const wrong[] = {"", "K", "1KB", "1 M", "-1M", "0x10M", "1.5G", "9000000T",
                                        "16777217T",
                                        /* in 64 bits: below zero, and 1T */
                                        "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse("--site=a", "--kv-bytes", wrong[i], NULL), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "--kv-bytes: "));
        assert_non_null(strstr(error.message, "is not a number of bytes"));
    }
}

static void test_environment(void **state) {
    (void)state;
    setenv("LONGHAUL_SITE", "from the environment", 1);
    setenv("LONGHAUL_KV_BYTES", "2M", 1);
    setenv("LONGHAUL_QUIET", "yes", 1);
    setenv("LONGHAUL_THREADS", "", 1);
    assert_int_equal(parse(NULL), LH_OK);
    assert_string_equal(got.site, "from the environment");
    assert_int_equal(got.kv_bytes, 2 << 20);
    assert_true(got.quiet);
    assert_int_equal(got.threads, 2);
    assert_int_equal(parse("--kv-bytes=3M", "--site=flag", NULL), LH_OK);
    assert_string_equal(got.site, "flag");
    assert_int_equal(got.kv_bytes, 3 << 20);
    setenv("LONGHAUL_QUIET", "off", 1);
    assert_int_equal(parse(NULL), LH_OK);
    assert_false(got.quiet);
    setenv("LONGHAUL_QUIET", "maybe", 1);
    EXPECT_ERROR("LONGHAUL_QUIET: 'maybe'", "--threads=1");
    setenv("LONGHAUL_QUIET", "1", 1);
    setenv("LONGHAUL_THREADS", "many", 1);
    EXPECT_ERROR("LONGHAUL_THREADS: 'many' is not a whole number", "--site=a");
    assert_int_equal(parse("--site=a", "--threads=3", NULL), LH_OK);
    assert_int_equal(got.threads, 3);
    assert_int_equal(parse("--help", NULL), LH_OK);
}

static void test_errors(void **state) {
    (void)state;
    assert_int_equal(parse(NULL), LH_ERR_INVALID);
    assert_string_equal(error.message,
                        "--site NAME is required (or LONGHAUL_SITE in the environment)");
    EXPECT_ERROR("--site: must not be empty", "--site=");
    EXPECT_ERROR("unknown option --kv-byte; did you mean --kv-bytes?", "--kv-byte=1G");
    EXPECT_ERROR("unknown option --thraeds; did you mean --threads?", "--thraeds", "3");
    EXPECT_ERROR("unknown option --elephant; --help lists them", "--elephant");
    EXPECT_ERROR("unknown option", "--=x");
    EXPECT_ERROR(
        "xxxx; --help lists them",
        "--xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    EXPECT_ERROR("unexpected argument 'word'", "word");
    EXPECT_ERROR("unexpected argument '-t'; options begin with --", "-t");
    EXPECT_ERROR("unexpected argument '-threads'; did you mean --threads?", "-threads", "3");
    EXPECT_ERROR("unexpected argument '--'", "--");
    EXPECT_ERROR("--threads: needs a value (N)", "--threads");
    EXPECT_ERROR("--wire: needs a value (f32|f16)", "--wire", "--quiet");
    EXPECT_ERROR("--quiet: takes no value", "--quiet=1");
    EXPECT_ERROR("--wire: 'f8' is none of f32|f16", "--wire", "f8");
    EXPECT_ERROR("--wire: 'f' is none of", "--wire", "f");
    EXPECT_ERROR("--wire: '' is none of", "--wire=");
    EXPECT_ERROR("--wire: 'f32|f16' is none of", "--wire=f32|f16");
    EXPECT_ERROR("--threads: 0 is not in 1..1024", "--threads", "0");
    EXPECT_ERROR("--threads: -5 is not in 1..1024", "--threads", "-5");
    EXPECT_ERROR("--threads: '3x' is not a whole number", "--threads=3x");
    EXPECT_ERROR("--threads: '99999999999999999999' is not a whole number",
                 "--threads=99999999999999999999");
    EXPECT_ERROR("--kv-bytes: 1K is not in 1M..", "--kv-bytes=1K");
    EXPECT_ERROR(
        "--threads: '",
        "--threads="
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
}

static void test_help(void **state) {
    (void)state;
    static const char wanted[] =
        "usage: longhaul-test [options]\n"
        "\n"
        "Tests the table of options, in a sentence that is long enough that it must be\n"
        "wrapped at the end of a line.\n"
        "\n"
        "  --site NAME                 Site of this machine (required)\n"
        "  --model PATH                GGUF file with the weights; without it they are\n"
        "                              fetched from the gateway and kept in the cache\n"
        "                              folder\n"
        "  --wire f32|f16              Type of values on a hop (default f32)\n"
        "  --threads N                 Compute threads (default 2; 1..1024)\n"
        "  --kv-bytes BYTES            Budget of the KV cache (default 1G; at least 1M)\n"
        "  --quiet                     Say \"nothing\"\n"
        "\n"
        "  -h, --help                  print this; --help=json: for programs\n"
        "  --version                   print the version\n"
        "\n"
        "Values follow as \"--name VALUE\" or \"--name=VALUE\". The environment may set each\n"
        "as LONGHAUL_NAME, with underscores for dashes; a flag goes before it. BYTES may\n"
        "end in K, M, G or T.\n"
        "\n"
        "Exit status: 0 all went well, 1 it did not, 2 the command line is wrong.\n";
    assert_int_equal(parse("--threads=1", "--help", "--nonsense", NULL), LH_OK);
    assert_int_equal(action, LH_OPTIONS_EXIT);
    assert_string_equal(printed, wanted);
    for (const char *line = printed; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
}

static void test_json_and_version(void **state) {
    (void)state;
    static const char head[] = "{\"program\": \"longhaul-test\", \"version\": \"" LONGHAUL_VERSION
                               "\", \"arguments\": \"\", \"summary\": \"";
    static const char *const wanted[] = {
        "\"options\": [\n {\"name\": \"site\", \"kind\": \"text\", \"value\": \"NAME\", "
        "\"default\": null, "
        "\"help\": \"Site of this machine\"},\n",
        "{\"name\": \"wire\", \"kind\": \"choice\", \"value\": \"f32|f16\", \"default\": \"f32\", "
        "\"help\": \"Type of values on a hop\"}",
        "\"minimum\": \"1\", \"maximum\": \"1024\"}", "\"minimum\": \"1M\", \"maximum\": null}",
        "{\"name\": \"quiet\", \"kind\": \"flag\", \"value\": \"\", \"default\": \"0\", \"help\": "
        "\"Say "
        "\\\"nothing\\\"\"}],\n \"commands\": []}\n"};
    assert_int_equal(parse("--help=json", NULL), LH_OK);
    assert_int_equal(action, LH_OPTIONS_EXIT);
    assert_int_equal(strncmp(printed, head, strlen(head)), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(printed, wanted[i]))
            fail_msg("%s lacks %s", printed, wanted[i]);
    assert_int_equal(parse("--version", NULL), LH_OK);
    assert_string_equal(printed, "longhaul-test " LONGHAUL_VERSION "\n");
}

static void test_no_memory(void **state) {
    (void)state;
    char *argv[] = {(char *)"longhaul-test", (char *)"--site=a"};
    failing_malloc_arm(1);
    lh_status status = lh_options_parse(&table, 2, argv, &got, stdout, &action, &error);
    assert_true(failing_malloc_disarm());
    assert_int_equal(status, LH_ERR_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, clear_environment),
        cmocka_unit_test_setup(test_flags, clear_environment),
        cmocka_unit_test_setup(test_bytes, clear_environment),
        cmocka_unit_test_setup(test_environment, clear_environment),
        cmocka_unit_test_setup(test_errors, clear_environment),
        cmocka_unit_test_setup(test_help, clear_environment),
        cmocka_unit_test_setup(test_json_and_version, clear_environment),
        cmocka_unit_test_setup(test_no_memory, clear_environment),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    free(printed);
    return failures;
}
