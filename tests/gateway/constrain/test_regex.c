/* Regular expressions that are looked for, and inside of JSON strings; what is said of those that
 * are refused. That they match as Python's do is tests/truth/test_regex.py. */
#include "gateway/constrain/regex.h"
#include "tests/gateway/support/constraint_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static probe_vocabulary vocabulary;

static int set_up(void **state) {
    (void)state;
    small_vocabulary file = small_vocabulary_of_bytes();
    vocabulary = probe_vocabulary_of(&file);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    probe_vocabulary_reset(&vocabulary);
    return 0;
}

static const lh_regex_options whole = {0};
static const lh_regex_options search = {.is_search = true};
static const lh_regex_options json = {.is_json_text = true};
static const lh_regex_options json_search = {.is_search = true, .is_json_text = true};

static void expect(const char *pattern, lh_regex_options options, const char *text, bool wanted) {
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_node node = lh_regex_add(grammar, pattern, strlen(pattern), options);
    if (node != LH_GRAMMAR_FAILED)
        lh_grammar_set_root(grammar, node);
    lh_constraint *constraint = probe_constraint(grammar, vocabulary.vocabulary);
    if (probe_matches(constraint, text, strlen(text)) != wanted)
        fail_msg("%s: \"%s\" is %s", pattern, text, wanted ? "refused" : "matched");
    lh_constraint_release(constraint);
}

static void searches(void **state) {
    (void)state;
    expect("b+", search, "abbc\n", true);
    expect("b+", search, "ac", false);
    expect("^b", search, "ba", true);
    expect("^b", search, "ab", false);
    expect("b$", search, "ab", true);
    expect("b$", search, "ba", false);
    expect("^a|b$", search, "ac", true);
    expect("^a|b$", search, "cb", true);
    expect("^a|b$", search, "cbc", false);
    expect("(^a|b)c", search, "xbc", true);
    expect("(^a|b)c", search, "xac", false);
    expect("^(?:a|b)$", search, "a", true);
    expect("^(?:a|b)$", search, "ab", false);
    expect("", search, "anything", true);
    expect("^$", search, "", true);
    expect("^$", search, "a", false);
}

static void writes_json(void **state) {
    (void)state;
    expect("a\"b", json, "a\\\"b", true);
    expect("a\"b", json, "a\"b", false);
    expect("\\\\", json, "\\\\", true);
    expect("[^a]", json, "\\n", true);
    expect("[^a]", json, "\n", false);
    expect("[^a]", json, "\\u0001", true);
    expect("[^a]", json, "\"", false);
    expect(".", json, "\\n", false);
    expect("\\n", json, "\\n", true);
    expect("\xC3\xA9", json, "\xC3\xA9", true);
    expect("b", json_search, "a\\\"b\\\\", true);
    expect("b", json_search, "a\"b", false);
}

static void reads_escapes(void **state) {
    (void)state;
    expect("\\uD83D\\uDE00", whole, "\xF0\x9F\x98\x80", true);
    expect("\\u{1F600}", whole, "\xF0\x9F\x98\x80", true);
    expect("\\cJ\\/\\-", whole, "\n/-", true);
    expect("(?<year>\\d{4})", whole, "2026", true);
}

static void expect_refusal(const char *pattern, lh_status wanted, const char *words) {
    lh_grammar *grammar;
    lh_error error;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    assert_int_equal(lh_regex_add(grammar, pattern, strlen(pattern), whole), LH_GRAMMAR_FAILED);
    lh_status status = lh_grammar_check(grammar, &error);
    if (status != wanted)
        fail_msg("%s: %s, not %s", pattern, lh_status_name(status), lh_status_name(wanted));
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    lh_grammar_destroy(grammar);
}

static void refuses_with_the_position(void **state) {
    (void)state;
    expect_refusal("ab(?=c)", LH_ERR_UNSUPPORTED, "character 4: look-around");
    expect_refusal("(a)\\1", LH_ERR_UNSUPPORTED, "back references");
    expect_refusal("a\\b", LH_ERR_UNSUPPORTED, "\\b");
    expect_refusal("\\p{L}", LH_ERR_UNSUPPORTED, "\\p{...}");
    expect_refusal("a++", LH_ERR_UNSUPPORTED, "possessive");
    expect_refusal("a^b", LH_ERR_UNSUPPORTED, "in the middle");
    expect_refusal("(a", LH_ERR_INVALID, "not closed");
    expect_refusal("[a", LH_ERR_INVALID, "character 1: a class is not closed");
    expect_refusal("a)", LH_ERR_INVALID, "character 1");
    expect_refusal("a**", LH_ERR_INVALID, "nothing to repeat");
    expect_refusal("a{2000000000}", LH_ERR_LIMIT, "10,000,000");
    char deep[512] = "";
    for (size_t i = 0; i < 101; i++)
        strcat(deep, "(");
    expect_refusal(deep, LH_ERR_LIMIT, "more than 100");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(reads_escapes),
        cmocka_unit_test(refuses_with_the_position),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
