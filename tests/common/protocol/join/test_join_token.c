/* The word that is pasted. */
#include "common/protocol/join/join_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECRET "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"
#define TEXT   "lh1.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8.0123456789abcdef." SECRET

static lh_join_token counted(void) {
    lh_join_token token = {.id = "0123456789abcdef"};
    for (uint8_t i = 0; i < 32; i++) {
        token.pin[i] = i;
        token.secret[i] = (uint8_t)(32 + i);
    }
    return token;
}

static void rendered_and_parsed(void **state) {
    (void)state;
    lh_join_token token = counted(), parsed;
    char text[LH_JOIN_TOKEN_TEXT_BYTES];
    lh_join_token_render(&token, text);
    assert_string_equal(text, TEXT);
    assert_int_equal(strlen(text) + 1, sizeof text);
    assert_int_equal(lh_join_token_parse(text, &parsed, NULL), LH_OK);
    assert_memory_equal(&parsed, &token, sizeof token);
}

static void refused(const char *text, lh_status wanted, const char *phrase) {
    static const lh_join_token zeros;
    lh_join_token token;
    lh_error error;
    assert_int_equal(lh_join_token_parse(text, &token, &error), wanted);
    if (!strstr(error.message, phrase))
        fail_msg("\"%s\" does not say \"%s\"", error.message, phrase);
    /* what may be a secret stands in no message, and does not stay behind */
    assert_null(strstr(error.message, "ICEi"));
    assert_memory_equal(&token, &zeros, sizeof zeros);
}

static void what_is_none_is_refused(void **state) {
    (void)state;
    char text[sizeof TEXT + 1];
    refused("", LH_ERR_INVALID, "is no token");
    refused("ICEiIyQl", LH_ERR_INVALID, "is no token");
    refused("lh2.ICEi", LH_ERR_UNSUPPORTED, "another version");
    refused("lh1.", LH_ERR_INVALID, "has 4 characters in place of 108");
    memcpy(text, TEXT, sizeof TEXT);
    text[sizeof TEXT - 2] = '\0';
    refused(text, LH_ERR_INVALID, "has 107 characters");
    refused(TEXT "x", LH_ERR_INVALID, "has 109 characters");
}

/* Another letter anywhere gives another token or none, never the same one. */
static void each_letter_counts(void **state) {
    (void)state;
    const lh_join_token token = counted();
    for (size_t at = 0; at < sizeof TEXT - 1; at++)
        for (int letter = 1; letter < 256; letter++) {
            char text[sizeof TEXT] = TEXT;
            lh_join_token parsed;
            if (text[at] == (char)letter)
                continue;
            text[at] = (char)letter;
            if (lh_join_token_parse(text, &parsed, NULL) == LH_OK)
                assert_memory_not_equal(&parsed, &token, sizeof token);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rendered_and_parsed),
                                       cmocka_unit_test(what_is_none_is_refused),
                                       cmocka_unit_test(each_letter_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
