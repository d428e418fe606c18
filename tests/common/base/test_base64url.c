/* The vectors of RFC 4648, section 10, and that no bytes have two texts. */
#include "common/base/base64url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void vectors(void **state) {
    (void)state;
    static const char *const texts[] = {"", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
    for (size_t count = 0; count < sizeof texts / sizeof texts[0]; count++) {
        char text[16];
        uint8_t bytes[8];
        lh_base64url_render((const uint8_t *)"foobar", count, text);
        assert_string_equal(text, texts[count]);
        assert_int_equal(strlen(text) + 1, LH_BASE64URL_TEXT_BYTES(count));
        assert_true(lh_base64url_parse(text, strlen(text), bytes, count));
        assert_memory_equal(bytes, "foobar", count);
    }
}

static void the_alphabet_is_that_of_urls(void **state) {
    (void)state;
    char text[5];
    lh_base64url_render((const uint8_t[]){0xfb, 0xff, 0xbf}, 3, text);
    assert_string_equal(text, "-_-_");
}

static void each_byte_has_one_text(void **state) {
    (void)state;
    int taken = 0;
    for (int a = 1; a < 256; a++)
        for (int b = 1; b < 256; b++) {
            char text[3] = {(char)a, (char)b}, again[3];
            uint8_t byte;
            if (!lh_base64url_parse(text, 2, &byte, 1))
                continue;
            taken++;
            lh_base64url_render(&byte, 1, again);
            assert_string_equal(text, again);
        }
    assert_int_equal(taken, 256);
}

static void other_texts_are_refused(void **state) {
    (void)state;
    uint8_t bytes[4];
    assert_false(lh_base64url_parse("Zg==", 4, bytes, 1));
    assert_false(lh_base64url_parse("Zm9", 3, bytes, 2)); /* bits left over */
    assert_false(lh_base64url_parse("Zm9v", 4, bytes, 2));
    assert_false(lh_base64url_parse("Zm9", 3, bytes, 3));
    assert_false(lh_base64url_parse("Zm+v", 4, bytes, 3));
    assert_false(lh_base64url_parse("Zm9\n", 4, bytes, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors), cmocka_unit_test(the_alphabet_is_that_of_urls),
        cmocka_unit_test(each_byte_has_one_text), cmocka_unit_test(other_texts_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
