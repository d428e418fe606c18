/* Grammars in GBNF: what is read, and with which words the rest is refused. */
#include "gateway/constrain/gbnf.h"
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

/* matched and refused: texts, NULL behind the last. */
static void expect(const char *text, const char *const *matched, const char *const *refused) {
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, text, strlen(text));
    lh_constraint *constraint = probe_constraint(grammar, vocabulary.vocabulary);
    for (; *matched; matched++)
        if (!probe_matches(constraint, *matched, strlen(*matched)))
            fail_msg("%s: \"%s\" is refused", text, *matched);
    for (; *refused; refused++)
        if (probe_matches(constraint, *refused, strlen(*refused)))
            fail_msg("%s: \"%s\" is matched", text, *refused);
    lh_constraint_release(constraint);
}

#define TEXTS(...)                                                                                 \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }

static void reads_items(void **state) {
    (void)state;
    expect("root ::= \"a\\n\\x41\\u00e9\\U0001F600\\\"\"", TEXTS("a\nA\xC3\xA9\xF0\x9F\x98\x80\""),
           TEXTS("a", ""));
    expect("root ::= [a-c] [^a-c] [\\]\\\\-] [-x] .", TEXTS("ax]--", "c\xC3\xA9\\x\xE2\x82\xAC"),
           TEXTS("dx]-a", "aa]-a", "ax]-", "ax]-\xE2\x82"));
    expect("root ::= \"a\"{2} \"b\"{2,} \"c\"{1,3} \"d\"{,2} \"e\"* \"f\"+ \"g\"?",
           TEXTS("aabbcf", "aabbbbcccddeeffg"), TEXTS("aabbccccf", "abbcf", "aabbcdddf", "aabbc"));
    expect("root ::= (\"a\" | (\"b\" \"c\")+)? \"\"", TEXTS("", "a", "bcbc"), TEXTS("ab", "b"));
}

static void reads_rules(void **state) {
    (void)state;
    expect("# a comment\n\nroot ::= item-1 (\n  \",\" # another\n  item-1 )* |\n  \"x\"\r\n"
           "\t| \"y\"\nitem-1 ::=\n [0-9]+",
           TEXTS("1", "1,22", "x", "y"), TEXTS("", "1,", "xy"));
    expect("root ::= a b\na ::= \"\"\nb ::= \"b\" a", TEXTS("b"), TEXTS("", "bb"));
}

static void expect_refusal(const char *text, lh_status wanted, const char *words) {
    lh_grammar *grammar;
    lh_error error;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_gbnf_add(grammar, text, strlen(text));
    lh_status status = lh_grammar_check(grammar, &error);
    if (status != wanted)
        fail_msg("%s: %s, not %s", text, lh_status_name(status), lh_status_name(wanted));
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    lh_grammar_destroy(grammar);
}

static void refuses_with_the_line(void **state) {
    (void)state;
    expect_refusal("root ::= \"a", LH_ERR_INVALID, "line 1");
    expect_refusal("root ::= x\n\nx ::= [a", LH_ERR_INVALID, "line 3");
    expect_refusal("root ::= x\nx = \"a\"", LH_ERR_INVALID, "line 2: ::= is expected");
    expect_refusal("root ::= (\"a\"", LH_ERR_INVALID, "parenthesis");
    expect_refusal("root ::= \"a\" )", LH_ERR_INVALID, "end of the rule");
    expect_refusal("root ::= \"\\q\"", LH_ERR_INVALID, "escape");
    expect_refusal("root ::= \"\\xZ\"", LH_ERR_INVALID, "hexadecimal");
    expect_refusal("root ::= \"\\ud800\"", LH_ERR_INVALID, "no such character");
    expect_refusal("root ::= \"\\U00110000\"", LH_ERR_INVALID, "no such character");
    expect_refusal("root ::= \"\\UFFFFFFFF\"", LH_ERR_INVALID, "no such character");
    expect_refusal("root ::= [\\U02006F00]", LH_ERR_INVALID, "no such character");
    expect_refusal("root ::= [b-a]", LH_ERR_INVALID, "before it begins");
    expect_refusal("root ::= \"a\"{3,2}", LH_ERR_INVALID, "minimum");
    expect_refusal("root ::= \"a\"{}", LH_ERR_INVALID, "{m}");
    expect_refusal("root ::= \"a\"{5000000000}", LH_ERR_LIMIT, "10,000,000");
    expect_refusal("root ::= \"a\"\nroot ::= \"b\"", LH_ERR_INVALID, "defined twice");
    expect_refusal("", LH_ERR_INVALID, "\"root\"");
    expect_refusal("root ::= \"\xFF\"", LH_ERR_INVALID, "UTF-8");
    char deep[256] = "root ::= ";
    for (size_t i = 0; i < 101; i++)
        strcat(deep, "(");
    expect_refusal(deep, LH_ERR_LIMIT, "more than 100");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_items),
        cmocka_unit_test(reads_rules),
        cmocka_unit_test(refuses_with_the_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
