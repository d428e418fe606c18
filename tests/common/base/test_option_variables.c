/* A log on standard error that is read back. */
#include "common/base/commands.h"
#include "common/base/log.h"
#include "common/base/option_variables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const lh_option served[] = {
    {.name = "kv-bytes", .kind = LH_OPTION_TEXT, .default_text = ""},
    {.name = "listen", .kind = LH_OPTION_TEXT, .default_text = ""},
};
static const lh_option asked[] = {{.name = "url", .kind = LH_OPTION_TEXT, .default_text = ""}};
static const lh_option_table asking = {
    .program = "longhaul-test ask", .options = asked, .count = 1};
static const lh_command commands[] = {{.name = "ask", .options = &asking}, {.name = "be"}};
static const lh_option_table table = {.program = "longhaul-test",
                                      .options = served,
                                      .count = 2,
                                      .commands = commands,
                                      .command_count = 2};

static char logged[4096];

static void tell(void) {
    char path[] = "/tmp/longhaul-variables-XXXXXX";
    int file = mkstemp(path), kept = dup(STDERR_FILENO);
    assert_true(file >= 0 && kept >= 0);
    unlink(path);
    dup2(file, STDERR_FILENO);
    lh_option_variables_tell(&table, "test");
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t length = pread(file, logged, sizeof logged - 1, 0);
    assert_true(length >= 0);
    logged[length] = '\0';
    close(file);
}

static int clear(void **state) {
    (void)state;
    return clearenv();
}

static void test_options_and_others_variables_are_silent(void **state) {
    (void)state;
    setenv("LONGHAUL_KV_BYTES", "1", 1);
    setenv("LONGHAUL_URL", "x", 1);
    setenv("LISTN", "x", 1);
    setenv("LONGHAULER_LISTN", "x", 1);
    tell();
    assert_string_equal(logged, "");
}

static void test_a_slip_is_a_warning(void **state) {
    (void)state;
    setenv("LONGHAUL_LISTN", "secret", 1);
    setenv("LONGHAUL_KVBYTES", "secret", 1);
    tell();
    assert_non_null(strstr(logged, "warn  test: the environment has LONGHAUL_LISTN, which is no "
                                   "option: did you mean LONGHAUL_LISTEN?\n"));
    assert_non_null(strstr(logged, "LONGHAUL_KVBYTES, which is no option: did you mean "
                                   "LONGHAUL_KV_BYTES?\n"));
    assert_null(strstr(logged, "secret"));
}

static void test_what_is_near_to_nothing_is_one_line(void **state) {
    (void)state;
    setenv("LONGHAUL_BUILD", "secret", 1);
    setenv("LONGHAUL_PYTHON", "secret", 1);
    setenv("LONGHAUL_", "secret", 1);
    tell();
    assert_non_null(strstr(logged, "info  test: the environment has what is no option of this "
                                   "program:"));
    assert_non_null(strstr(logged, " LONGHAUL_BUILD"));
    assert_non_null(strstr(logged, " LONGHAUL_PYTHON"));
    assert_ptr_equal(strchr(logged, '\n'), logged + strlen(logged) - 1);
    assert_null(strstr(logged, "secret"));
}

static void test_long_names_and_many(void **state) {
    (void)state;
    char name[400] = "LONGHAUL_";
    memset(name + 9, 'X', 390);
    for (int i = 0; i < 10; i++) {
        name[9] = (char)('A' + i);
        setenv(name, "secret", 1);
    }
    tell();
    assert_non_null(strstr(logged, "no option of this program:"));
    assert_null(strstr(logged, "secret"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_options_and_others_variables_are_silent, clear),
        cmocka_unit_test_setup(test_a_slip_is_a_warning, clear),
        cmocka_unit_test_setup(test_what_is_near_to_nothing_is_one_line, clear),
        cmocka_unit_test_setup(test_long_names_and_many, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
