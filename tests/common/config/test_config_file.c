/* Files as people write them, wrong ones, and hostile ones: each fault with its line. */
#include "common/config/config_file.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static lh_config_file file;
static lh_config_problems problems;
static lh_error error;

static int reset(void **state) {
    (void)state;
    lh_config_file_reset(&file);
    lh_config_problems_reset(&problems);
    problems.path = "g.yaml";
    return 0;
}

static lh_status parse(const char *text) {
    reset(NULL);
    return lh_config_file_parse(text, strlen(text), &file, &problems, &error);
}

static void expect(const char *text, size_t count, const char *told) {
    assert_int_equal(parse(text), LH_OK);
    if (problems.count != count ||
        (count && (problems.lines.length < strlen(told) ||
                   memcmp(problems.lines.bytes, told, strlen(told)) != 0)))
        fail_msg("%s: %zu problems, not %s:\n%.*s", text, problems.count, told,
                 (int)problems.lines.length, problems.lines.bytes ? problems.lines.bytes : "");
}

#define EXPECT_SOUND(text)       expect(text, 0, "")
#define EXPECT_FAULT(text, told) expect(text, 1, told)

static void value_is(size_t i, const char *name, const char *text, uint32_t line) {
    assert_true(i < file.count);
    assert_string_equal(file.values[i].name, name);
    assert_string_equal(file.values[i].text, text);
    assert_int_equal(file.values[i].line, line);
}

static void test_values(void **state) {
    (void)state;
    EXPECT_SOUND("# a gateway\n"
                 "listen: 0.0.0.0:8080   # for all\n"
                 "\n"
                 "model: /models/a b.gguf\n"
                 "quoted: \"1G\"\n"
                 "'single': '{\"enable_thinking\": false}'\n"
                 "nothing: ''\n"
                 "folded: >-\n  a\n  b\n"
                 "rebalance: off\n");
    assert_int_equal(file.count, 7);
    value_is(0, "listen", "0.0.0.0:8080", 2);
    value_is(1, "model", "/models/a b.gguf", 4);
    value_is(2, "quoted", "1G", 5);
    value_is(3, "single", "{\"enable_thinking\": false}", 6);
    value_is(4, "nothing", "", 7);
    value_is(5, "folded", "a b", 8);
    value_is(6, "rebalance", "off", 11);
    assert_false(file.values[0].is_list);
}

static void test_lists(void **state) {
    (void)state;
    EXPECT_SOUND("sites: [home, office]\nhosts:\n  - a.example\n  - 'b'\nnone: []\n");
    value_is(0, "sites", "home,office", 1);
    value_is(1, "hosts", "a.example,b", 2);
    value_is(2, "none", "", 5);
    for (size_t i = 0; i < 3; i++)
        assert_true(file.values[i].is_list);
    EXPECT_FAULT("sites: [a, [b, c], d]\nx: 1\n",
                 "g.yaml:1: sites: a list has values, not other lists");
    value_is(0, "x", "1", 2);
    EXPECT_FAULT("sites:\n  - a\n  - b,c\n", "g.yaml:3: sites: has a comma");
    EXPECT_FAULT("sites:\n  - a\n  -\n", "g.yaml:3: sites: has no value");
}

static void test_empty_files(void **state) {
    (void)state;
    EXPECT_SOUND("");
    EXPECT_SOUND("# nothing\n\n");
    EXPECT_SOUND("---\n# nothing\n");
    EXPECT_SOUND("---\n{}\n");
    EXPECT_SOUND("\xef\xbb\xbf# from Windows\r\na: 1\r\n");
    value_is(0, "a", "1", 2);
}

static void test_faults_have_their_line(void **state) {
    (void)state;
    EXPECT_FAULT("a: 1\nb:\nc: 2\n", "g.yaml:2: b: has no value: leave the line out");
    EXPECT_FAULT("a: ~\n", "g.yaml:1: a: has no value");
    EXPECT_FAULT("a: null\n", "g.yaml:1: a: has no value");
    EXPECT_FAULT("a: 1\n\na: 2\n", "g.yaml:3: a: is given twice, first on line 1");
    value_is(0, "a", "1", 1);
    EXPECT_FAULT("a: 1\nb:\n  c: 1\n  d: [e]\nf: 2\n",
                 "g.yaml:2: b: one value is wanted, and not a mapping");
    value_is(1, "f", "2", 5);
    EXPECT_FAULT("a: \"x\\0y\"\n", "g.yaml:1: a: has a NUL character");
    EXPECT_FAULT("- a\n- b\n", "g.yaml:1: lines of \"name: value\" are wanted");
    EXPECT_FAULT("just words\n", "g.yaml:1: lines of \"name: value\" are wanted");
    EXPECT_FAULT("a: 1\n? [b]\n: 2\n", "g.yaml:2: a name is wanted here");
    EXPECT_FAULT("a: 1\n\"b\\0c\": 2\n", "g.yaml:2: a name is wanted here");
    EXPECT_FAULT("a: 1\n---\nb: 2\n", "g.yaml:2: a second document");
    EXPECT_FAULT("a: 1\nb: [c\nd: 2\n", "g.yaml:3: this is no YAML: ");
    EXPECT_FAULT("a: 1\nhosts: *\n", "g.yaml:2: this is no YAML: ");
    EXPECT_FAULT("a: 1\n\tb: 2\n", "g.yaml:2: this is no YAML: ");
    EXPECT_FAULT("a: 1\nb: \xff\xfe\n", "g.yaml:2: this is no YAML: ");
    EXPECT_FAULT("a: 1\nb: \x01\n", "g.yaml:2: this is no YAML: ");
}

static void test_what_yaml_could_do_besides(void **state) {
    (void)state;
    EXPECT_FAULT("a: &x 1\nb: *x\n", "g.yaml:1: anchors and aliases");
    EXPECT_FAULT("a: 1\nb: *x\n", "g.yaml:2: anchors and aliases");
    EXPECT_FAULT("a: [&x 1, *x]\n", "g.yaml:1: anchors and aliases");
    EXPECT_FAULT("a: &x [1]\n", "g.yaml:1: anchors and aliases");
    EXPECT_FAULT("&x {a: 1}\n", "g.yaml:1: anchors and aliases");
    EXPECT_FAULT("a: 1\n<<: *x\n", "g.yaml:2: anchors and aliases");
    EXPECT_FAULT("a: !!str 1\n", "g.yaml:1: tags");
    EXPECT_FAULT("a: !x [1]\n", "g.yaml:1: tags");
    EXPECT_FAULT("!x {a: 1}\n", "g.yaml:1: tags");
    EXPECT_FAULT("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "g.yaml:1: anchors and aliases");
}

static char *repeated(const char *part, size_t times) {
    char *text = malloc(strlen(part) * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * strlen(part), part, strlen(part));
    text[strlen(part) * times] = '\0';
    return text;
}

static void test_bounds(void **state) {
    (void)state;
    char *text = repeated("#234567\n", LH_CONFIG_FILE_BYTES_MAX / 8);
    EXPECT_SOUND(text);
    free(text);
    text = repeated("#234567\n", LH_CONFIG_FILE_BYTES_MAX / 8 + 1);
    EXPECT_FAULT(text, "g.yaml: is longer than 64 KiB");
    free(text);
    text = repeated("[", 60000);
    assert_int_equal(parse(text), LH_OK);
    assert_true(problems.count > 0);
    free(text);
    text = repeated("? ", 30000);
    assert_int_equal(parse(text), LH_OK);
    assert_true(problems.count > 0);
    free(text);
    char line[LH_CONFIG_VALUE_BYTES_MAX + 16] = "a: ";
    memset(line + 3, 'x', LH_CONFIG_VALUE_BYTES_MAX);
    EXPECT_SOUND(line);
    line[3 + LH_CONFIG_VALUE_BYTES_MAX] = 'x';
    EXPECT_FAULT(line, "g.yaml:1: a: has a value of more than 4096 bytes");
}

/* Sixty thousand brackets took libyaml twelve seconds. */
static void test_deep_nesting_ends_the_reading(void **state) {
    (void)state;
    char text[16 + 60000] = "sites: ";
    size_t length = strlen(text);
    memset(text + length, '[', 60000);
    reset(NULL);
    assert_int_equal(lh_config_file_parse(text, length + 60000, &file, &problems, &error), LH_OK);
    assert_int_equal(problems.count, 2); /* a list in a list, and its depth */
}

static void test_a_list_s_values_are_bounded_together(void **state) {
    (void)state;
    char line[LH_CONFIG_VALUE_BYTES_MAX + 16] = "a: [b, ", over[LH_CONFIG_VALUE_BYTES_MAX + 16];
    size_t rest = LH_CONFIG_VALUE_BYTES_MAX - 2; /* without "b," */
    memset(line + 7, 'x', rest);
    memcpy(over, line, sizeof line);
    strcpy(line + 7 + rest, "]");
    EXPECT_SOUND(line);
    assert_int_equal(strlen(file.values[0].text), LH_CONFIG_VALUE_BYTES_MAX);
    strcpy(over + 7 + rest, "x]");
    EXPECT_FAULT(over, "g.yaml:1: a: has a value of more than 4096 bytes");
}

static void test_too_many_values(void **state) {
    (void)state;
    char text[(LH_CONFIG_FILE_VALUES_MAX + 1) * 8 + 1];
    for (unsigned i = 0; i <= LH_CONFIG_FILE_VALUES_MAX; i++)
        snprintf(text + i * 8, 9, "n%03u: x\n", i % 1000u);
    EXPECT_FAULT(text, "g.yaml:257: more than 256 values");
    text[LH_CONFIG_FILE_VALUES_MAX * 8] = '\0';
    EXPECT_SOUND(text);
}

static void test_the_first_twenty_are_told(void **state) {
    (void)state;
    char *text = repeated("a: 1\n", 30);
    assert_int_equal(parse(text), LH_OK);
    free(text);
    size_t lines = 0;
    for (size_t i = 0; i < problems.lines.length; i++)
        lines += problems.lines.bytes[i] == '\n';
    assert_int_equal(problems.count, 29);
    assert_int_equal(lines, LH_CONFIG_PROBLEMS_TOLD);
}

static void test_messages_are_printable(void **state) {
    (void)state;
    reset(NULL);
    lh_config_problems_add(&problems, 3, "a\nb\x1b[31m\x7f");
    static const char wanted[] = "g.yaml:3: a?b?[31m?\n";
    assert_int_equal(problems.lines.length, strlen(wanted));
    assert_memory_equal(problems.lines.bytes, wanted, strlen(wanted));
}

static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/longhaul-config-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, "a: 1\n", 5), 5);
    reset(NULL);
    problems.path = path;
    assert_int_equal(lh_config_file_read(&file, &problems, &error), LH_OK);
    assert_int_equal(problems.count, 0);
    value_is(0, "a", "1", 1);
    close(descriptor);
    unlink(path);
    reset(NULL);
    problems.path = path;
    assert_int_equal(lh_config_file_read(&file, &problems, &error), LH_OK);
    assert_int_equal(problems.count, 1);
    reset(NULL);
    problems.path = "/";
    assert_int_equal(lh_config_file_read(&file, &problems, &error), LH_OK);
    assert_int_equal(problems.count, 1);
    reset(NULL);
    problems.path = "/dev/zero";
    assert_int_equal(lh_config_file_read(&file, &problems, &error), LH_OK);
    assert_int_equal(problems.count, 1);
}

static void test_no_memory(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        reset(NULL);
        failing_malloc_arm(n);
        static const char text[] = "a: 1\nb: [c, d]\n";
        lh_status status = lh_config_file_parse(text, strlen(text), &file, &problems, &error);
        if (!failing_malloc_disarm())
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_true(n < 100);
    }
    assert_int_equal(file.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_faults_have_their_line),
        cmocka_unit_test(test_what_yaml_could_do_besides),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_deep_nesting_ends_the_reading),
        cmocka_unit_test(test_a_list_s_values_are_bounded_together),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_the_first_twenty_are_told),
        cmocka_unit_test(test_messages_are_printable),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, reset);
}
