/* Normalization form C on a few characters of each kind; through a whole tokenizer, on many more,
 * test_tokenizer_vectors. */
#include "gateway/text/nfc.h"

#include "tests/support/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, const char *wanted) {
    lh_text_buffer out = {0};
    const char *composed;
    size_t length;
    assert_int_equal(lh_nfc_compose(text, strlen(text), &out, &composed, &length, NULL), LH_OK);
    assert_int_equal(length, strlen(wanted));
    assert_memory_equal(composed, wanted, length);
    lh_text_buffer_reset(&out);
}

static void composes(void **state) {
    (void)state;
    expect("", "");
    expect("plain", "plain");
    expect("caf\u00E9", "caf\u00E9");
    expect("cafe\u0301 x", "caf\u00E9 x");
    expect("a\u0323\u0302", "\u1EAD");             /* both marks */
    expect("a\u0302\u0323", "\u1EAD");             /* out of order */
    expect("\u212B\u2126\u212A", "\u00C5\u03A9K"); /* signs that are letters */
    expect("\u1112\u1161\u11AB", "\uD55C");        /* Hangul */
    expect("\u0915\u093C", "\u0915\u093C");        /* excluded from composition */
    expect("\u0958", "\u0915\u093C");
    expect("\u0301", "\u0301");
    expect("\uFB01 \u00BD", "\uFB01 \u00BD"); /* compatible is not canonical */
}

static void the_buffer_serves_text_after_text(void **state) {
    (void)state;
    lh_text_buffer out = {0};
    for (int i = 0; i < 3; i++) {
        const char *composed;
        size_t length;
        assert_int_equal(lh_nfc_compose("e\u0301", 3, &out, &composed, &length, NULL), LH_OK);
        assert_int_equal(length, 2);
    }
    lh_text_buffer_reset(&out);
}

static void compose_marks(void *context, size_t marks) {
    (void)context;
    size_t length;
    char *text = malloc(2 * marks);
    for (size_t i = 0; i < marks; i++)
        memcpy(text + 2 * i, i < marks / 2 ? "\u0301" : "\u0323", 2);
    lh_text_buffer out = {0};
    const char *composed;
    assert_int_equal(lh_nfc_compose(text, 2 * marks, &out, &composed, &length, NULL), LH_OK);
    assert_int_equal(length, 2 * marks);
    assert_memory_equal(composed, "\u0323", 2);
    lh_text_buffer_reset(&out);
    free(text);
}

/* A row of marks in the wrong order, which sorting by insertion would take minutes for. */
static void a_hostile_row_takes_no_longer(void **state) {
    (void)state;
    assert_true(growth_of("marks", compose_marks, NULL, 1U << 17) < GROWTH_LINEAR_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composes),
        cmocka_unit_test(the_buffer_serves_text_after_text),
        cmocka_unit_test(a_hostile_row_takes_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
