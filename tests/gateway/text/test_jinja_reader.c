/* Tags of Jinja, token by token, and how their ends are read. */
#include "gateway/text/jinja_reader.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static lh_jinja_reader reader_of(const char *text) {
    return (lh_jinja_reader){.at = text, .end = text + strlen(text)};
}

/* `text` begins behind a tag's opening; the tokens with their kinds, and where it ends. */
static void expect_tag(const char *text, char close, const char *tokens, const char *rest) {
    static const char kinds[] = "nd's"; /* name, digits, string, sign */
    lh_jinja_reader reader = reader_of(text);
    lh_error error;
    char got[256] = "";
    if (lh_jinja_reader_take_tag(&reader, close, &error))
        fail_msg("%s: %s", text, error.message);
    for (size_t i = 0; i < reader.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%c:%.*s", i ? " " : "",
                 kinds[reader.tokens[i].kind], (int)reader.tokens[i].length, reader.tokens[i].text);
    assert_string_equal(got, tokens);
    assert_string_equal(reader.at, rest);
    lh_jinja_reader_reset(&reader);
}

static void reads_tokens(void **state) {
    (void)state;
    expect_tag(" a.b_1['c'] + 12 }}rest", '}', "n:a s:. n:b_1 s:[ ':c s:] s:+ d:12", "rest");
    expect_tag("if x=='%}' %}", '%', "n:if n:x s:= s:= ':%}", "");
    expect_tag("'it\\'s' \"a'b\"}}", '}', "':it\\'s ':a'b", "");
    expect_tag("{'a':{'b':1}}}}", '}', "s:{ ':a s:: s:{ ':b s:: d:1 s:} s:}",
               ""); /* the first "}}" is no end */
    expect_tag("{'a':{'b':1}} }}}}", '}', "s:{ ':a s:: s:{ ':b s:: d:1 s:} s:}", "}}");
    expect_tag("f(a[1])%}x", '%', "n:f s:( n:a s:[ d:1 s:] s:)", "x");
}

static void reads_what_an_end_says(void **state) {
    (void)state;
    static const struct {
        const char *text;
        char close;
        bool strip_next, trim_newline;
    } cases[] = {
        {"a}}", '}', false, false},  {"a-}}", '}', true, false},   {"a%}", '%', false, true},
        {"a -%}", '%', true, false}, {"a +%}", '%', false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_jinja_reader reader = reader_of(cases[i].text);
        assert_int_equal(lh_jinja_reader_take_tag(&reader, cases[i].close, NULL), LH_OK);
        assert_int_equal(reader.count, 1);
        assert_int_equal(reader.strip_next, cases[i].strip_next);
        assert_int_equal(reader.trim_newline, cases[i].trim_newline);
        lh_jinja_reader_reset(&reader);
    }
}

static void skips_comments(void **state) {
    (void)state;
    lh_jinja_reader reader = reader_of(" }} 'open # %} -#}x");
    assert_int_equal(lh_jinja_reader_skip_comment(&reader, NULL), LH_OK);
    assert_string_equal(reader.at, "x");
    assert_true(reader.strip_next && !reader.trim_newline);
    reader = reader_of("#}");
    assert_int_equal(lh_jinja_reader_skip_comment(&reader, NULL), LH_OK);
    assert_true(!reader.strip_next && reader.trim_newline);
}

static void finds_tags(void **state) {
    (void)state;
    static const char *const texts[] = {"{{x", "{%x", "{#x", "a { {% x", "{{{",
                                        "x{",  "{",   "",    "{x} {"};
    static const size_t wanted[] = {0, 0, 0, 4, 0, 2, 1, 0, 5};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        lh_jinja_reader reader = reader_of(texts[i]);
        assert_ptr_equal(lh_jinja_reader_find_tag(&reader), texts[i] + wanted[i]);
    }
}

static void refuses_tags_without_an_end(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "tag without an end"},
        {"a", "tag without an end"},
        {"a }", "tag without an end"},
        {"a (}}", "tag without an end"},
        {"'a }}", "string without an end"},
        {"'a\\'", "string without an end"},
        {"'a\\", "string without an end"},
        {"}}", "empty tag"},
        {" -}}", "empty tag"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_jinja_reader reader = reader_of(cases[i].text);
        lh_error error;
        assert_int_equal(lh_jinja_reader_take_tag(&reader, '}', &error), LH_ERR_UNSUPPORTED);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: \"%s\"", cases[i].text, error.message);
        lh_jinja_reader_reset(&reader);
    }
    lh_jinja_reader reader = reader_of(" no end #");
    assert_int_equal(lh_jinja_reader_skip_comment(&reader, NULL), LH_ERR_UNSUPPORTED);
}

static void survives_no_memory(void **state) {
    (void)state;
    char text[400]; /* enough tokens to grow their array */
    memset(text, '+', sizeof text);
    memcpy(text + sizeof text - 3, "}}", 3);
    for (size_t n = 1;; n++) {
        lh_jinja_reader reader = reader_of(text);
        failing_malloc_arm(n);
        lh_status status = lh_jinja_reader_take_tag(&reader, '}', NULL);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_jinja_reader_reset(&reader);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tokens),
        cmocka_unit_test(reads_what_an_end_says),
        cmocka_unit_test(skips_comments),
        cmocka_unit_test(finds_tags),
        cmocka_unit_test(refuses_tags_without_an_end),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
