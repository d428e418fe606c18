#include "common/base/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX 6

static int runs;
static char last[64]; /* word behind the command that ran */

static int run_key(int argc, char **argv) {
    runs++;
    snprintf(last, sizeof last, "%s", argc > 2 ? argv[2] : "");
    return 7;
}

static const lh_option_table key_options = {.program = "longhaul-test key",
                                            .arguments = "NAME",
                                            .summary = "Makes a key",
                                            .example = "longhaul-test key alice"},
                             rotate_options = {.program = "longhaul-test rotate-ca",
                                               .summary = "Renews it"},
                             join_options = {.program = "longhaul-test join",
                                             .arguments = "URL TOKEN",
                                             .summary = "Joins"};

static const lh_command commands[] = {
    {"key", "makes a key", &key_options, run_key},
    {"rotate-ca", "renews it", &rotate_options, run_key},
    {"join", "joins", &join_options, NULL},
};

static lh_option_table table = {.program = "longhaul-test",
                                .summary = "Tests commands",
                                .commands = commands,
                                .command_count = 3};

static bool is_done;
static int status;
static char *out, *err;

/* Words up to NULL, behind the program's name. */
static void run(const char *first, ...) {
    char *argv[WORDS_MAX + 1] = {"longhaul-test"};
    int argc = 1;
    size_t out_size, err_size;
    va_list words;
    va_start(words, first);
    for (const char *word = first; word; word = va_arg(words, const char *))
        argv[argc++] = (char *)(uintptr_t)word;
    va_end(words);
    free(out);
    free(err);
    FILE *to_out = open_memstream(&out, &out_size), *to_err = open_memstream(&err, &err_size);
    runs = 0;
    is_done = lh_commands_run(&table, argc, argv, to_out, to_err, &status);
    fclose(to_out);
    fclose(to_err);
}

static void a_command_is_run_with_its_words(void **state) {
    (void)state;
    run("key", "alice", NULL);
    assert_true(is_done && runs == 1 && status == 7);
    assert_string_equal(last, "alice");
    run("rotate-ca", NULL);
    assert_true(is_done && runs == 1 && status == 7);
}

static void take(const char *const *words, int count, const char *word, int left) {
    static const lh_option options[] = {
        {"from", LH_OPTION_TEXT, 0, "", "PATH", 0, 0, NULL, "a file"},
        {"admin", LH_OPTION_FLAG, 0, "0", NULL, 0, 0, NULL, "more"},
    };
    const lh_option_table of = {.options = options, .count = 2};
    char *argv[WORDS_MAX + 1] = {"longhaul-test", "key"}, **at = argv;
    int argc = 2 + count;
    for (int i = 0; i < count; i++)
        argv[2 + i] = (char *)(uintptr_t)words[i];
    const char *taken = lh_command_take_word(&of, &argc, &at);
    assert_int_equal(argc, 1 + left);
    assert_string_equal(taken ? taken : "-", word);
    assert_string_equal(at[0], "key");
    for (int i = 1; i < argc; i++)
        assert_string_not_equal(at[i], word);
}

static void a_word_is_found_between_flags(void **state) {
    (void)state;
    take((const char *const[]){"bob", "--admin"}, 2, "bob", 1);
    take((const char *const[]){"--admin", "bob"}, 2, "bob", 1);
    take((const char *const[]){"--from", "bob", "carol"}, 3, "carol", 2);
    take((const char *const[]){"--from=bob", "carol"}, 2, "carol", 1);
    take((const char *const[]){"--from", "bob"}, 2, "-", 2);
    take((const char *const[]){"--from"}, 1, "-", 1);
    take(NULL, 0, "-", 0);
}

static void what_is_no_command_is_the_programs(void **state) {
    (void)state;
    run(NULL);
    assert_false(is_done);
    run("--model", "key", NULL);
    assert_false(is_done);
    run("join", "https://a", "b", NULL);
    assert_false(is_done);
    assert_string_equal(err, "");
}

static void help_is_told_in_every_usual_way(void **state) {
    (void)state;
    run("help", NULL);
    assert_true(is_done && status == 0 && runs == 0);
    assert_non_null(strstr(out, "longhaul-test COMMAND"));
    assert_non_null(strstr(out, "  key NAME"));
    assert_non_null(strstr(out, "renews it"));
    assert_non_null(strstr(out, "Exit status: 0"));
    run("help", "key", NULL);
    assert_true(is_done && status == 0);
    assert_non_null(strstr(out, "usage: longhaul-test key NAME\n"));
    assert_non_null(strstr(out, "Example:\n  longhaul-test key alice\n"));
    run("key", "-h", NULL);
    assert_true(is_done && status == 0 && runs == 0);
    assert_non_null(strstr(out, "usage: longhaul-test key"));
    run("join", "--help", NULL);
    assert_true(is_done && status == 0);
    run("help", "rotate-ca", NULL);
    assert_non_null(strstr(out, "usage: longhaul-test rotate-ca\n\nRenews it\n"));
    assert_null(strstr(out, "Example"));
}

static void a_wrong_word_suggests_the_right_one(void **state) {
    (void)state;
    run("kye", NULL);
    assert_true(is_done && status == 2 && runs == 0);
    assert_string_equal(err, "longhaul-test: unknown command 'kye'; did you mean key?\n");
    run("help", "rotate", NULL);
    assert_int_equal(status, 2);
    assert_non_null(strstr(err, "did you mean rotate-ca?"));
    run("hepl", NULL);
    assert_non_null(strstr(err, "did you mean help?"));
    run("elephants-and-more", NULL);
    assert_int_equal(status, 2);
    assert_non_null(strstr(err, "`longhaul-test help` lists them"));
}

static void a_program_of_commands_alone_tells_them(void **state) {
    (void)state;
    table.needs_command = true;
    run(NULL);
    assert_true(is_done && status == 2);
    assert_non_null(strstr(err, "usage: longhaul-test COMMAND"));
    assert_string_equal(out, "");
    table.needs_command = false;
    free(out);
    free(err);
    out = err = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_run_with_its_words),
        cmocka_unit_test(a_word_is_found_between_flags),
        cmocka_unit_test(what_is_no_command_is_the_programs),
        cmocka_unit_test(help_is_told_in_every_usual_way),
        cmocka_unit_test(a_wrong_word_suggests_the_right_one),
        cmocka_unit_test(a_program_of_commands_alone_tells_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
