/* Grammars in the notation of Lark: what is read, inside of JSON and outside, and with which words
 * the rest is refused. */
#include "gateway/constrain/lark.h"
#include "tests/gateway/support/constraint_probe.h"
#include "tests/support/failing_malloc.h"

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

static lh_grammar *read_text(const char *text, bool is_json_text) {
    lh_grammar *grammar;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_set_root(grammar, lh_lark_add(grammar, text, strlen(text), is_json_text));
    return grammar;
}

/* matched and refused: texts, NULL behind the last. */
static void expect(const char *text, bool is_json_text, const char *const *matched,
                   const char *const *refused) {
    lh_constraint *constraint =
        probe_constraint(read_text(text, is_json_text), vocabulary.vocabulary);
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
    expect("start: \"a\\n\\x41\\\"\" \"b\"i /[0-9]{2}\\/x?/ \"c\"..\"e\"", false,
           TEXTS("a\nA\"b12/xc", "a\nA\"B12/e"), TEXTS("a\nA\"b1/c", "a\nA\"b12/f"));
    expect("start: (\"a\" | \"b\")+ [\"c\"] \"d\"~2 \"e\"~1..2 \"f\"?", false,
           TEXTS("abcdde", "bddeef"), TEXTS("cdde", "ade", "addeee"));
    expect("start: \"a\" -> one\n     | \"b\" -> two // a comment\n     |\n", false,
           TEXTS("a", "b", ""), TEXTS("ab"));
}

static void reads_rules_and_terminals(void **state) {
    (void)state;
    expect("?start: item (_COMMA item)*\n!item.2: WORD | \"(\" start \")\"\n_COMMA.1: \",\"\n"
           "WORD: LETTER+\nLETTER: \"a\"..\"z\"\n",
           false, TEXTS("a,bc", "(a,(b)),c"), TEXTS("a,", "a b"));
    expect("start: \"x\" INT NL?\n%import common (INT, LF -> NL)\n", false, TEXTS("x12", "x1\n"),
           TEXTS("x", "x1\n\n"));
    expect("start: WORD WORD\nWORD: \"a\" \"b\"\n%import common.WS_INLINE\n%ignore WS_INLINE",
           false, TEXTS("abab", " ab  ab "), TEXTS("a bab", "ab\nab"));
}

/* Codex's own, of what it calls a patch. */
static const char patch[] =
    "start: begin_patch hunk+ end_patch\nbegin_patch: \"*** Begin Patch\" LF\nend_patch: \"*** End "
    "Patch\" LF?\n\nhunk: add_hunk | delete_hunk | update_hunk\nadd_hunk: \"*** Add File: \" "
    "filename LF add_line+\ndelete_hunk: \"*** Delete File: \" filename LF\nupdate_hunk: \"*** "
    "Update File: \" filename LF change_move? change?\n\nfilename: /(.+)/\nadd_line: \"+\" /(.*)/ "
    "LF -> line\n\nchange_move: \"*** Move to: \" filename LF\nchange: (change_context | "
    "change_line)+ eof_line?\nchange_context: (\"@@\" | \"@@ \" /(.+)/) LF\nchange_line: (\"+\" | "
    "\"-\" | \" \") /(.*)/ LF\neof_line: \"*** End of File\" LF\n\n%import common.LF\n";

static void reads_the_grammar_of_patches(void **state) {
    (void)state;
    expect(patch, false,
           TEXTS("*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n*** End Patch",
                 "*** Begin Patch\n*** Update File: a\n@@ f()\n-x\n+\"y\"\n*** End Patch\n"),
           TEXTS("*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Add File: a\none\n"));
    expect(patch, true, TEXTS("*** Begin Patch\\n*** Add File: a\\n+\\\"\\\\n\\\"\\n*** End Patch"),
           TEXTS("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch",
                 "*** Begin Patch\\n*** Add File: a\\n+\"\\n*** End Patch"));
}

static void refuses_the_rest_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text;
        lh_status status;
        const char *words;
    } rows[] = {
        {"start: a", LH_ERR_INVALID, "no rule \"a\""},
        {"a: \"x\"", LH_ERR_INVALID, "no rule \"start\""},
        {"start: \"x\"\nstart: \"y\"", LH_ERR_INVALID, "line 2: a name is defined twice"},
        {"start: \"x", LH_ERR_INVALID, "line 1: a string is not closed"},
        {"start: /x", LH_ERR_INVALID, "a regular expression is not closed"},
        {"start: /x./s", LH_ERR_UNSUPPORTED, "a flag"},
        {"start: /(?=x)/", LH_ERR_UNSUPPORTED, "look"},
        {"start: (\"x\"", LH_ERR_INVALID, "a parenthesis is not closed"},
        {"start \"x\"", LH_ERR_INVALID, "':' is expected"},
        {"start: \"x\" )", LH_ERR_INVALID, "the end of the line is expected"},
        {"start: \"x\"~3..2", LH_ERR_INVALID, "the minimum"},
        {"start: \"ab\"..\"c\"", LH_ERR_INVALID, "a range is of two characters"},
        {"start: \"\\q\"", LH_ERR_INVALID, "no such escape"},
        {"start: a{b}", LH_ERR_UNSUPPORTED, "templates"},
        {"start: X\n%import python.NAME", LH_ERR_UNSUPPORTED, "only imports of common"},
        {"start: X\n%import common.X", LH_ERR_UNSUPPORTED, "line 2: an import of this name"},
        {"start: \"x\"\n%override start: \"y\"", LH_ERR_UNSUPPORTED, "directives"},
        {"start: \"\xff\"", LH_ERR_INVALID, "not UTF-8"},
        {"", LH_ERR_INVALID, "no rule \"start\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_error error;
        lh_grammar *grammar = read_text(rows[i].text, false);
        assert_int_equal(lh_grammar_check(grammar, &error), rows[i].status);
        if (!strstr(error.message, rows[i].words))
            fail_msg("%s: \"%s\"", rows[i].text, error.message);
        lh_grammar_destroy(grammar);
    }
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_grammar *grammar;
        assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
        failing_malloc_arm(n);
        lh_lark_add(grammar, patch, sizeof patch - 1, true);
        bool failed = failing_malloc_disarm();
        assert_int_equal(lh_grammar_check(grammar, NULL), failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_grammar_destroy(grammar);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_items),
        cmocka_unit_test(reads_rules_and_terminals),
        cmocka_unit_test(reads_the_grammar_of_patches),
        cmocka_unit_test(refuses_the_rest_with_its_line),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
