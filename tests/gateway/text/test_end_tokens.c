/* Which tokens end a turn, and which are marks of a template. */
#include "gateway/text/end_tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static lh_text text(const char *of) {
    return (lh_text){of, strlen(of)};
}

static void known_names_end_a_turn(void **state) {
    (void)state;
    assert_true(lh_end_token_has_name(text("<|im_end|>")));
    assert_true(lh_end_token_has_name(text("</s>")));
    assert_false(lh_end_token_has_name(text("<|im_end|> ")));
    assert_false(lh_end_token_has_name(text("")));
}

static void what_a_template_writes_whole_is_a_mark(void **state) {
    (void)state;
    const lh_text written = text("<|begin|>{{ content }}<|done|><b>"), none = {"", 0};
    assert_true(lh_end_token_is_mark(text("<|begin|>"), written));
    assert_false(lh_end_token_is_mark(text("<|other|>"), written));
    assert_false(lh_end_token_is_mark(text("<b>"), written)); /* it may be text */
    assert_false(lh_end_token_is_mark(text("<|>"), text("<|>")));
    assert_false(lh_end_token_is_mark(text("<|begin|>"), none));
    assert_true(lh_end_token_is_mark(text("<|eot_id|>"), none));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names_end_a_turn),
        cmocka_unit_test(what_a_template_writes_whole_is_a_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
