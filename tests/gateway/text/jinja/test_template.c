/* Templates against what jinja2 renders (tests/truth/test_jinja.py compares far more); where each
 * byte of an output came from; and what a hostile template is stopped by. */
#include "gateway/text/jinja/template.h"

#include "common/base/utf8.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tm day = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5};

static lh_status render_json(const char *text, const char *context, lh_jinja_rendering *made,
                             lh_error *error) {
    lh_jinja_template *jinja = NULL;
    lh_jinja_variable variables[16];
    size_t count = 0;
    json_t *object = json_loads(context, 0, NULL), *value;
    const char *name;
    json_object_foreach(object, name, value) variables[count++] =
        (lh_jinja_variable){name, value, strcmp(name, "bos_token") == 0};
    lh_status status = lh_jinja_template_parse(text, strlen(text), &jinja, error);
    if (!status)
        status = lh_jinja_template_render(jinja, variables, count, &day, made, error);
    lh_jinja_template_destroy(jinja);
    json_decref(object);
    return status;
}

static void expect(const char *text, const char *context, const char *wanted) {
    lh_jinja_rendering made = {0};
    lh_error error = {0};
    if (render_json(text, context, &made, &error))
        fail_msg("%s: %s", text, error.message);
    char *shown = strndup(made.text, made.length);
    assert_string_equal(shown, wanted);
    free(shown);
    lh_jinja_rendering_reset(&made);
}

static void expect_failure(const char *text, const char *context, lh_status wanted,
                           const char *words) {
    lh_jinja_rendering made = {0};
    lh_error error = {0};
    assert_int_equal(render_json(text, context, &made, &error), wanted);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" is not in: %s", words, error.message);
    lh_jinja_rendering_reset(&made);
}

static void white_space_around_tags_goes_as_transformers_has_it(void **state) {
    (void)state;
    expect("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "{}", "a\n  b\nc");
    expect("a {%- if true -%} b {%- endif -%} c", "{}", "abc");
    expect("  {{ 1 }}\n{# c #}\nx", "{}", "  1\nx");
    expect("{%+ if true +%}\nb{% endif %}", "{}", "\nb");
    expect("a\r\nb\n\n", "{}", "a\nb\n");
    expect("{% raw %}{{ x }}{% endraw %}", "{}", "{{ x }}");
}

static void expressions_bind_as_in_python(void **state) {
    (void)state;
    expect("{{ 1 ~ 2 * 3 ~ 4 }} {{ -2 ** 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 / 2 }}", "{}",
           "164 4 -4 2 3.5");
    expect("{{ 1 < 2 < 3 }} {{ 1 in [1, 2] }} {{ not 1 == 2 }} {{ 'a' 'b' }}", "{}",
           "True True True ab");
    expect("{{ x.y.z if x.y else 'no' }}{{ 'q' if false }}", "{\"x\":{\"y\":null}}", "no");
    expect("{{ s[1:3] }}{{ s[::-1] }}{{ s[-1] }}", "{\"s\":\"a\\u00e9b\"}",
           "\xC3\xA9"
           "bb\xC3\xA9"
           "ab");
    expect("{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }} {{ [1.5, 'a', none] }}", "{}",
           "0.30000000000000004 1e+16 1e-05 100.0 [1.5, 'a', None]");
    expect("{{ '%05.1f|%-4s|%x' % (2.25, 'a', 255) }}{{ '{:>4}{!r}'.format(1, 'b') }}", "{}",
           "002.2|a   |ff   1'b'");
}

static void statements_keep_their_variables(void **state) {
    (void)state;
    expect("{% set x = 1 %}{% for i in [1, 2] %}{% set x = 5 %}{% endfor %}{{ x }}", "{}", "1");
    expect("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}"
           "{% endfor %}{{ ns.n }}",
           "{}", "3");
    expect("{% for k, v in d.items() if v %}{{ loop.index }}{{ k }}{% if not loop.last %},"
           "{% endif %}{% else %}none{% endfor %}",
           "{\"d\":{\"a\":1,\"b\":0,\"c\":2}}", "1a,2c");
    expect("{% for x in l if x < 3 %}{{ x }}{{ loop.last }} {% endfor %}"
           "{% for x in l | reject('gt', 2) %}{{ x }}{{ loop.nextitem }} {% endfor %}",
           "{\"l\":[1,2,3,4]}", "1False 2True 12 2 ");
    expect("{% for x in t recursive %}{{ x.n }}{% if x.t %}({{ loop(x.t) }}){% endif %}"
           "{% endfor %}",
           "{\"t\":[{\"n\":1,\"t\":[{\"n\":2}]},{\"n\":3}]}", "1(2)3");
    expect("{% macro m(a, b='d') %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}"
           "{% call m('x') %}in{% endcall %}",
           "{}", "xdin");
    expect("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
           "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
           "{}", "013");
    expect("{% set t %} a {% endset %}[{{ t | trim }}]{% filter upper %}x{% endfilter %}"
           "{% generation %}g{% endgeneration %}",
           "{}", "[a]Xg");
}

static void filters_and_tests_do_as_in_jinja(void **state) {
    (void)state;
    expect(
        "{{ m | selectattr('r', 'equalto', 'u') | map(attribute='c') | join('+') }}",
        "{\"m\":[{\"r\":\"u\",\"c\":\"1\"},{\"r\":\"s\",\"c\":\"2\"},{\"r\":\"u\",\"c\":\"3\"}]}",
        "1+3");
    expect("{{ d | tojson }}{{ d | tojson(indent=1) }}", "{\"d\":{\"a\":[1,\"<\\u00e9\\n\"]}}",
           "{\"a\": [1, \"<\xC3\xA9\\n\"]}{\n \"a\": [\n  1,\n  \"<\xC3\xA9\\n\"\n ]\n}");
    expect("{{ x is defined }}{{ y is none }}{{ 3 is odd }}{{ 'a' is in ['a'] }}", "{\"y\":null}",
           "FalseTrueTrueTrue");
    expect("{{ strftime_now('%d %b %Y') }}", "{}", "26 Jul 2024");
}

/* The output's bytes: 't' of the template, 'd' of data. */
static void expect_spans(const char *text, const char *context, const char *wanted,
                         const char *origins) {
    lh_jinja_rendering made = {0};
    lh_error error = {0};
    if (render_json(text, context, &made, &error))
        fail_msg("%s: %s", text, error.message);
    assert_int_equal(made.length, strlen(wanted));
    assert_memory_equal(made.text, wanted, made.length);
    size_t at = 0;
    for (size_t i = 0; i < made.span_count; i++) {
        assert_true(made.spans[i].length > 0);
        for (size_t k = 0; k < made.spans[i].length; k++)
            assert_int_equal(made.spans[i].is_of_template ? 't' : 'd', origins[at++]);
    }
    assert_int_equal(at, made.length);
    lh_jinja_rendering_reset(&made);
}

static void what_a_user_wrote_stays_data(void **state) {
    (void)state;
    const char *context = "{\"u\":\"<x>\",\"bos_token\":\"<s>\",\"m\":{\"role\":\"user\"}}";
    expect_spans("{{ bos_token }}<i>{{ u }}", context, "<s><i><x>", "ttttttddd");
    expect_spans("{{ ('<' ~ u + '>') | upper }}", context, "<<X>>", "tdddt");
    expect_spans("{{ u | replace('x', '|') }}", context, "<|>", "dtd");
    expect_spans("{{ [u, '<'] | join('-') }}{{ (u + 'ab')[1:4] }}", context, "<x>-<x>a",
                 "dddttddt");
    expect_spans("{% set v %}{{ u }}!{% endset %}{{ v | trim('!') }}", context, "<x>", "ddd");
    expect_spans("{{ '%s.' % u }}{{ u | tojson }}", context, "<x>.\"<x>\"", "dddttdddt");
    expect_spans("<|{{ m.role }}|>", context, "<|user|>", "tttttttt");
}

/* Of long texts, which are gone on with in place: once. */
static void texts_that_begin_alike_are_apart(void **state) {
    (void)state;
    char *long_text = malloc(2001), wanted[4200];
    memset(long_text, 'u', 2000);
    long_text[2000] = 0;
    json_t *object = json_pack("{s:s}", "u", long_text);
    char *context = json_dumps(object, 0);
    snprintf(wanted, sizeof wanted, "(%s1)2!%s3", long_text, long_text + 1);
    expect("{% set a = '(' ~ u %}{% set b = a ~ 1 %}{% set b = b + ')' %}{% set c = a[2:] ~ 3 %}"
           "{{ b ~ 2 }}{{ '!' ~ c }}",
           context, wanted);
    snprintf(wanted, sizeof wanted, "(%s<(%s<>", long_text, long_text);
    expect("{% set a = '(' ~ u %}{{ a ~ '<' ~ (a ~ '<') ~ '>' }}", context, wanted);
    expect(
        "{% set a = '(' ~ u ~ ')' %}{% set b = a ~ 'x' %}{% set c = a ~ 'yz' %}{% set d = b ~ '1' "
        "%}{{ [a[-1:], b[-2:], c[-3:], d[-3:]] | join(' ') }}",
        context, ") )x )yz )x1");
    free(context);
    free(long_text);
    json_decref(object);
}

/* As Reka's template has it: the whole prompt in a variable, to which each message is added. */
static void put_together(void *context, size_t count) {
    (void)context;
    static const char text[] = "{% set ns = namespace(out='') %}{% for m in l %}{% set ns.out = "
                               "ns.out ~ '<' ~ m ~ '>' %}{% set ns.out = ns.out + m + '!' %}"
                               "{% endfor %}{{ ns.out }}";
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string("What they have said to one another"));
    lh_jinja_variable variable = {"l", list, false};
    lh_jinja_template *jinja;
    lh_jinja_rendering made = {0};
    lh_error error = {0};
    assert_int_equal(lh_jinja_template_parse(text, strlen(text), &jinja, &error), LH_OK);
    if (lh_jinja_template_render(jinja, &variable, 1, &day, &made, &error))
        fail_msg("%s", error.message);
    assert_int_equal(made.length, count * 71);
    assert_int_equal(made.span_count, 4 * count + 1);
    lh_jinja_rendering_reset(&made);
    lh_jinja_template_destroy(jinja);
    json_decref(list);
}

static void a_prompt_is_put_together_in_linear_time(void **state) {
    (void)state;
    assert_true(growth_of("messages", put_together, NULL, 2048) < GROWTH_LINEAR_MAX);
}

static void an_error_says_the_line_and_what_was_expected(void **state) {
    (void)state;
    expect_failure("a\n{% if x %}\nb", "{}", LH_ERR_UNSUPPORTED, "line 3");
    expect_failure("a\n{{ 1 + }}", "{}", LH_ERR_UNSUPPORTED,
                   "line 2 of the chat template: an expression is expected, not \"}}\"");
    expect_failure("{% for x y %}", "{}", LH_ERR_UNSUPPORTED, "in is expected, not \"y\"");
    expect_failure("{% include 'x' %}", "{}", LH_ERR_UNSUPPORTED, "\"include\"");
    expect_failure("\n\n{{ nothing.x }}", "{}", LH_ERR_INVALID, "line 3");
    expect_failure("{{ raise_exception('roles must alternate') }}", "{}", LH_ERR_INVALID,
                   "roles must alternate");
    expect_failure("{{ x | nosuch }}", "{}", LH_ERR_INVALID, "no filter 'nosuch'");
    expect_failure("{{ [].append(1) }}", "{}", LH_ERR_INVALID, "unsafe");
    expect_failure("{% break %}", "{}", LH_ERR_UNSUPPORTED, "a loop is expected");
    static const char *const cut[] = {"{{ d['\u00E9' * 50].x }}", "{{ d['a' + '\u00E9' * 50].x }}",
                                      "{{ raise_exception('\u00E9' * 500) }}",
                                      "{{ raise_exception('a' + '\u00E9' * 500) }}"};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        lh_jinja_rendering made = {0};
        lh_error error = {0};
        assert_int_equal(render_json(cut[i], "{\"d\":{}}", &made, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "\u00E9"));
        size_t length = strlen(error.message);
        assert_int_equal(lh_utf8_valid_prefix(error.message, length), length);
    }
}

static void a_hostile_template_is_stopped(void **state) {
    (void)state;
    static const char *const hostile[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 999999999999 }}",
        "{{ [0] * 999999999999 }}",
        "{{ '%99999999s' % 1 }}",
        "{{ 'x' | center(999999999) }}",
        "{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}"
        "{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('abs') %}"
        "{% endfor %}{{ ns.g | list }}",
        "{{ range(100001) }}",
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        expect_failure(hostile[i], "{}", LH_ERR_LIMIT, "line 1");
    char *deep = malloc(200000);
    memset(deep, '(', 100000);
    memcpy(deep, "{{", 2);
    deep[100000] = 0;
    expect_failure(deep, "{}", LH_ERR_UNSUPPORTED, "open brackets");
    for (size_t i = 0; i < 5000; i++)
        memcpy(deep + 2 + i * 4, "not ", 5);
    strcat(deep, "1 }}");
    expect_failure(deep, "{}", LH_ERR_LIMIT, "deeper");
    free(deep);
}

static void each_failed_allocation_is_an_error(void **state) {
    (void)state;
    const char *text = "{% for m in l %}{{ m | upper }}{% endfor %}{{ '-' * 100000 }}";
    for (size_t n = 1;; n++) {
        lh_jinja_template *jinja = NULL;
        lh_jinja_rendering made = {0};
        lh_error error = {0};
        json_t *list = json_pack("[s,s]", "a", "b");
        lh_jinja_variable variable = {"l", list, false};
        failing_malloc_arm(n);
        lh_status status = lh_jinja_template_parse(text, strlen(text), &jinja, &error);
        if (!status)
            status = lh_jinja_template_render(jinja, &variable, 1, &day, &made, &error);
        bool has_failed = failing_malloc_disarm();
        lh_jinja_rendering_reset(&made);
        lh_jinja_template_destroy(jinja);
        json_decref(list);
        assert_int_equal(status, has_failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!has_failed)
            break;
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_around_tags_goes_as_transformers_has_it),
        cmocka_unit_test(expressions_bind_as_in_python),
        cmocka_unit_test(statements_keep_their_variables),
        cmocka_unit_test(filters_and_tests_do_as_in_jinja),
        cmocka_unit_test(what_a_user_wrote_stays_data),
        cmocka_unit_test(texts_that_begin_alike_are_apart),
        cmocka_unit_test(a_prompt_is_put_together_in_linear_time),
        cmocka_unit_test(an_error_says_the_line_and_what_was_expected),
        cmocka_unit_test(a_hostile_template_is_stopped),
        cmocka_unit_test(each_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
