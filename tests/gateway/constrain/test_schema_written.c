/* What arguments written parameter by parameter may be, and what of a schema is refused. */
#include "gateway/constrain/constraint.h"
#include "gateway/constrain/schema_written.h"
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
    small_vocabulary file = small_vocabulary_rich();
    vocabulary = probe_vocabulary_of(&file);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    probe_vocabulary_reset(&vocabulary);
    return 0;
}

static json_t *parse(const char *text) {
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static lh_grammar *grammar_of(const char *schema) {
    lh_grammar *grammar;
    json_t *parsed = parse(schema),
           *marks = parse("{\"open\": \"<parameter=\", \"separator\": \">\\n\", "
                          "\"close\": \"</parameter>\", \"end\": \"\\n</parameter>\\n\"}");
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_set_root(grammar, lh_schema_written_add(grammar, parsed, marks));
    json_decref(parsed);
    json_decref(marks);
    return grammar;
}

/* Texts that match (good), and that do not; each list ends with NULL. */
static void check(const char *schema, const char *const *good, const char *const *bad) {
    lh_constraint *constraint = probe_constraint(grammar_of(schema), vocabulary.vocabulary);
    for (; *good; good++)
        if (!probe_matches(constraint, *good, strlen(*good)))
            fail_msg("%s refuses \"%s\"", schema, *good);
    for (; *bad; bad++)
        if (probe_matches(constraint, *bad, strlen(*bad)))
            fail_msg("%s takes \"%s\"", schema, *bad);
    lh_constraint_release(constraint);
}

#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"

static void texts_are_as_they_are_and_all_else_is_json(void **state) {
    (void)state;
    check("{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": "
          "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7}}, \"required\": [\"city\"]}",
          (const char *const[]){P("city", "Berne"), P("city", "a \"<b>\"\n\nc"), P("city", ""),
                                P("city", "Berne") P("days", "7"), NULL},
          (const char *const[]){"", P("days", "7"), P("city", "a") P("days", "8"),
                                P("days", "7") P("city", "a"), P("city", "a") P("city", "b"),
                                P("city", "</parameter>"), P("city", "a") P("x", "b"), NULL});
}

static void words_and_references_are_followed(void **state) {
    (void)state;
    check("{\"$defs\": {\"n\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}}}, "
          "\"properties\": {\"sky\": {\"enum\": [\"clear\", \"grey\"]}, \"list\": "
          "{\"$ref\": \"#/$defs/n\"}, \"maybe\": {\"type\": [\"string\", \"null\"]}}, "
          "\"required\": [\"sky\", \"list\"]}",
          (const char *const[]){P("sky", "grey") P("list", "[true, false]"),
                                P("sky", "clear") P("list", "[]") P("maybe", "null"), NULL},
          (const char *const[]){P("sky", "\"grey\"") P("list", "[]"),
                                P("sky", "gr") P("list", "[]"), P("sky", "grey") P("list", "[1]"),
                                NULL});
}

static void without_properties_all_may_come(void **state) {
    (void)state;
    check("{\"type\": \"object\"}",
          (const char *const[]){"", P("a", "1"), P("a", "1") P("b c", "x y"), NULL},
          (const char *const[]){P("", "1"), "x", P("a", "</parameter>"), NULL});
    check("{\"type\": \"object\", \"additionalProperties\": false}",
          (const char *const[]){"", NULL}, (const char *const[]){P("a", "1"), NULL});
}

static void what_cannot_be_followed_is_refused_by_name(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{\"anyOf\": []}", "'anyOf'"},
        {"{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"x\"}}}",
         "parameter 'a': keyword 'pattern'"},
        {"{\"properties\": {\"a\": {\"const\": \"x</parameter>\"}}}", "parameter 'a'"},
        {"{\"properties\": {\"a>b\": {}}}", "'a>b'"},
        {"{\"properties\": {}, \"required\": [\"a\"]}", "'required'"},
        {"{\"properties\": {\"a\": {\"type\": \"array\", \"maxContains\": 1}}}", "parameter 'a'"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lh_grammar *grammar = grammar_of(rows[i][0]);
        lh_error error = {.message = ""};
        assert_int_equal(lh_grammar_check(grammar, &error), LH_ERR_UNSUPPORTED);
        if (!strstr(error.message, rows[i][1]))
            fail_msg("\"%s\" does not say %s", error.message, rows[i][1]);
        lh_grammar_destroy(grammar);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_as_they_are_and_all_else_is_json),
        cmocka_unit_test(words_and_references_are_followed),
        cmocka_unit_test(without_properties_all_may_come),
        cmocka_unit_test(what_cannot_be_followed_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
