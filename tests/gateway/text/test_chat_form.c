/* The form of a template, byte by byte. That equal meanings have equal forms is
 * test_chat_template's. */
#include "gateway/text/chat_form.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The marks, in letters: O o around output, S s around a statement, Q at a string's ends. */
static void expect(const char *text, const char *wanted) {
    static const char letters[LH_CHAT_FORM_MARKS_END] = {0, 'O', 'o', 'S', 's', 'M', 'Q'};
    lh_text_buffer form = {0};
    lh_error error;
    if (lh_chat_form_read(text, strlen(text), &form, &error))
        fail_msg("%s: %s", text, error.message);
    for (size_t i = 0; i < form.length; i++)
        if ((unsigned char)form.bytes[i] < LH_CHAT_FORM_MARKS_END)
            form.bytes[i] = letters[(unsigned char)form.bytes[i]];
    if (form.length != strlen(wanted) ||
        (form.length && memcmp(form.bytes, wanted, form.length) != 0))
        fail_msg("%s: wanted \"%s\", got \"%.*s\"", text, wanted, (int)form.length, form.bytes);
    lh_text_buffer_reset(&form);
}

static void expressions(void **state) {
    (void)state;
    expect("", "");
    expect("{{ x }}", "Oxo");
    expect("{{ 'a' + x.b + \"c\" }}", "aOx[QbQ]oc");
    expect("{{ ((x)) }}", "Oxo");
    expect("{{ (x) + (y) }}", "O(x)oO(y)o");
    expect("{{ a + b if c else d }}", "Oa+b if c else do"); /* a choice is no sum */
    expect("{{ a.b() + c.d }}", "Oa.b()oOc[QdQ]o");         /* a method stays */
    expect("{{ 'x\\n\\'' }}", "x\n'");
    expect("{{ f('x\\n') }}", "Of(Qx\nQ)o");
    expect("{{ x is  not   None }}", "Ox is not noneo");
    expect("{{ {'a': 1} }}", "O{QaQ:1}o");
}

static void statements(void **state) {
    (void)state;
    expect("{% if (x == 'a') %}y{% endif %}", "Sif x==QaQsySendifs");
    expect("{% elif x and (y) %}", "Selif x and(y)s");
    expect("{% for m in ms %}", "Sfor m in mss");
    expect("{% set x = True %}", "Sset x=trues");
}

static void white_space(void **state) {
    (void)state;
    expect("a\n", "a"); /* the last line feed */
    expect("a\n\n", "a\n");
    expect("x  {%- a -%}  y", "xSasy");
    expect("x  {{- a -}}  y", "xOaoy");
    expect("x\n  {% a %}\ny", "x\nSasy"); /* lstrip_blocks, trim_blocks */
    expect("x  {% a %}\n\ny", "x  Sas\ny");
    expect("x\n  {{ a }}\ny", "x\n  Oao\ny");
    expect("x\n  {%+ a +%}\ny", "x\n  Sas\ny");
    expect("  {# c #}\ny", "y");
    expect("{% a %}\n  {% b %}", "SasSbs"); /* the line feed that was trimmed begins a line */
}

static void refuses_what_it_does_not_read(void **state) {
    (void)state;
    static const char *const texts[] = {"\1",          "a\6b",   "{{ '\2' }}", "{{ '\\u0041' }}",
                                        "{{ 'a\\' }}", "{{ x",   "{% if x }}", "{# x",
                                        "{{ }}",       "{{ ( }}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lh_text_buffer form = {0};
        if (lh_chat_form_read(texts[i], strlen(texts[i]), &form, NULL) != LH_ERR_UNSUPPORTED)
            fail_msg("read: %s", texts[i]);
        lh_text_buffer_reset(&form);
    }
    lh_text_buffer form = {0};
    assert_int_equal(lh_chat_form_read("a\0b", 3, &form, NULL), LH_ERR_UNSUPPORTED);
    lh_text_buffer_reset(&form);
}

static void survives_no_memory(void **state) {
    (void)state;
    static const char text[] = "{% for m in ms %}{{ 'a' + m.b }}{% endfor %}";
    size_t n = 1;
    for (;; n++) {
        lh_text_buffer form = {0};
        failing_malloc_arm(n);
        lh_status status = lh_chat_form_read(text, sizeof text - 1, &form, NULL);
        bool failed = failing_malloc_disarm();
        lh_text_buffer_reset(&form);
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        if (!failed)
            break;
    }
    assert_true(n > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions),        cmocka_unit_test(statements),
        cmocka_unit_test(white_space),        cmocka_unit_test(refuses_what_it_does_not_read),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
