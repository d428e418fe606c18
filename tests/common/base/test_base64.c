/* The vectors of RFC 4648, section 10. */
#include "common/base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void vectors(void **state) {
    (void)state;
    static const char *const texts[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t count = 0; count < sizeof texts / sizeof texts[0]; count++) {
        char text[16];
        lh_base64_render((const uint8_t *)"foobar", count, text);
        assert_string_equal(text, texts[count]);
        assert_int_equal(strlen(text) + 1, LH_BASE64_TEXT_BYTES(count));
    }
}

static void the_alphabet_is_the_first_one(void **state) {
    (void)state;
    char text[5];
    lh_base64_render((const uint8_t[]){0xfb, 0xff, 0xbf}, 3, text);
    assert_string_equal(text, "+/+/");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(the_alphabet_is_the_first_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
